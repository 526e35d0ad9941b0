//! Examines the conditions of a transfer: this machine, a directory, the path to another machine, and that machine.
//! Changes nothing: no file of the user, no setting, nothing on the other side.
//!
//! Each part looks at one thing, and adds findings (fine, note, stop) and bounds (a rate, its reason, its remedy). `print` prints
//! them and the tightest bound. `ask` questions the other side (EXAMINE), and `clock` computes the difference of the clocks and its
//! uncertainty.

mod ask;
mod buffer;
mod clock;
mod findings;
mod interfaces;
mod kernel;
mod machine;
mod node;
mod path;
mod print;
mod ssh;
mod storage;

use std::path::PathBuf;

use godwit_api::endpoint::{NodePlace, SshPlace};
use godwit_api::host::HostPort;
use godwit_api::rest::BufferView;
use godwit_api::settings::CpSettings;

use crate::exit::Exit;
use crate::home::Home;
use findings::Findings;

/// The subject of an examination.
pub(crate) struct Subject {
    /// The settings that `godwit cp` would have.
    pub(crate) settings: CpSettings,
    /// The home with the keys, if there are any.
    pub(crate) home: Home,
    /// The storage.
    pub(crate) directory: Directory,
    /// The other side.
    pub(crate) far: Option<OtherSide>,
    /// The other side is the source of the data: nothing is written there.
    pub(crate) far_gives: bool,
    /// The path is measured: the user allowed the load.
    pub(crate) measures_path: bool,
    /// The transfer buffer of the node of this machine; None if no node answers.
    pub(crate) buffer: Option<BufferView>,
}

/// A directory of this machine, or a file in one.
pub(crate) struct Directory {
    /// As typed.
    pub(crate) path: PathBuf,
    /// Whether a transfer fails if nothing can be written there.
    pub(crate) must_take: bool,
}

/// The other side.
pub(crate) enum OtherSide {
    /// A daemon.
    Node(Node),
    /// A machine that ssh reaches.
    Ssh(SshPlace),
}

/// A daemon, and perhaps a place in one of its exports.
pub(crate) struct Node {
    /// Address of the daemon.
    pub(crate) node: HostPort,
    /// The named place there.
    pub(crate) export: Option<NodePlace>,
}

/// Examines everything, prints the findings, and returns whether a transfer could run.
pub(crate) fn run(subject: &Subject, json: bool) -> Exit {
    let mut findings = Findings::default();
    findings.fine(
        "program",
        format!(
            "godwit {}, protocol {}",
            env!("CARGO_PKG_VERSION"),
            node::span(
                godwit_proto::hello::VERSION_MIN,
                godwit_proto::hello::VERSION_MAX
            ),
        ),
    );
    let path = match &subject.far {
        Some(OtherSide::Node(node)) => node::look(node, subject, &mut findings),
        Some(OtherSide::Ssh(place)) => ssh::look(place, subject, &mut findings),
        None => None,
    };
    if let (Some(OtherSide::Node(node)), true) = (&subject.far, subject.measures_path)
        && !findings.would_stop()
    {
        path::look(node, subject, &mut findings);
    }
    machine::look(&subject.settings, &mut findings);
    storage::look(&subject.directory, &mut findings);
    if let Some(view) = &subject.buffer {
        buffer::look(view, &subject.directory, &mut findings);
    }
    interfaces::look(&mut findings);
    kernel::look(path.as_ref(), &subject.settings, &mut findings);
    if json {
        print::json(&findings, path.as_ref());
    } else {
        print::people(&findings);
    }
    if findings.would_stop() {
        Exit::Failed
    } else {
        Exit::Complete
    }
}
