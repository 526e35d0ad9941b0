//! Owns the bare pipes as a contender: this program, started twice.
//! What they do is in `crate::pipe`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use super::super::case::Class;
use super::super::data::Load;
use super::super::process::{Process, Side};
use super::super::world::World;
use super::{Contender, Job, Outcome, Programs, command, outcome};

/// The bare pipe of the same streams and buffers.
pub(super) struct Pipe {
    program: PathBuf,
    certificate: PathBuf,
}

impl Pipe {
    pub(super) fn prepare(programs: &Programs, world: &World) -> anyhow::Result<Self> {
        let certificate = world.scratch("pipe")?.join("certificate.der");
        Ok(Self {
            program: programs.xtask.clone(),
            certificate,
        })
    }

    fn end(&self, end: &str, class: Class) -> Command {
        let mut command = command(&self.program);
        command.args(["pipe", end]);
        if class == Class::Tls {
            command.arg("--certificate").arg(&self.certificate);
        }
        command
    }
}

impl Contender for Pipe {
    fn commands(&self, class: Class) -> String {
        let tls = if class == Class::Tls {
            " --certificate FILE"
        } else {
            ""
        };
        format!("xtask pipe recv{tls} --directory DIR; xtask pipe send{tls} --to ADDR SRC")
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let mut receiver = self.end("recv", job.case.class);
        let mut sender = self.end("send", job.case.class);
        match (job.case.load, job.source) {
            (Load::Memory { bytes }, _) => {
                sender.arg("--memory").arg(bytes.to_string());
            }
            (_, source) => {
                receiver.arg("--directory").arg(job.into);
                sender.args(source);
            }
        }
        let receiver = Process::start("pipe recv", Side::Destination, receiver, true)?;
        sender
            .arg("--to")
            .arg(receiver.line_after("listening on ")?);
        let started = Instant::now();
        let sender = Process::start("pipe send", Side::Source, sender, true)?;
        // The sender ends when the receiver has everything; the receiver ends then too.
        outcome(job, started, vec![sender, receiver], Vec::new())
    }
}
