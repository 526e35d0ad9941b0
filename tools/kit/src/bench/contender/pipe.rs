//! Owns the bare pipes as a contender: this program, started twice. `crate::pipe` implements the
//! pipes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use super::super::case::{Case, Class};
use super::super::data::Load;
use super::super::place::Place;
use super::super::process::{Process, Side};
use super::{Contender, Job, Outcome, Programs, command, outcome};

/// The bare pipe with the same streams and buffers.
pub(super) struct Pipe {
    program: PathBuf,
    certificate: PathBuf,
    place: Rc<Place>,
    /// Options for work in addition to moving bytes.
    extra: &'static [&'static str],
}

/// No options.
pub(super) const BARE: &[&str] = &[];
/// Each file gets its mode, times and name with the same calls as in Godwit.
pub(super) const COMMIT: &[&str] = &["--commit"];
/// Both ends compute a digest of all bytes.
pub(super) const DIGEST: &[&str] = &["--digest"];
/// The same pipe with cubic, which does not pace packets.
pub(super) const CUBIC: &[&str] = &["--digest", "--congestion", "cubic"];
/// The same pipe with separate files for each stream, each synced before it is closed.
pub(super) const SYNCED: &[&str] = &["--digest", "--congestion", "cubic", "--by-file", "--sync"];
/// Both the calls for files and the digests.
pub(super) const COMMIT_AND_DIGEST: &[&str] = &["--commit", "--digest"];

impl Pipe {
    pub(super) fn prepare(
        programs: &Programs,
        place: &Rc<Place>,
        scratch: &Path,
        extra: &'static [&'static str],
    ) -> Self {
        Self {
            program: programs.xtask.clone(),
            certificate: scratch.join("certificate.der"),
            place: Rc::clone(place),
            extra,
        }
    }

    fn end(&self, end: &str, class: Class) -> Command {
        let mut command = command(&self.program);
        command.args(["pipe", end]);
        if class == Class::Encrypted {
            command.arg("--certificate").arg(&self.certificate);
        }
        command.args(self.extra);
        command
    }
}

impl Contender for Pipe {
    fn commands(&self, case: &Case) -> String {
        let tls = match case.class {
            Class::Encrypted => " --certificate FILE",
            Class::Plain => "",
        };
        let extra: String = self.extra.iter().map(|word| format!(" {word}")).collect();
        format!(
            "xtask pipe recv{tls}{extra} --directory DIR; \
             xtask pipe send{tls}{extra} --to ADDR SRC"
        )
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let mut receiver = self.end("recv", job.case.class);
        let mut sender = self.end("send", job.case.class);
        match (job.load, job.source) {
            (Load::Memory { bytes }, _) => {
                sender.arg("--memory").arg(bytes.to_string());
            }
            (_, source) => {
                receiver.arg("--directory").arg(job.into);
                sender.args(source);
            }
        }
        receiver
            .arg("--listen")
            .arg(format!("{}:0", self.place.address(Side::Destination)));
        let receiver = self.place.at(Side::Destination, receiver);
        let receiver = Process::start("pipe recv", Side::Destination, receiver, true)?;
        sender
            .arg("--to")
            .arg(receiver.line_after("listening on ")?);
        let sender = self.place.at(Side::Source, sender);
        let started = Instant::now();
        let sender = Process::start("pipe send", Side::Source, sender, true)?;
        // The sender ends when the receiver has all data; the receiver ends then too.
        outcome(job, started, vec![sender, receiver], Vec::new())
    }
}
