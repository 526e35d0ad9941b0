//! Places that `godwit ls` reaches without a node of this machine: exports of a node by its address, and files behind ssh.
//! Prints nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use godwit_api::PORT_DEFAULT;
use godwit_api::ask::{
    Answer, EntryView, ExportRoom, LIST_MAX, ListPlace, Listing, Peer, Question, Refusal, code,
};
use godwit_api::endpoint::{Endpoint, NodePlace, SshPlace};
use godwit_api::failure::FailureCode;
use godwit_api::host::HostPort;
use godwit_api::job::Text;
use godwit_api::settings::{CpSettings, Scope, Typed};
use godwit_data_port::Questions;
use godwit_net::{
    Connection, DialOptions, Expect, Identity, PeerAddress, StreamOptions, dial, piped,
};
use godwit_run::{Home, client_tls, known_identity, refused};

use super::list::Listed;
use crate::commands::settings_with;
use crate::connectors::SshConnectors;
use crate::exit::Failure;
use crate::home;
use crate::ssh::{Carrying, Order, Rsh, SshOptions, SshProcess, start};

/// A place at the other end of a connection.
struct Far {
    questions: Questions,
    /// Path there; None is the whole node.
    path: Option<Text>,
    /// The ssh that carries the connection.
    _ssh: Option<Arc<SshProcess>>,
}

/// The place, if it is one of these; `typed` has the settings of the command line.
pub(super) fn open(
    place: &[u8],
    typed: &Typed,
    json: bool,
) -> Result<Option<Box<dyn Listed>>, Failure> {
    if let Some(rest) = place.strip_prefix(b"godwit://") {
        return of_node(place, rest, typed, json).map(boxed);
    }
    let host = place.split(|byte| *byte == b':').next().unwrap_or_default();
    // No site has this sign in its name.
    if !host.contains(&b'@') || host.contains(&b'/') {
        return Ok(None);
    }
    match Endpoint::parse(OsStr::from_bytes(place)).map_err(Failure::usage)? {
        Endpoint::Ssh(place) => by_ssh(&place, typed, json).map(boxed),
        _ => Ok(None),
    }
}

fn boxed(far: Far) -> Option<Box<dyn Listed>> {
    Some(Box::new(far))
}

/// An export of a node, or all of them.
fn of_node(place: &[u8], rest: &[u8], typed: &Typed, json: bool) -> Result<Far, Failure> {
    let host = rest.strip_suffix(b"/").unwrap_or(rest);
    let (node, path) = match std::str::from_utf8(host) {
        Ok(host) if !host.contains('/') => {
            let node = HostPort::parse(host, PORT_DEFAULT).map_err(|error| {
                Failure::usage(format!("{}: {error}", String::from_utf8_lossy(place)))
            })?;
            (node, None)
        }
        _ => match Endpoint::parse(OsStr::from_bytes(place)).map_err(Failure::usage)? {
            Endpoint::Remote(remote) if matches!(remote.place, NodePlace::Export { .. }) => {
                (remote.node, Some(Text(remote.place.to_wire())))
            }
            _ => return Err(Failure::usage("mem: and null: have no entries")),
        },
    };
    let home = home::open()?;
    let settings = settings(typed, &home)?;
    let address = PeerAddress::new(&node.host, node.port);
    let tls = client_tls(settings.cipher, &home.identity()?)?;
    let identity = known_identity(&home, &SshConnectors { quiet: json }, &address, &tls)?;
    let mut options = DialOptions::new(Expect::Identity(identity));
    options.deadline = settings.handshake_deadline;
    let (stream, _) = dial(&address, &tls, &options).map_err(|error| refused(&error.into()))?;
    Far::new(stream, format!("godwit://{node}"), path, None)
}

/// A path of a machine that ssh reaches.
fn by_ssh(place: &SshPlace, typed: &Typed, json: bool) -> Result<Far, Failure> {
    let home = home::open()?;
    let settings = settings(typed, &home)?;
    let rsh = Rsh::new(&settings.rsh, &settings.remote_command)?;
    // Nothing but ssh ends it: the command has no other work.
    let interrupted = Arc::new(AtomicBool::new(false));
    let options = SshOptions {
        // No data leaves the ssh connection.
        via_ssh: true,
        carrying: Carrying::of(settings.install_remote, json),
        ..SshOptions::new(&settings, &place.login, &interrupted, rsh)
    };
    let once = Identity::ephemeral().map_err(Failure::local)?;
    let order = Order {
        client: Some(*once.id()),
        sender: "ls".to_owned(),
        targets: Vec::new(),
        from_here: true,
    };
    let started = start(&options, &order, &[]).map_err(|refusal| refused(&refusal))?;
    let login = place.login.to_string();
    let stream =
        piped(started.socket, &login, &StreamOptions::default()).map_err(Failure::local)?;
    let path = Some(Text(place.path.clone()));
    Far::new(stream, login, path, Some(started.process))
}

fn settings(typed: &Typed, home: &Home) -> Result<CpSettings, Failure> {
    let values = settings_with(Scope::Cp, typed, home)?;
    Ok(CpSettings::from_values(&values)?)
}

impl Far {
    fn new(
        stream: Connection,
        name: String,
        path: Option<Text>,
        ssh: Option<Arc<SshProcess>>,
    ) -> Result<Self, Failure> {
        let peer = Peer {
            name,
            addresses: Vec::new(),
            identity: String::new(),
        };
        Ok(Self {
            questions: Questions::new(stream, peer).map_err(failure_of)?,
            path,
            _ssh: ssh,
        })
    }

    fn path(&self) -> Text {
        self.path.clone().unwrap_or_default()
    }
}

impl Listed for Far {
    fn exports(&mut self) -> Result<Option<Vec<ExportRoom>>, Failure> {
        if self.path.is_some() {
            return Ok(None);
        }
        match self.questions.ask(&Question::Exports {}) {
            Ok(Answer::Exports(rooms)) => Ok(Some(rooms)),
            other => Err(unfit(other)),
        }
    }

    fn page(&mut self, cursor: Option<&[u8]>) -> Result<Option<Listing>, Failure> {
        let question = Question::List(ListPlace {
            path: self.path(),
            cursor: cursor.map(|cursor| Text(cursor.to_vec())),
            limit: LIST_MAX,
        });
        match self.questions.ask(&question) {
            Ok(Answer::Listing(listing)) => Ok(Some(listing)),
            Err(refusal) if refusal.code == code::NOT_A_DIRECTORY => Ok(None),
            other => Err(unfit(other)),
        }
    }

    fn entry(&mut self) -> Result<EntryView, Failure> {
        match self.questions.ask(&Question::Stat { path: self.path() }) {
            Ok(Answer::Entry(entry)) => Ok(entry),
            other => Err(unfit(other)),
        }
    }
}

/// The failure for a refusal, or for an answer to another question.
fn unfit(answer: Result<Answer, Refusal>) -> Failure {
    match answer {
        Err(refusal) => failure_of(refusal),
        Ok(_) => Failure::new(
            FailureCode::Foreign,
            "the other side answered something else than was asked",
        ),
    }
}

fn failure_of(refusal: Refusal) -> Failure {
    let code = refusal.code.known().unwrap_or(FailureCode::PeerFailed);
    Failure::new(code, refusal.message)
}
