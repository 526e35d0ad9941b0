//! Makes the connections of a transfer with an agent.
//! Does not start the agent (`start`), and does not explain the messages of ssh (`greeting`).
//!
//! A new agent replaces one that is gone. `godwit_net::Reach` finds the path for data: all addresses at once, or the agent dials
//! while this side waits.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::login::Login;
use godwit_api::settings::CpSettings;
use godwit_engine::limits;
use godwit_engine::session::{Connector, Refusal, WishedChannels, their_addresses};
use godwit_net::{
    Carrier, ChannelWish, Channels, ClientTls, Connection, DialError, DialOptions, Expect,
    IdentityId, Look, PeerAddress, Reach, ReachError, ReachOptions, Stream, StreamOptions,
    TheirAddress, bind_data_port, channel_of, dial_over, piped,
};
use godwit_proto::{ErrorCode, Opened};
use godwit_run::UNREACHABLE;

use super::command::{CARRIED, Rsh};
use super::greeting::{AnswerLimit, Peer};
use super::own_targets;
use super::process::SshProcess;
use super::start::{Order, start};
use crate::connectors::ask;

/// Deadline for finding a path to the data port, over all attempts.
const REACH_DEADLINE: Duration = Duration::from_secs(6);

/// Options that all agents of a transfer share.
#[derive(Clone)]
pub(crate) struct SshOptions {
    pub(crate) rsh: Rsh,
    pub(crate) login: Login,
    pub(crate) data_ports: Option<(u16, u16)>,
    /// The only network paths for data; empty: all paths found.
    pub(crate) channels: Vec<ChannelWish>,
    pub(crate) via_ssh: bool,
    pub(crate) retry_for: Duration,
    pub(crate) handshake_deadline: Duration,
    pub(crate) stall_limit: Duration,
    pub(crate) interrupted: Arc<AtomicBool>,
    pub(crate) carrying: Carrying,
}

/// Whether this program carries itself to a machine that has none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Carrying {
    /// The user has said so.
    Yes,
    /// The user is asked, if there is a terminal.
    Ask,
    /// Never.
    No,
}

impl Carrying {
    /// By the setting; `quiet` is a user who cannot be asked.
    pub(crate) fn of(setting: bool, quiet: bool) -> Self {
        match (setting, quiet) {
            (true, _) => Self::Yes,
            (false, true) => Self::No,
            (false, false) => Self::Ask,
        }
    }
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
            channels: Vec::new(),
            via_ssh: settings.via_ssh,
            retry_for: settings.retry_for,
            handshake_deadline: settings.handshake_deadline,
            stall_limit: settings.stall_deadline,
            interrupted: Arc::clone(interrupted),
            carrying: Carrying::No,
        }
    }

    /// Whether the user agrees that this program carries itself to the other machine.
    pub(super) fn may_carry(&self) -> Result<bool, Refusal> {
        match self.carrying {
            Carrying::Yes => Ok(true),
            Carrying::No => Ok(false),
            Carrying::Ask => {
                let question = format!(
                    "{} has no godwit. Carry this one there by ssh, to {CARRIED}? [y/N] ",
                    self.login
                );
                ask(&question).map_err(godwit_run::refusal_of)
            }
        }
    }

    /// How long ssh may take to bring an answer without questions to the user: the retry time, and at least the time of one handshake.
    pub(super) fn answer_limit(&self) -> AnswerLimit {
        AnswerLimit {
            unattended: self.rsh.is_unattended(),
            patience: self.retry_for.max(self.handshake_deadline),
        }
    }
}

/// Makes the connections of one transfer with an agent, and starts a new agent when the transfer restarts.
pub(crate) struct SshConnector {
    options: SshOptions,
    sender: String,
    client: IdentityId,
    tls: ClientTls,
    agent: Mutex<Option<Arc<Live>>>,
    /// No further connection is wanted.
    over: AtomicBool,
    /// All wished channels were available once.
    fulfilled: AtomicBool,
}

/// An agent that is believed to run.
struct Live {
    process: Arc<SshProcess>,
    identity: IdentityId,
    port: u16,
    /// `None` if all data goes through ssh.
    reach: Option<Reach>,
    channels: Channels,
    /// Further addresses of the agent, from the agent itself.
    their: Mutex<Vec<TheirAddress>>,
    /// The address that was tried first.
    named: Option<SocketAddr>,
    /// The ssh processes that carry streams.
    relays: Mutex<Vec<SshProcess>>,
}

impl SshConnector {
    /// Makes a connector. `client` is the identity of `tls`, made for this transfer alone.
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
            fulfilled: AtomicBool::new(false),
        }
    }

    fn stream_options(&self) -> StreamOptions {
        StreamOptions {
            stall_limit: self.options.stall_limit,
            ..StreamOptions::default()
        }
    }

    fn own(&self, what: impl std::fmt::Display) -> Refusal {
        Refusal::own(ErrorCode::SSH, format!("{}: {what}", self.options.login))
    }

    /// Opens another stream through ssh.
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
            limit: self.options.answer_limit(),
        }
        .greet(&mut socket, &[]);
        let gone = |message: String| {
            if live.process.ended().is_some() {
                Refusal::Gone(message)
            } else {
                temporary_failure(login, message)
            }
        };
        match answer {
            Ok(_) => {}
            // The agent may be gone, or this login may have reached another machine of the same name.
            Err(Refusal::Start { message, code, .. }) if code != ErrorCode::SSH_DENIED => {
                return Err(gone(format!("{login}: {message}")));
            }
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
                // The agent may have ended with its ssh. An address that does not answer now never will.
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
                temporary_failure(login, error.to_string())
            } else {
                Refusal::Unreachable(format!(
                    "{}, or send all data through ssh with --via-ssh",
                    unreachable(&login.to_string(), &error)
                ))
            }
        })
    }
}

impl Connector for SshConnector {
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal> {
        // The last agent ends before the next one starts.
        if let Some(last) = locked(&self.agent).take() {
            last.end();
        }
        let listener = if self.options.via_ssh {
            None
        } else {
            // Without a listener, the other side can still be dialled.
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
        let mut dialling = DialOptions::new(Expect::Identity(started.identity));
        dialling.deadline = self.options.handshake_deadline;
        dialling.stream = self.stream_options();
        let named = started.targets.first().copied();
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
            channels: Channels::new(self.tls.clone(), dialling),
            their: Mutex::default(),
            named,
        };
        *locked(&self.agent) = Some(Arc::new(live));
        Ok(stream)
    }

    fn opened(&self, opened: &Opened) -> Result<(), Refusal> {
        let Some(live) = locked(&self.agent).clone() else {
            return Ok(());
        };
        let their = their_addresses(opened);
        let wishes = self.options.channels.clone();
        if wishes.is_empty() || live.reach.is_none() {
            *locked(&live.their) = their;
            return Ok(());
        }
        let wishing = WishedChannels {
            channels: &live.channels,
            peer: self.peer(),
            again: self.fulfilled.load(Ordering::Relaxed),
        };
        let proven = wishing.fulfil(wishes, &their, live.named)?;
        let spare = |(channel, connection)| (channel, Some(connection));
        live.channels.begin(proven.into_iter().map(spare).collect());
        self.fulfilled.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn channels(&self) -> u32 {
        let live = locked(&self.agent).clone();
        live.map_or(1, |live| live.channels.count().max(1))
    }

    fn join(&self, channel: u32) -> Result<Connection, Refusal> {
        let Some(live) = locked(&self.agent).clone() else {
            return Err(Refusal::Gone("no agent runs".to_owned()));
        };
        let Some(reach) = &live.reach else {
            return self.relay(&live);
        };
        if (channel > 0 || live.channels.count() > 1 || !self.options.channels.is_empty())
            && let Some(connected) = live.channels.connect(channel)
        {
            let gone = live.process.ended().is_some();
            return connected.map_err(|error| match error {
                DialError::Connect { .. } if gone => Refusal::Gone(error.to_string()),
                error => Refusal::Dial(error),
            });
        }
        let connection = self.reach(&live, reach)?;
        live.note_path(&connection);
        Ok(connection)
    }

    fn makes_more(&self) -> bool {
        // The other end dials as many as its order said. Through ssh, one more stream is not one more path.
        let live = locked(&self.agent).clone();
        live.is_some_and(|live| live.reach.as_ref().is_some_and(Reach::dials))
    }

    fn peer(&self) -> String {
        self.options.login.to_string()
    }

    fn end(&self, complete: bool) {
        self.over.store(true, Ordering::Relaxed);
        let Some(live) = locked(&self.agent).take() else {
            return;
        };
        // Threads that were making a connection may hold the agent a little longer.
        if complete {
            live.leave();
        } else {
            live.end();
        }
    }
}

impl Live {
    /// Records the first path as a channel, and looks for others beside it. If the other side had to dial, there is one channel.
    fn note_path(&self, connection: &Connection) {
        if let Some(way) = connection.pulse()
            && self.channels.is_empty()
            && way.remote().port() == self.port
        {
            let first = channel_of(way.local(), way.remote());
            self.channels.begin(vec![(first, None)]);
            self.channels.find(&locked(&self.their));
        }
    }

    /// Leaves an agent that is finished and will end. The end of its ssh does not matter.
    fn leave(&self) {
        self.channels.stop();
        self.process.leave();
        locked(&self.relays).iter().for_each(SshProcess::leave);
    }

    fn end(&self) {
        self.channels.stop();
        let until = Instant::now() + GOODBYE_PATIENCE;
        let end = |process: &SshProcess| {
            process.end_after(until.saturating_duration_since(Instant::now()));
        };
        end(&self.process);
        locked(&self.relays).iter().for_each(end);
    }
}

/// How long all processes of an incomplete transfer may take to end. They pass the goodbye on, the other side syncs its data, and each
/// machine may be busy. An ssh that gets a signal to end drops its unsent data.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);

/// A temporary failure.
pub(super) fn temporary_failure(login: &Login, message: String) -> Refusal {
    Refusal::Daemon {
        peer: login.to_string(),
        code: ErrorCode::SSH,
        message,
        retryable: true,
    }
}

/// The addresses of this machine, or else the loopback address. The client also tries the address of the other machine that ssh reports.
fn own_or_loopback(port: u16) -> Vec<SocketAddr> {
    let mut targets = own_targets(None, port);
    if targets.is_empty() {
        targets.push(SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port)));
    }
    targets
}

/// The message on a missing path for data.
pub(crate) fn unreachable(peer: &str, error: &ReachError) -> String {
    format!(
        "{UNREACHABLE} {peer}; tried: {error}. Open one of these ports in a firewall (--data-ports FIRST-LAST says which ports \
         may be used)"
    )
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
