//! `godwit agent`: this program on the other side of ssh, for one transfer; or a pipe to a running agent.
//! Not for people: its input and output are an exchange with another godwit.
//!
//! An agent without its client keeps its transfer for `--retry-for`. If no stream with blocks ever connected, the agent keeps the
//! transfer for ten seconds only, because the client's last word may have been lost with ssh.

mod errand;
mod list;
mod pipe;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use godwit_api::settings::{ConfigFile, Scope, ServeSettings, Typed, resolve};
use godwit_data_port::{Agent, AgentConfig, Announce};
use godwit_engine::limits;
use godwit_net::{
    Cipher, Identity, IdentityId, ServerTls, StreamOptions, bind_data_port, is_of_a_machine, piped,
};
use godwit_proto::agent::{
    AGENT_VERSION, AgentMessage, MessageReader, Start, Started, capability, versions_meet,
};

use crate::exit::{Exit, Failure, FailureCode};
use crate::home::{self, Home};
use crate::output::complain;
use crate::ssh::{SOFTWARE, own_targets, ssh_connection};
use godwit_node::outlet;
use godwit_run::{Process, bounds_of};

/// Runs the command.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    // The end of an ssh session is no reason to stop: the transfer may continue beside it.
    let ignored = Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, ignored).map_err(Failure::local)?;
    let mut input = pipe::input().map_err(Failure::local)?;
    let mut output = pipe::output().map_err(Failure::local)?;
    if let Some(port) = matches.get_one::<std::ffi::OsString>("relay") {
        let port = port.to_str().and_then(|text| text.parse().ok());
        let port = port.ok_or_else(|| Failure::usage("--relay needs a port number"))?;
        return relay(port, input, output);
    }
    if !matches.get_flag("stdio") {
        return Err(Failure::usage(
            "godwit agent is called by another godwit through ssh: godwit cp FILE HOST:PATH",
        ));
    }
    let prepared = receive(&mut input).and_then(|start| match check(&start)?.errand {
        true => errand::prepare(&start).map(Prepared::Errand),
        false => {
            let early_bytes = (!start.via_ssh).then_some(start.early_bytes);
            prepare(&start).map(|(agent, started)| Prepared::Agent(agent, started, early_bytes))
        }
    });
    match prepared {
        Ok(Prepared::Agent(agent, started, early_bytes)) => {
            say(&mut output, &started)?;
            serve(agent, early_bytes, input, output)
        }
        Ok(Prepared::Errand(prepared)) => {
            say(&mut output, &prepared.started)?;
            let home = prepared.home.clone();
            Ok(errand::run(prepared, input)
                .unwrap_or_else(|failure| errand::failed(&home, &failure)))
        }
        Err(failure) => {
            say(&mut output, &Started::refusal(SOFTWARE, &failure.message))?;
            complain(&failure.message);
            Ok(failure.code.into())
        }
    }
}

/// The prepared role of this program.
enum Prepared {
    /// With the content bytes that the client takes through ssh while there is no other path; `None` is all.
    Agent(Agent, Started, Option<u64>),
    Errand(errand::Prepared),
}

fn check(start: &Start) -> Result<&Start, Failure> {
    let theirs = (start.version_min, start.version_max);
    if !versions_meet((AGENT_VERSION, AGENT_VERSION), theirs) {
        return Err(Failure::new(
            FailureCode::VersionMismatch,
            format!(
                "this godwit ({SOFTWARE}) and the client's godwit ({}) share no version of the agent protocol; update the older one",
                start.software.escape_default()
            ),
        ));
    }
    Ok(start)
}

/// Makes the agent that the other side asks for.
fn prepare(start: &Start) -> Result<(Agent, Started), Failure> {
    godwit_sys::umask::clear();
    let home = home::open()?;
    home.journals()?;
    home.spill()?;
    let settings = settings(&home)?;
    let identity = Identity::ephemeral().map_err(Failure::local)?;
    let client: IdentityId = start.identity.parse().map_err(broken)?;
    let (listener, port) = listen(start)?;
    let from_ssh = ssh_connection().map(|(client, _)| client);
    let base = base()?;
    let config = AgentConfig {
        process: Process::with_pool(settings.memory_bytes),
        client,
        sender: start.sender.clone().into_bytes(),
        home: home.path().to_owned(),
        base,
        tls: ServerTls::new(&identity, &Cipher::ALL).map_err(Failure::local)?,
        announce: Announce::All,
        dial: dial_targets(start, from_ssh),
        handshake_deadline: settings.handshake_deadline,
        stall_limit: settings.stall_deadline,
        pool_bytes: usize::try_from(settings.memory_bytes).unwrap_or(usize::MAX),
        readers: bounds_of(settings.readers),
        writers: bounds_of(settings.writers),
        keep_for: Duration::from_millis(start.retry_for_ms).min(if start.via_ssh {
            KEPT_VIA_SSH
        } else {
            Duration::MAX
        }),
        log: Arc::new(|line: &str| complain(line)),
    };
    outlet::begin(|lines| complain(&format!("{lines} log lines were dropped here")))
        .map_err(Failure::local)?;
    let agent = Agent::start(config, listener).map_err(Failure::local)?;
    Ok((agent, started(&identity, port)))
}

/// Our identity and our listening addresses.
fn started(identity: &Identity, port: u16) -> Started {
    let addresses = own_targets(ssh_connection().map(|(_, server)| server), port);
    Started {
        version_min: AGENT_VERSION,
        version_max: AGENT_VERSION,
        software: SOFTWARE.to_owned(),
        identity: identity.id().to_string(),
        addresses: addresses
            .iter()
            .map(|target| target.ip().to_string())
            .collect(),
        port: port.into(),
        problem: String::new(),
        capabilities: capability::ALL,
        early_bytes: limits::EARLY_BYTES,
    }
}

/// Listens on one of the ports that the client allows.
fn listen(start: &Start) -> Result<(TcpListener, u16), Failure> {
    let ports = (start.port_first > 0).then_some((
        u16::try_from(start.port_first).unwrap_or_default(),
        u16::try_from(start.port_last).unwrap_or_default(),
    ));
    let listener = bind_data_port(ports, start.via_ssh).map_err(|error| {
        Failure::local(match ports {
            Some((first, last)) => {
                format!("no port of --data-ports {first}-{last} is free: {error}")
            }
            None => format!("this machine cannot listen on any port: {error}"),
        })
    })?;
    let port = listener.local_addr().map_err(Failure::local)?.port();
    Ok((listener, port))
}

/// Carries the first stream, and stays until the transfer is over.
fn serve(
    agent: Agent,
    early_bytes: Option<u64>,
    input: File,
    output: File,
) -> Result<Exit, Failure> {
    let (near, far) = UnixStream::pair().map_err(Failure::local)?;
    let closing = near.try_clone().map_err(Failure::local)?;
    let is_out = pipe::join(input, output, far).map_err(Failure::local)?;
    let last = near.try_clone().map_err(Failure::local)?;
    let peer = ssh_connection().map_or_else(|| "ssh".to_owned(), |(client, _)| client.to_string());
    let mut stream = piped(near, &peer, &StreamOptions::default()).map_err(Failure::local)?;
    if let Some(bytes) = early_bytes {
        stream.carry_blocks_up_to(bytes.min(limits::EARLY_BYTES));
    }
    let agent = Arc::new(agent);
    let watched = Arc::clone(&agent);
    std::thread::Builder::new()
        .name("gw-over".to_owned())
        .spawn(move || {
            watched.wait_for_transfer();
            // A client that waits for the end of a transfer on this stream alone sees the stream close.
            let _ = closing.shutdown(std::net::Shutdown::Both);
        })
        .map_err(Failure::local)?;
    agent.serve(stream);
    agent.finish();
    // The last messages must be out before this process ends. An ssh that takes no more data does not delay the end.
    let _ = last.shutdown(std::net::Shutdown::Both);
    let _ = is_out.recv_timeout(LAST_WORDS_PATIENCE);
    Ok(Exit::Complete)
}

/// With all connections through ssh, no stream outlives ssh, and a returning client can start another agent. A goodbye that
/// did not get through should not keep this agent for long.
const KEPT_VIA_SSH: Duration = Duration::from_secs(10);

/// Longest wait for the last words to ssh.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(2);

/// A pipe from ssh to the agent that listens on `port` of this machine.
fn relay(port: u16, input: File, mut output: File) -> Result<Exit, Failure> {
    let local = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
    let connected = std::net::TcpStream::connect_timeout(&local, Duration::from_secs(10));
    let socket = match connected {
        Ok(socket) => socket,
        Err(error) => {
            let problem = format!(
                "the agent of this transfer does not run on this machine ({error}); does the host name resolve to several machines?"
            );
            say(&mut output, &Started::refusal(SOFTWARE, &problem))?;
            return Ok(Exit::Failed);
        }
    };
    socket.set_nodelay(true).map_err(Failure::local)?;
    say(
        &mut output,
        &Started {
            version_min: AGENT_VERSION,
            version_max: AGENT_VERSION,
            software: SOFTWARE.to_owned(),
            ..Started::default()
        },
    )?;
    pipe::run(input, output, &socket).map_err(Failure::local)?;
    Ok(Exit::Complete)
}

/// Addresses to dial the peer at: the origin of the ssh connection first, then the addresses that the peer names.
fn dial_targets(start: &Start, from_ssh: Option<IpAddr>) -> Vec<SocketAddr> {
    let port = u16::try_from(start.port).unwrap_or_default();
    let mut targets: Vec<SocketAddr> = Vec::new();
    let said = start
        .addresses
        .iter()
        .filter_map(|text| text.parse().ok())
        .filter(|target: &SocketAddr| is_of_a_machine(target.ip()));
    let seen = from_ssh
        .filter(|_| port > 0)
        .map(|address| SocketAddr::new(address, port));
    for target in seen.into_iter().chain(said) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// The directory that relative paths start at: the home, as with ssh and similar programs.
fn base() -> Result<PathBuf, Failure> {
    match std::env::var_os("HOME").map(PathBuf::from) {
        Some(home) if home.is_absolute() => Ok(home),
        _ => std::env::current_dir().map_err(Failure::local),
    }
}

/// The settings of a node on this machine, as far as its user has set them.
fn settings(home: &Home) -> Result<ServeSettings, Failure> {
    let file = ConfigFile::load(&home.config())?;
    let values = resolve(
        Scope::Serve,
        &Typed::new(),
        &|name| std::env::var_os(name),
        &file,
    )?;
    Ok(ServeSettings::from_values(&values)?)
}

fn receive<M: AgentMessage>(input: &mut File) -> Result<M, Failure> {
    let mut reader = MessageReader::default();
    let mut buffer = [0; 4096];
    while reader.body().is_none() {
        let room = reader.wants().min(buffer.len());
        let bytes = match input.read(&mut buffer[..room]) {
            Ok(0) => return Err(Failure::new(FailureCode::PeerSilent, "the client hung up")),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::local(error)),
        };
        reader
            .take(&buffer[..bytes])
            .map_err(|_error| broken("the program at the other end is not godwit"))?;
    }
    M::from_body(reader.body().unwrap_or_default()).map_err(broken)
}

/// The failure for a nonsensical message of the client.
fn broken(what: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCode::ProtocolViolation, what)
}

fn say(output: &mut File, message: &impl AgentMessage) -> Result<(), Failure> {
    let bytes = message.to_bytes().map_err(Failure::local)?;
    output
        .write_all(&bytes)
        .and_then(|()| output.flush())
        .map_err(Failure::local)
}
