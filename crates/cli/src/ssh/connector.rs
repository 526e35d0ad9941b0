//! Starts agents through ssh, and makes the connections of a transfer with one.
//! Does not explain what ssh says (`greeting`).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_api::login::Login;
use godwit_api::settings::CpSettings;
use godwit_engine::limits;
use godwit_engine::session::{Connector, Refusal};
use godwit_net::{
    Carrier, ClientTls, Connection, DialOptions, Expect, IdentityId, Look, PeerAddress, Reach,
    ReachError, ReachOptions, StreamOptions, bind_data_port, dial_over, piped,
};
use godwit_proto::ErrorCode;
use godwit_proto::agent::{AGENT_VERSION, AgentMessage as _, Start, Started as Answer};

use super::command::Rsh;
use super::greeting::Peer;
use super::process::SshProcess;
use super::{SOFTWARE, own_targets};

/// For finding a way to the data port, in all ways together.
const REACH_DEADLINE: Duration = Duration::from_secs(6);

/// What does not change from one agent to the next.
#[derive(Clone)]
pub(crate) struct SshOptions {
    pub(crate) rsh: Rsh,
    pub(crate) login: Login,
    pub(crate) data_ports: Option<(u16, u16)>,
    pub(crate) via_ssh: bool,
    pub(crate) retry_for: Duration,
    pub(crate) handshake_deadline: Duration,
    pub(crate) stall_limit: Duration,
    pub(crate) interrupted: Arc<AtomicBool>,
}

impl SshOptions {
    pub(crate) fn new(
        settings: &CpSettings,
        login: &Login,
        interrupted: &Arc<AtomicBool>,
        rsh: Rsh,
    ) -> Self {
        Self {
            rsh,
            login: login.clone(),
            data_ports: settings.data_ports,
            via_ssh: settings.via_ssh,
            retry_for: settings.retry_for,
            handshake_deadline: settings.handshake_deadline,
            stall_limit: settings.stall_deadline,
            interrupted: Arc::clone(interrupted),
        }
    }
}

/// What an agent is started for.
pub(crate) struct Order {
    /// Who will connect; `None` for an errand.
    pub(crate) client: Option<IdentityId>,
    /// Who sends, in the key of the journal.
    pub(crate) sender: String,
    /// Where who will connect listens.
    pub(crate) targets: Vec<SocketAddr>,
    /// That is this process, so that it may be seen at other addresses than those it knows of.
    pub(crate) from_here: bool,
}

/// An agent that answered.
pub(crate) struct Started {
    pub(crate) process: Arc<SshProcess>,
    /// What ssh carries from now on.
    pub(crate) socket: UnixStream,
    pub(crate) identity: IdentityId,
    /// Where it may be reached, the likeliest first.
    pub(crate) targets: Vec<SocketAddr>,
    pub(crate) port: u16,
    /// Of the exchange with agents, what it can do.
    pub(crate) capabilities: u64,
    /// What else came before its answer.
    pub(crate) noise: Vec<u8>,
    /// Content of blocks that it takes through ssh while there is no other way.
    pub(crate) early_bytes: u64,
}

/// Starts an agent; `first` is sent to it behind the order.
pub(crate) fn start(options: &SshOptions, order: &Order, first: &[u8]) -> Result<Started, Refusal> {
    let login = &options.login;
    let (port_first, port_last) = options.data_ports.unwrap_or((0, 0));
    let order = Start {
        version_min: AGENT_VERSION,
        version_max: AGENT_VERSION,
        software: SOFTWARE.to_owned(),
        identity: order.client.map(|id| id.to_string()).unwrap_or_default(),
        sender: order.sender.clone(),
        port_first: port_first.into(),
        port_last: port_last.into(),
        addresses: order.targets.iter().map(SocketAddr::to_string).collect(),
        port: order
            .targets
            .first()
            .filter(|_| order.from_here)
            .map_or(0, |first| first.port().into()),
        via_ssh: options.via_ssh,
        retry_for_ms: u64::try_from(options.retry_for.as_millis()).unwrap_or(u64::MAX),
        errand: order.client.is_none(),
        early_bytes: limits::EARLY_BYTES,
    };
    let own = |what: String| Refusal::Own(format!("{login}: {what}"));
    let mut words = order.to_bytes().map_err(|error| own(error.to_string()))?;
    words.extend_from_slice(first);
    let named = resolve(&login.host);
    let (process, mut socket) = SshProcess::start(&options.rsh.line(login, "agent --stdio"))
        .map_err(|error| own(format!("ssh cannot be started: {error}")))?;
    let (answer, noise): (Answer, Vec<u8>) = Peer {
        login,
        remote_command: &options.rsh.remote_command(),
        process: &process,
        interrupted: &options.interrupted,
    }
    .greet(&mut socket, &words)?;
    let identity = answer
        .identity
        .parse()
        .map_err(|error| own(format!("its agent broke the protocol: {error}")))?;
    let port = u16::try_from(answer.port).unwrap_or_default();
    let said = answer.addresses.iter().filter_map(|text| text.parse().ok());
    // A machine behind a translator of addresses does not know by which name it is reached; whoever dials does.
    let mut targets: Vec<SocketAddr> = Vec::new();
    for address in said.take(1).chain(named.try_iter().flatten()).chain(
        answer
            .addresses
            .iter()
            .skip(1)
            .filter_map(|text| text.parse().ok()),
    ) {
        let target = SocketAddr::new(address, port);
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(Started {
        process: Arc::new(process),
        socket,
        identity,
        targets,
        port,
        capabilities: answer.capabilities,
        noise,
        early_bytes: answer.early_bytes,
    })
}

/// The addresses of a host, as far as this machine knows it: it may be an alias of ssh's, or known at a jump host only.
fn resolve(host: &str) -> Receiver<Vec<IpAddr>> {
    let (answer, answers) = sync_channel(1);
    let host = host.to_owned();
    let body = move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        // Nobody may be waiting any more.
        let _ = answer.send(
            found
                .into_iter()
                .flatten()
                .map(|found| found.ip())
                .collect(),
        );
    };
    // Without it, the addresses that the other side says have to do.
    let _ = std::thread::Builder::new()
        .name("resolve".to_owned())
        .spawn(body);
    answers
}

/// Makes the connections of one transfer with an agent, which it starts anew when the transfer has to be opened anew.
pub(crate) struct SshConnector {
    options: SshOptions,
    sender: String,
    client: IdentityId,
    tls: ClientTls,
    agent: Mutex<Option<Arc<Live>>>,
    /// No connection is wanted any more.
    over: AtomicBool,
}

/// An agent that runs, as far as is known.
struct Live {
    process: Arc<SshProcess>,
    identity: IdentityId,
    port: u16,
    /// `None` where all goes through ssh.
    reach: Option<Reach>,
    /// Those that carry streams.
    relays: Mutex<Vec<SshProcess>>,
}

impl SshConnector {
    /// `client` is the identity of `tls`, made for this transfer alone.
    pub(crate) fn new(
        options: SshOptions,
        sender: String,
        client: IdentityId,
        tls: ClientTls,
    ) -> Self {
        Self {
            options,
            sender,
            client,
            tls,
            agent: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    fn stream_options(&self) -> StreamOptions {
        StreamOptions {
            stall_limit: self.options.stall_limit,
            ..StreamOptions::default()
        }
    }

    fn own(&self, what: impl std::fmt::Display) -> Refusal {
        Refusal::Own(format!("{}: {what}", self.options.login))
    }

    /// Another stream through ssh.
    fn relay(&self, live: &Live) -> Result<Connection, Refusal> {
        let login = &self.options.login;
        let line = self
            .options
            .rsh
            .line(login, &format!("agent --relay {}", live.port));
        let (process, mut socket) = SshProcess::start(&line)
            .map_err(|error| self.own(format!("ssh cannot be started: {error}")))?;
        let answer = Peer {
            login,
            remote_command: &self.options.rsh.remote_command(),
            process: &process,
            interrupted: &self.options.interrupted,
        }
        .greet(&mut socket, &[]);
        let gone = |message: String| {
            if live.process.ended().is_some() {
                Refusal::Gone(message)
            } else {
                later(login, message)
            }
        };
        match answer {
            Ok(_) => {}
            // The agent may be gone, or this login led to another machine of the same name.
            Err(Refusal::Start {
                message,
                authentication: false,
                ..
            }) => return Err(gone(message)),
            Err(other) => return Err(other),
        }
        let mut options = DialOptions::new(Expect::Identity(live.identity));
        options.deadline = self.options.handshake_deadline;
        options.stream = self.stream_options();
        let address = PeerAddress::new(&login.host, live.port);
        let (connection, _) = dial_over(Carrier::Unix(socket), &address, &self.tls, &options)
            .map_err(|error| gone(error.to_string()))?;
        let mut relays = locked(&live.relays);
        relays.retain(|relay| relay.ended().is_none());
        relays.push(process);
        Ok(connection)
    }

    fn reach(&self, live: &Live, reach: &Reach) -> Result<Connection, Refusal> {
        let look = || {
            let over = self.over.load(Ordering::Relaxed);
            if over || self.options.interrupted.load(Ordering::Relaxed) {
                Look::Stop
            } else if live.process.ended().is_some() {
                // What ssh started may be gone with it: whoever does not answer now will not come either.
                Look::DialOnly
            } else {
                Look::Wait
            }
        };
        reach.connect(&look).map_err(|error| {
            let login = &self.options.login;
            if look() == Look::DialOnly {
                Refusal::Gone(format!("the connection to {login} is lost"))
            } else if reach.has_worked() || look() == Look::Stop {
                later(login, error.to_string())
            } else {
                Refusal::Unreachable(format!(
                    "{}, or send all through ssh with --via-ssh",
                    unreachable(&login.to_string(), &error)
                ))
            }
        })
    }
}

impl Connector for SshConnector {
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal> {
        // What is left of the last agent goes before the next one comes.
        if let Some(last) = locked(&self.agent).take() {
            last.end();
        }
        let listener = if self.options.via_ssh {
            None
        } else {
            // Without one, the other side can still be dialled.
            bind_data_port(self.options.data_ports, false).ok()
        };
        let port = listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
            .map(|address| address.port());
        let order = Order {
            client: Some(self.client),
            sender: self.sender.clone(),
            targets: port.map_or_else(Vec::new, own_or_loopback),
            from_here: true,
        };
        let started = start(&self.options, &order, first)?;
        let reach = if self.options.via_ssh {
            None
        } else {
            let options = ReachOptions {
                targets: started.targets,
                identity: started.identity,
                tls: self.tls.clone(),
                deadline: REACH_DEADLINE,
                stream: self.stream_options(),
            };
            Some(Reach::new(options, listener).map_err(|error| self.own(error))?)
        };
        let mut stream = piped(
            started.socket,
            &self.options.login.to_string(),
            &self.stream_options(),
        )
        .map_err(|error| self.own(error))?;
        stream.set_relayed();
        if reach.is_some() {
            stream.carry_blocks_up_to(started.early_bytes.min(limits::EARLY_BYTES));
        }
        let live = Live {
            process: started.process,
            identity: started.identity,
            port: started.port,
            reach,
            relays: Mutex::default(),
        };
        *locked(&self.agent) = Some(Arc::new(live));
        Ok(stream)
    }

    fn join(&self, _channel: u32) -> Result<Connection, Refusal> {
        let Some(live) = locked(&self.agent).clone() else {
            return Err(Refusal::Gone("no agent runs".to_owned()));
        };
        match &live.reach {
            Some(reach) => self.reach(&live, reach),
            None => self.relay(&live),
        }
    }

    fn peer(&self) -> String {
        self.options.login.to_string()
    }

    fn end(&self, complete: bool) {
        self.over.store(true, Ordering::Relaxed);
        let Some(live) = locked(&self.agent).take() else {
            return;
        };
        // Threads that were making a connection may hold it a little longer.
        if complete {
            live.leave();
        } else {
            live.end();
        }
    }
}

impl Live {
    /// All has been said, and the agent ends by itself: how long ssh takes to tell is of no interest.
    fn leave(&self) {
        self.process.leave();
        locked(&self.relays).iter().for_each(SshProcess::leave);
    }

    fn end(&self) {
        self.process.end();
        locked(&self.relays).iter().for_each(SshProcess::end);
    }
}

/// A failure of the moment.
pub(super) fn later(login: &Login, message: String) -> Refusal {
    Refusal::Daemon {
        peer: login.to_string(),
        code: ErrorCode::INTERNAL,
        message,
        retryable: true,
    }
}

/// Without any other address it still has the one that ssh shows.
fn own_or_loopback(port: u16) -> Vec<SocketAddr> {
    let mut targets = own_targets(None, port);
    if targets.is_empty() {
        targets.push(SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port)));
    }
    targets
}

/// Begins the message about it.
pub(crate) const UNREACHABLE: &str = "no connection for data to";

/// No way for data.
pub(crate) fn unreachable(peer: &str, error: &ReachError) -> String {
    format!(
        "{UNREACHABLE} {peer}; tried: {error}. Open one of these ports in a firewall (--data-ports FIRST-LAST says which ports \
         may be used)"
    )
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
