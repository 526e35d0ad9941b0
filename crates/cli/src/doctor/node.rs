//! The path to a node: whether it answers, its identity, version and RTT, and our access there.
//! Opens no transfer: every request is refused, and the reason shows what would be allowed.

use std::time::{Duration, Instant};

use godwit_api::endpoint::NodePlace;
use godwit_engine::session::{HELLO_DEADLINE, our_hello, receive_frame};
use godwit_net::{
    ClientTls, Connection, DialError, DialOptions, Expect, Identity, IdentityId, KnownPeers,
    PeerAddress, Stream, dial,
};
use godwit_proto::hello::capability;
use godwit_proto::{Direction, ErrorCode, Frame, Hello, MachineSeen, Open, negotiate};
use godwit_run::ciphers;

use super::ask::{Asker, Unanswered};
use super::clock::Difference;
use super::findings::{Findings, Level};
use super::{Node, Subject};

/// The known facts about another side that answers, and about the path to it.
pub(super) struct Path {
    /// The other side, for people.
    pub(super) whose: String,
    /// The shortest RTT; zero if none was measured.
    pub(super) round_trip: Duration,
    /// Largest packet from here; 0 if the kernel does not report it.
    pub(super) mtu_bytes: u32,
    /// Largest packet from there; 0 if the kernel does not report it.
    pub(super) mtu_bytes_back: u32,
    /// Content of a packet; 0 if the kernel does not report it.
    pub(super) segment_bytes: u32,
    /// Name and version of the program there.
    pub(super) software: String,
    /// The clock there.
    pub(super) clock: Option<Difference>,
    /// The machine there.
    pub(super) machine: Option<MachineSeen>,
}

impl Path {
    pub(super) fn new(whose: &str) -> Self {
        Self {
            whose: whose.to_owned(),
            round_trip: Duration::ZERO,
            mtu_bytes: 0,
            mtu_bytes_back: 0,
            segment_bytes: 0,
            software: String::new(),
            clock: None,
            machine: None,
        }
    }
}

/// A range of versions.
pub(super) fn span(min: u32, max: u32) -> String {
    if min == max {
        format!("{min}")
    } else {
        format!("{min} to {max}")
    }
}

/// Examines the node. None if there is no connection.
pub(super) fn look(node: &Node, subject: &Subject, findings: &mut Findings) -> Option<Path> {
    let address = PeerAddress::new(&node.node.host, node.node.port);
    let (identity, ours) = identity(subject, findings)?;
    let tls = match ClientTls::new(&identity, &ciphers(subject.settings.cipher)) {
        Ok(tls) => tls,
        Err(error) => {
            findings.stop("identity", error.to_string(), None);
            return None;
        }
    };
    let known = match KnownPeers::new(subject.home.path()).find(&address) {
        Ok(known) => known,
        Err(error) => {
            findings.stop("known nodes", error.to_string(), None);
            return None;
        }
    };
    let caller = Caller {
        address,
        tls,
        known,
        deadline: subject.settings.handshake_deadline,
    };
    let (mut stream, hello, mut path) = match caller.greet(findings) {
        Ok(greeted) => greeted,
        Err(finding) => {
            let (name, message, mend) = *finding;
            findings.stop(name, message, mend);
            return None;
        }
    };
    caller.versions(&hello, findings);
    let known = ours && known.is_some();
    let place = node
        .export
        .as_ref()
        .filter(|_| known)
        .map(NodePlace::to_wire);
    let writes = place
        .as_ref()
        .is_some_and(|place| caller.grants(place, findings));
    if !known {
        // A refused client learns nothing more.
        report_path(&path, findings);
    } else if hello.capabilities & capability::EXAMINE == 0 {
        report_path(&path, findings);
        let message = format!(
            "{} is too old to be examined",
            hello.software.escape_default()
        );
        findings.note("version", message, Some("update it there".to_owned()));
    } else {
        let whose = caller.address.to_string();
        let mut asker = Asker {
            stream: &mut stream,
            whose: &whose,
            login: None,
        };
        let measured = place.filter(|_| writes && !subject.far_gives);
        look_there(
            &mut asker,
            &mut path,
            measured.as_deref(),
            subject,
            findings,
        );
    }
    stream.shutdown();
    Some(path)
}

/// Examines everything that the other side shows to a known client.
fn look_there(
    asker: &mut Asker<'_>,
    path: &mut Path,
    measured: Option<&[u8]>,
    subject: &Subject,
    findings: &mut Findings,
) {
    match asker.clock() {
        Ok((clock, shortest)) => {
            path.round_trip = path.round_trip.min(shortest);
            report_path(path, findings);
            if let Some(clock) = clock {
                clock.report(asker.whose, findings);
                path.clock = Some(clock);
            }
        }
        Err(Unanswered::Refused(why)) => {
            report_path(path, findings);
            // The finding on access has the same reason.
            let why = match findings.would_stop() {
                true => "the node does not let this identity in".to_owned(),
                false => why,
            };
            findings.note("clock", format!("the answer is missing: {why}"), None);
            return;
        }
        Err(why) => {
            report_path(path, findings);
            findings.note(
                "clock",
                format!("the clocks cannot be compared: {why}"),
                None,
            );
            return;
        }
    }
    asker.measure_path(path, findings);
    path.machine = asker.machine(measured, &subject.settings, findings);
}

fn report_path(path: &Path, findings: &mut Findings) {
    let message = format!("{:.3} ms", path.round_trip.as_secs_f64() * 1e3);
    findings.fine("round trip", message);
}

/// Our identity, or a temporary one; the flag says whether it is ours.
fn identity(subject: &Subject, findings: &mut Findings) -> Option<(Identity, bool)> {
    let found = Identity::find(subject.home.path()).and_then(|found| match found {
        Some(identity) => Ok((identity, true)),
        None => Identity::ephemeral().map(|identity| (identity, false)),
    });
    match found {
        Ok((identity, true)) => {
            findings.fine("identity", identity.id().to_string());
            Some((identity, true))
        }
        Ok((identity, false)) => {
            findings.stop(
                "identity",
                "there is none yet".to_owned(),
                Some("godwit id; and the node's operator, with what that prints: godwit access allow IDENTITY --export NAME --read".to_owned()),
            );
            Some((identity, false))
        }
        Err(error) => {
            findings.stop("identity", error.to_string(), None);
            None
        }
    }
}

/// A finding that stops the examination: name, event, remedy.
type Stop = Box<(&'static str, String, Option<String>)>;

/// The caller and its peer.
struct Caller {
    address: PeerAddress,
    tls: ClientTls,
    known: Option<IdentityId>,
    deadline: Duration,
}

impl Caller {
    fn dial(&self) -> Result<(Connection, IdentityId), DialError> {
        let expect = self.known.map_or(Expect::Anyone, Expect::Identity);
        let mut options = DialOptions::new(expect);
        options.deadline = self.deadline;
        dial(&self.address, &self.tls, &options)
    }

    /// Connects and exchanges the first messages.
    fn greet(&self, findings: &mut Findings) -> Result<(Connection, Hello, Path), Stop> {
        let (mut stream, found) = self.dial().map_err(|error| self.undialled(&error))?;
        match self.known {
            Some(_) => findings.fine("node", format!("{} is {found}, as trusted", self.address)),
            None => findings.stop(
                "node",
                format!("{} says it is {found}, and is not known here", self.address),
                Some(format!(
                    "if its operator confirms this identity (with godwit id on that machine): godwit trust {} {found}",
                    self.address
                )),
            ),
        }
        let failed = |what: String| -> Stop { Box::new(("node", what, None)) };
        let mut head = Vec::new();
        our_hello().encode(&mut head);
        let asked = Instant::now();
        stream
            .send_all(&head)
            .map_err(|error| failed(error.to_string()))?;
        let hello = match receive_frame(&mut stream, HELLO_DEADLINE) {
            Ok(Frame::Hello(hello)) => hello,
            Ok(Frame::Error(error)) => {
                return Err(failed(format!("{}: {}", self.address, error.message)));
            }
            Ok(other) => {
                return Err(failed(format!(
                    "{}: sent sent {} instead of a hello",
                    self.address,
                    other.name()
                )));
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let answered = asked.elapsed();
        let info = stream.tcp_info().unwrap_or_default();
        let seen = [info.round_trip_min, info.round_trip]
            .into_iter()
            .filter(|time| !time.is_zero() && *time < Duration::from_secs(3600))
            .min();
        let path = Path {
            round_trip: seen.map_or(answered, |seen| seen.min(answered)),
            mtu_bytes: info.path_mtu_bytes,
            segment_bytes: info.segment_bytes,
            software: hello.software.clone(),
            ..Path::new(&self.address.to_string())
        };
        Ok((stream, hello, path))
    }

    fn undialled(&self, error: &DialError) -> Stop {
        let mend = match error {
            DialError::Connect { source, .. }
                if source.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                "start a node there with: godwit serve --export NAME=PATH; or name the port that the node listens on"
                    .to_owned()
            }
            DialError::Connect { .. } => format!(
                "check that the host is up and that firewalls let TCP port {} through",
                self.address.port()
            ),
            DialError::Resolve { .. } => "check the name".to_owned(),
            DialError::NotGodwit { .. } => {
                "name the port of godwit serve; the default is 7272".to_owned()
            }
            DialError::WrongIdentity { found, .. } => format!(
                "if its operator confirms that the key was replaced: godwit trust {} {found}",
                self.address
            ),
            _ => "try again; if it fails again, ask the node's operator".to_owned(),
        };
        Box::new(("node", error.to_string(), Some(mend)))
    }

    fn versions(&self, hello: &Hello, findings: &mut Findings) {
        match negotiate(&our_hello(), hello) {
            Ok(agreed) => findings.fine(
                "version",
                format!(
                    "{} there, protocol {}; {} is spoken",
                    hello.software,
                    span(hello.version_min, hello.version_max),
                    agreed.version
                ),
            ),
            Err(mismatch) => findings.stop("version", mismatch.to_string(), None),
        }
    }

    /// Whether the place may be written to. Asks for a path that cannot exist: the answer shows whether access or only the path is missing.
    fn grants(&self, place: &[u8], findings: &mut Findings) -> bool {
        let below = format!("/.godwit-doctor-{}/x", std::process::id());
        let nowhere = [place, below.as_bytes()].concat();
        let read = Open {
            direction: Direction::PULL.0,
            sources: vec![nowhere.clone()],
            ..self.request()
        };
        let write = Open {
            direction: Direction::PUSH.0,
            sources: vec![b"doctor".to_vec()],
            names: vec![b"doctor".to_vec()],
            destination: nowhere,
            ..self.request()
        };
        let answers = [self.ask(&read), self.ask(&write)];
        let may = answers.iter().filter(|answer| answer.is_none()).count();
        let writes = answers[1].is_none();
        let level = if may == 0 { Level::Stop } else { Level::Note };
        let shown = String::from_utf8_lossy(place);
        let both = matches!(&answers, [Some(read), Some(write)] if read == write);
        let verbs = match both {
            true => ["read or written", ""],
            false => ["read", "written"],
        };
        let answers = answers.into_iter().zip(verbs);
        for (answer, verb) in answers.filter(|(_, verb)| !verb.is_empty()) {
            match answer {
                None => findings.fine("access", format!("{shown} may be {verb}")),
                Some(reason) => {
                    // The path in the reason does not exist, and the user did not name it.
                    let reason = reason.replace(&below, "");
                    let mend = reason.split_once("godwit access allow ").map(|(_, rest)| {
                        let rest = rest.replace(": --", " --");
                        format!("the node's operator: godwit access allow {rest}")
                    });
                    // The remedy stands in a line behind the reason.
                    let (why, _) = reason
                        .split_once("; its operator can grant you access")
                        .unwrap_or((&reason, ""));
                    findings.add(
                        "access",
                        level,
                        format!("{shown} cannot be {verb}: {why}"),
                        mend,
                    );
                }
            }
        }
        writes
    }

    fn request(&self) -> Open {
        Open {
            digest: godwit_proto::DigestKind::CRC64_NVME.0.into(),
            ..Open::default()
        }
    }

    /// None if the request would be allowed, else the reason.
    fn ask(&self, open: &Open) -> Option<String> {
        let mut head = Vec::new();
        our_hello().encode(&mut head);
        if let Err(error) = open.encode(&mut head) {
            return Some(error.to_string());
        }
        let mut stream = match self.dial() {
            Ok((stream, _)) => stream,
            Err(error) => return Some(error.to_string()),
        };
        if let Err(error) = stream.send_all(&head) {
            return Some(error.to_string());
        }
        loop {
            match receive_frame(&mut stream, HELLO_DEADLINE) {
                Ok(Frame::Hello(_)) => {}
                // The request was admitted: the node has looked for the path.
                Ok(Frame::Error(error))
                    if matches!(
                        ErrorCode(error.code),
                        ErrorCode::SOURCE | ErrorCode::DESTINATION
                    ) && error.message.contains(".godwit-doctor-") =>
                {
                    return None;
                }
                Ok(Frame::Error(error)) => return Some(error.message),
                Ok(other) => return Some(format!("an unexpected answer: {}", other.name())),
                Err(error) => return Some(error.to_string()),
            }
        }
    }
}
