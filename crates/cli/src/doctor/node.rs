//! The way to a node: whether it answers and as who, its version, the round trip, what we may do there.
//! Opens no transfer: what it asks for is refused either way, and the reason tells what would be allowed.

use std::time::{Duration, Instant};

use godwit_api::settings::Cipher as CipherSetting;
use godwit_engine::session::{HELLO_DEADLINE, our_hello, receive_frame};
use godwit_net::{
    Cipher, ClientTls, Connection, DialError, DialOptions, Expect, Identity, IdentityId,
    KnownPeers, PeerAddress, Stream, dial,
};
use godwit_proto::{Direction, ErrorCode, Frame, Hello, Open, negotiate};

use super::findings::{Findings, Level};
use super::{Node, Subject};

/// A packet smaller than this is a sign of a tunnel, or of a wrong setting on the way.
const MTU_BYTES_USUAL: u32 = 1_500;

/// What is known of the way to a node that answers.
pub(super) struct Path {
    /// The shortest seen.
    pub(super) round_trip: Duration,
    /// Largest packet; 0 if the kernel does not say.
    pub(super) mtu_bytes: u32,
    /// Content of a packet; 0 if the kernel does not say.
    pub(super) segment_bytes: u32,
    /// Name and version of the program there.
    pub(super) software: String,
}

/// Versions from one to another.
pub(super) fn span(min: u32, max: u32) -> String {
    if min == max {
        format!("{min}")
    } else {
        format!("{min} to {max}")
    }
}

/// Looks at it. None if it cannot be spoken with.
pub(super) fn look(node: &Node, subject: &Subject, findings: &mut Findings) -> Option<Path> {
    let address = PeerAddress::new(&node.node.host, node.node.port);
    let (identity, ours) = identity(subject, findings)?;
    let cipher = match subject.settings.cipher {
        CipherSetting::Aes256Gcm => Cipher::Aes256Gcm,
        CipherSetting::Aes128Gcm => Cipher::Aes128Gcm,
        CipherSetting::Chacha20Poly1305 => Cipher::ChaCha20Poly1305,
    };
    let tls = match ClientTls::new(&identity, &[cipher]) {
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
    let (mut stream, hello, path) = match caller.greet(findings) {
        Ok(greeted) => greeted,
        Err(finding) => {
            let (name, message, mend) = *finding;
            findings.stop(name, message, mend);
            return None;
        }
    };
    stream.shutdown();
    drop(stream);
    caller.versions(&hello, findings);
    if let (Some(place), true, true) = (&node.export, ours, known.is_some()) {
        caller.grants(&place.to_wire(), findings);
    }
    Some(path)
}

/// Our identity, or one for the moment; whether it is ours.
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
                Some("godwit id; and the node's operator, with what that prints: godwit authorize IDENTITY --read --write".to_owned()),
            );
            Some((identity, false))
        }
        Err(error) => {
            findings.stop("identity", error.to_string(), None);
            None
        }
    }
}

/// What stops: name, what happened, what to do.
type Stop = Box<(&'static str, String, Option<String>)>;

/// Who calls whom.
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

    /// Connects and exchanges the first words.
    fn greet(&self, findings: &mut Findings) -> Result<(Connection, Hello, Path), Stop> {
        let (mut stream, found) = self.dial().map_err(|error| self.undialled(&error))?;
        match self.known {
            Some(_) => findings.fine("node", format!("{} is {found}, as trusted", self.address)),
            None => findings.stop(
                "node",
                format!("{} says it is {found}, and is not known here", self.address),
                Some(format!(
                    "if its operator confirms that (godwit id, there): godwit trust {} {found}",
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
                    "{}: {} instead of a hello",
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
        };
        tell(&path, answered, findings);
        Ok((stream, hello, path))
    }

    fn undialled(&self, error: &DialError) -> Stop {
        let mend = match error {
            DialError::Connect { source, .. }
                if source.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                "start it there: godwit serve --export NAME=PATH; or name the port it listens on"
                    .to_owned()
            }
            DialError::Connect { .. } => format!(
                "see that the host is up and a firewall lets TCP port {} through",
                self.address.port()
            ),
            DialError::Resolve { .. } => "check the name".to_owned(),
            DialError::NotGodwit { .. } => {
                "name the port of godwit serve; 7272 is usual".to_owned()
            }
            DialError::WrongIdentity { found, .. } => format!(
                "if its operator says that the key was replaced: godwit trust {} {found}",
                self.address
            ),
            _ => "try again; if it stays, ask the node's operator".to_owned(),
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

    /// Asks for a place that cannot be: who may not go there is told so, who may that it does not exist.
    fn grants(&self, place: &[u8], findings: &mut Findings) {
        let nowhere = format!("/.godwit-doctor-{}/x", std::process::id());
        let nowhere = [place, nowhere.as_bytes()].concat();
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
        let level = if may == 0 { Level::Stop } else { Level::Note };
        let shown = String::from_utf8_lossy(place);
        for (answer, verb) in answers.into_iter().zip(["read", "written"]) {
            match answer {
                None => findings.fine("access", format!("{shown} may be {verb}")),
                Some(reason) => {
                    let mend = reason
                        .split_once("godwit authorize ")
                        .map(|(_, rest)| format!("the node's operator: godwit authorize {rest}"));
                    findings.add(
                        "access",
                        level,
                        format!("{shown} cannot be {verb}: {reason}"),
                        mend,
                    );
                }
            }
        }
    }

    fn request(&self) -> Open {
        Open {
            digest: godwit_proto::DigestKind::CRC64_NVME.0.into(),
            ..Open::default()
        }
    }

    /// None if it is allowed, else why not.
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
                // It got as far as looking for the place.
                Ok(Frame::Error(error))
                    if matches!(
                        ErrorCode(error.code),
                        ErrorCode::SOURCE | ErrorCode::DESTINATION
                    ) && error.message.contains(".godwit-doctor-") =>
                {
                    return None;
                }
                Ok(Frame::Error(error)) => return Some(error.message),
                Ok(other) => return Some(format!("an answer of another kind: {}", other.name())),
                Err(error) => return Some(error.to_string()),
            }
        }
    }
}

fn tell(path: &Path, answered: Duration, findings: &mut Findings) {
    findings.fine(
        "round trip",
        format!(
            "{:.3} ms on the network, {:.3} ms until the node had answered",
            path.round_trip.as_secs_f64() * 1e3,
            answered.as_secs_f64() * 1e3
        ),
    );
    if path.mtu_bytes == 0 {
        return;
    }
    let message = format!(
        "{} bytes, {} of them content",
        path.mtu_bytes, path.segment_bytes
    );
    if path.mtu_bytes < MTU_BYTES_USUAL {
        let mend =
            "is there a tunnel on the way? Packets this small cost both sides processor time";
        findings.note("path MTU", message, Some(mend.to_owned()));
    } else {
        findings.fine("path MTU", message);
    }
}
