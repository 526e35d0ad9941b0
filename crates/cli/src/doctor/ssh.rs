//! The path to a machine that ssh reaches: ssh, the program there, the shell, data connections in both directions.
//! Opens no transfer: the agent there only answers questions.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use godwit_api::endpoint::SshPlace;
use godwit_api::login::Login;
use godwit_engine::session::{HELLO_DEADLINE, Refusal, our_hello, receive_frame};
use godwit_net::{
    Carrier, ClientTls, Connection, DialError, DialOptions, Expect, Identity, IdentityId, Look,
    PeerAddress, Reach, ReachOptions, Stream, StreamOptions, bind_data_port, dial_over, piped,
};
use godwit_proto::hello::capability;
use godwit_proto::{Frame, Hello, negotiate};

use super::Subject;
use super::ask::Asker;
use super::findings::Findings;
use super::node::{Path, span};
use crate::ssh::{Order, Rsh, SshOptions, Started, own_targets, start};
use godwit_run::client_tls;

/// Deadline of one data connection, with all its steps.
const DIAL_DEADLINE: Duration = Duration::from_secs(4);

/// Examines the machine. None if there is no connection.
pub(super) fn look(place: &SshPlace, subject: &Subject, findings: &mut Findings) -> Option<Path> {
    match examine(place, subject, findings) {
        Ok(path) => path,
        Err((name, message, mend)) => {
            findings.stop(name, message, mend);
            None
        }
    }
}

/// A finding that stops the examination: name, event, remedy.
type Stop = (&'static str, String, Option<String>);

fn examine(
    place: &SshPlace,
    subject: &Subject,
    findings: &mut Findings,
) -> Result<Option<Path>, Stop> {
    let settings = &subject.settings;
    let own = |error: String| ("ssh", error, None);
    let rsh = Rsh::new(&settings.rsh, &settings.remote_command)
        .map_err(|failure| own(failure.message))?;
    // Enough time to type a password.
    let time = settings.handshake_deadline * 6;
    let patience = Patience::new(time);
    let options = SshOptions::new(settings, &place.login, &patience.over, rsh);
    // As in a transfer: a key for this purpose only.
    let once = Identity::ephemeral().map_err(|error| own(error.to_string()))?;
    let tls = client_tls(settings.cipher, &once).map_err(|failure| own(failure.message))?;
    let listener = bind_data_port(settings.data_ports, false).ok();
    let port = listener
        .as_ref()
        .and_then(|listener| listener.local_addr().ok())
        .map(|address| address.port());
    let order = Order {
        client: Some(*once.id()),
        sender: "doctor".to_owned(),
        targets: port.map_or_else(Vec::new, |port| own_targets(None, port)),
        from_here: true,
    };
    let (mut hello, whose) = (Vec::new(), place.login.to_string());
    our_hello().encode(&mut hello);
    let asked = Instant::now();
    let started = start(&options, &order, &hello);
    let gave_up = patience.end().then_some(time);
    let Started {
        process,
        socket,
        identity,
        targets,
        noise,
        ..
    } = started.map_err(|refusal| refused(&refusal, &place.login, gave_up))?;
    let took = asked.elapsed();
    let lost = |error: String| ("ssh", error, None);
    let mut stream = piped(socket, &whose, &StreamOptions::default())
        .map_err(|error| lost(error.to_string()))?;
    let theirs = match receive_frame(&mut stream, HELLO_DEADLINE) {
        Ok(Frame::Hello(hello)) => hello,
        Ok(other) => return Err(lost(format!("sent {} instead of a hello", other.name()))),
        Err(error) => return Err(lost(error.to_string())),
    };
    findings.fine(
        "ssh",
        format!(
            "{whose} answered after {:.3} s, with its godwit",
            took.as_secs_f64()
        ),
    );
    shell(&whose, &noise, findings);
    if !versions(&theirs, findings) {
        return Ok(None);
    }
    let mut path = Path {
        software: theirs.software.clone(),
        ..Path::new(&whose)
    };
    if theirs.capabilities & capability::EXAMINE == 0 {
        let message = format!(
            "{} is too old to be examined",
            theirs.software.escape_default()
        );
        findings.note("version", message, Some("update it there".to_owned()));
        return Ok(Some(path));
    }
    let reaching = Reaching {
        targets,
        identity,
        tls,
        ports: settings.data_ports,
    };
    let mut asker = Asker {
        stream: &mut stream,
        whose: &whose,
        login: Some(&place.login),
    };
    let beside = (!settings.via_ssh).then_some((reaching, listener));
    look_at_data(&mut asker, beside, &mut path, findings);
    let wanted = match place.path.as_slice() {
        b"" => &b"~"[..],
        path => path,
    };
    let wanted = (!subject.far_gives).then_some(wanted);
    path.machine = asker.machine(wanted, settings, findings);
    stream.shutdown();
    drop(stream);
    // The errand is done, so the process ends without a signal.
    process.wait(Duration::from_secs(2));
    Ok(Some(path))
}

/// Measures the path of the data: a connection beside ssh, or else ssh.
fn look_at_data(
    asker: &mut Asker<'_>,
    beside: Option<(Reaching, Option<TcpListener>)>,
    path: &mut Path,
    findings: &mut Findings,
) {
    let data = match beside {
        Some((reaching, listener)) => reaching.look(asker, listener, findings),
        None => {
            let message = "all data goes through ssh (via-ssh is set), so no other port is needed; data beside ssh is faster";
            findings.note("data connections", message.to_owned(), None);
            None
        }
    };
    let Some(mut data) = data else {
        return measure(asker, path, findings);
    };
    let mut beside = Asker {
        stream: &mut data,
        whose: asker.whose,
        login: asker.login,
    };
    measure(&mut beside, path, findings);
    beside.measure_path(path, findings);
    data.shutdown();
}

/// Measures RTT and clock, on a connection after its hello.
fn measure(asker: &mut Asker<'_>, path: &mut Path, findings: &mut Findings) {
    match asker.clock() {
        Ok((clock, shortest)) => {
            let info = asker.stream.tcp_info().unwrap_or_default();
            let kernel = [info.round_trip_min, info.round_trip]
                .into_iter()
                .filter(|time| !time.is_zero() && *time < Duration::from_secs(3600))
                .min();
            path.round_trip = kernel.map_or(shortest, |seen| seen.min(shortest));
            let what = match kernel {
                Some(_) => "until it had answered",
                None => "through ssh, until it had answered",
            };
            findings.fine(
                "round trip",
                match kernel {
                    Some(seen) => format!(
                        "{:.3} ms on the network, {:.3} ms {what}",
                        seen.as_secs_f64() * 1e3,
                        shortest.as_secs_f64() * 1e3
                    ),
                    None => format!("{:.3} ms {what}", shortest.as_secs_f64() * 1e3),
                },
            );
            if let Some(clock) = clock {
                clock.report(asker.whose, findings);
                path.clock = Some(clock);
            }
        }
        Err(why) => findings.note(
            "round trip",
            format!("the RTT cannot be measured: {why}"),
            None,
        ),
    }
}

/// The remedy, unless the message already names one.
fn refused(refusal: &Refusal, login: &Login, gave_up: Option<Duration>) -> Stop {
    let message = refusal.to_string();
    if let Some(after) = gave_up {
        return (
            "ssh",
            format!(
                "{login}: ssh made no connection within {} s",
                after.as_secs()
            ),
            Some(format!(
                "find the step at which ssh stops: ssh -v {login} true. If it stops in the key exchange, full-size packets get lost on the path; as root on both machines: sysctl -w net.ipv4.tcp_mtu_probing=1"
            )),
        );
    }
    let by_itself = refusal.is_authentication() || message.contains(": ssh");
    let mend = by_itself.then(|| format!("make this command work first: ssh {login} true"));
    ("ssh", message, mend)
}

/// Ends an ssh that takes too long, because a user who looks for a fault must not wait for ever.
struct Patience {
    over: Arc<AtomicBool>,
    done: Option<SyncSender<()>>,
}

impl Patience {
    fn new(time: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (done, is_done) = sync_channel(1);
        let reported = Arc::clone(&over);
        // Without the thread, the user ends ssh.
        let _ = std::thread::Builder::new()
            .name("gw-patience".to_owned())
            .spawn(move || {
                if is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                    reported.store(true, Ordering::Relaxed);
                }
            });
        Self {
            over,
            done: Some(done),
        }
    }

    /// Stops the timer. Returns whether the time was over before.
    fn end(mut self) -> bool {
        drop(self.done.take());
        self.over.load(Ordering::Relaxed)
    }
}

fn shell(whose: &str, noise: &[u8], findings: &mut Findings) {
    if noise.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(&noise[..noise.len().min(100)]).into_owned();
    findings.note(
        "shell",
        format!(
            "the shell of {whose} prints {} bytes before a command runs ({}); godwit skips this text, scp and rsync do not",
            noise.len(),
            text.trim()
        ),
        Some("make it print in interactive shells only, for example with this first line of ~/.bashrc there: [ -t 0 ] || return".to_owned()),
    );
}

fn versions(theirs: &Hello, findings: &mut Findings) -> bool {
    match negotiate(&our_hello(), theirs) {
        Ok(agreed) => {
            findings.fine(
                "version",
                format!(
                    "{} there, protocol {}; {} is spoken",
                    theirs.software.escape_default(),
                    span(theirs.version_min, theirs.version_max),
                    agreed.version
                ),
            );
            true
        }
        Err(mismatch) => {
            findings.stop("version", mismatch.to_string(), None);
            false
        }
    }
}

/// The way that data connections are made.
struct Reaching {
    targets: Vec<SocketAddr>,
    identity: IdentityId,
    tls: ClientTls,
    ports: Option<(u16, u16)>,
}

impl Reaching {
    /// Tries all addresses in both directions; returns a connection after its hello, if one succeeds.
    fn look(
        &self,
        asker: &mut Asker<'_>,
        listener: Option<TcpListener>,
        findings: &mut Findings,
    ) -> Option<Connection> {
        let (from_here, first) = self.dial_all();
        let options = ReachOptions {
            targets: Vec::new(),
            identity: self.identity,
            tls: self.tls.clone(),
            deadline: DIAL_DEADLINE,
            stream: StreamOptions::default(),
        };
        let arrivals = Reach::new(options, listener).ok();
        let from_there = match asker.dialled() {
            Ok(answer) => answer
                .dialled
                .into_iter()
                .map(|dialled| (dialled.address, dialled.problem))
                .collect(),
            Err(why) => vec![("all".to_owned(), why.to_string())],
        };
        self.report(&from_here, &from_there, findings);
        let mut ways = first.into_iter().chain(
            arrivals
                .iter()
                .filter(|_| from_there.iter().any(|(_, problem)| problem.is_empty()))
                .filter_map(|reach| reach.connect(&|| Look::Wait).ok()),
        );
        ways.find_map(|mut stream| greet(&mut stream).then_some(stream))
    }

    fn report(
        &self,
        from_here: &[(String, String)],
        from_there: &[(String, String)],
        findings: &mut Findings,
    ) {
        let works = |tried: &[(String, String)]| tried.iter().any(|(_, why)| why.is_empty());
        let (out, back) = (works(from_here), works(from_there));
        let shown = |tried: &[(String, String)]| {
            let each = tried.iter().map(|(address, why)| match why.as_str() {
                "" => format!("{address} works"),
                why => format!("{address} does not ({why})"),
            });
            match each.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "no address is known".to_owned(),
                all => all,
            }
        };
        let message = format!(
            "dialled from here: {}; from there: {}",
            shown(from_here),
            shown(from_there)
        );
        let ports = self.ports.map_or_else(
            || "a range of ports, named with --data-ports FIRST-LAST".to_owned(),
            |(first, last)| format!("TCP ports {first}-{last}"),
        );
        match (out, back) {
            (false, false) => findings.stop(
                "data connections",
                message,
                Some(format!("open {ports} in a firewall, in either direction; or send all through ssh, which is slower: --via-ssh")),
            ),
            (true, true) => findings.fine("data connections", message),
            _ => findings.note(
                "data connections",
                format!("{message}; one direction is enough"),
                None,
            ),
        }
    }

    /// Dials each address separately. Returns the outcome of each, and the first connection.
    fn dial_all(&self) -> (Vec<(String, String)>, Option<Connection>) {
        let (outcomes, outcome) = sync_channel(self.targets.len().max(1));
        for (number, target) in self.targets.iter().copied().enumerate() {
            let (outcomes, tls, identity) = (outcomes.clone(), self.tls.clone(), self.identity);
            let body = move || {
                let dialled = dial_one(target, &tls, identity);
                // The receiver waits for the outcome of each address.
                let _ = outcomes.send((number, dialled));
            };
            // An address that cannot be tried does not answer.
            let _ = std::thread::Builder::new()
                .name("gw-dial".to_owned())
                .spawn(body);
        }
        drop(outcomes);
        let unknown = || "the test could not run".to_owned();
        let mut all: Vec<(String, String)> = self
            .targets
            .iter()
            .map(|target| (target.to_string(), unknown()))
            .collect();
        let mut first = None;
        for (number, dialled) in outcome {
            all[number].1 = match dialled {
                Ok(connection) => {
                    first.get_or_insert(connection);
                    String::new()
                }
                Err(why) => why,
            };
        }
        (all, first)
    }
}

fn dial_one(
    target: SocketAddr,
    tls: &ClientTls,
    identity: IdentityId,
) -> Result<Connection, String> {
    let address = PeerAddress::new(&target.ip().to_string(), target.port());
    let socket =
        TcpStream::connect_timeout(&target, DIAL_DEADLINE).map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => "no answer".to_owned(),
            _ => error.to_string(),
        })?;
    let mut options = DialOptions::new(Expect::Identity(identity));
    options.deadline = DIAL_DEADLINE;
    match dial_over(Carrier::Tcp(socket), &address, tls, &options) {
        Ok((connection, _)) => Ok(connection),
        Err(DialError::WrongIdentity { .. } | DialError::NotGodwit { .. }) => {
            Err("another program answers there".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Exchanges the first messages on a data connection.
fn greet(stream: &mut Connection) -> bool {
    let mut hello = Vec::new();
    our_hello().encode(&mut hello);
    stream.send_all(&hello).is_ok()
        && matches!(receive_frame(stream, HELLO_DEADLINE), Ok(Frame::Hello(_)))
}
