//! Owns the contenders that use ssh to a private sshd: a copy by Godwit in each direction, and `true`. Starts
//! nothing at the far end except that sshd.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context as _;

use super::super::case::{Case, Kind};
use super::super::data::Arrival;
use super::super::peers::{Words, fill};
use super::super::place::Place;
use super::super::process::{Process, Side};
use super::sshd::Sshd;
use super::{Contender, Job, Outcome, Programs, command, outcome, require};

/// One of the three contenders.
pub(super) struct BySsh {
    kind: Kind,
    program: PathBuf,
    scratch: PathBuf,
    sshd: Sshd,
    /// The ssh command that logs in without questions, with all its options.
    ssh: String,
    place: Rc<Place>,
}

impl BySsh {
    pub(super) fn prepare(
        kind: Kind,
        programs: &Programs,
        place: &Rc<Place>,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        require("ssh")?;
        for home in ["near", "far"] {
            fs::create_dir_all(scratch.join(home))?;
        }
        let sshd = Sshd::prepare(scratch, place.address(Side::Destination))?;
        let mut words = Words::default();
        sshd.say(&mut words);
        Ok(Self {
            kind,
            program: programs.godwit.clone(),
            scratch: scratch.to_owned(),
            ssh: fill("{ssh} -l {ssh_user}", &words)?,
            sshd,
            place: Rc::clone(place),
        })
    }
}

impl Contender for BySsh {
    fn commands(&self, _case: &Case) -> String {
        match self.kind {
            Kind::GodwitToSsh => "godwit cp SRC HOST:DIR/",
            Kind::GodwitFromSsh => "godwit cp HOST:SRC DIR/",
            _ => "ssh HOST true",
        }
        .to_owned()
    }

    fn arrival(&self) -> Arrival {
        match self.kind {
            Kind::SshTrue => Arrival::Nothing,
            _ => Arrival::Contents,
        }
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let daemon = self.sshd.start(&self.place)?;
        let host = self.place.address(Side::Destination);
        let there = |path: &Path| format!("{host}:{}", path.display());
        let mut line = if self.kind == Kind::SshTrue {
            let mut words = self.ssh.split_whitespace();
            let mut ssh = command(words.next().context("no ssh")?);
            ssh.args(words).args([host, "true"]);
            ssh
        } else {
            let source = job.source.context("this contender moves only files")?;
            let far = format!(
                "env GODWIT_HOME={} {}",
                self.scratch.join("far").display(),
                self.program.display()
            );
            let mut copy = command(&self.program);
            copy.env("GODWIT_HOME", self.scratch.join("near")).args([
                "cp",
                "--rsh",
                &self.ssh,
                "--remote-command",
                &far,
            ]);
            if self.kind == Kind::GodwitToSsh {
                copy.arg(source).arg(there(&job.into.join("")));
            } else {
                copy.arg(there(source)).arg(job.into.join(""));
            }
            copy
        };
        line = self.place.at(Side::Source, line);
        let started = Instant::now();
        let process = Process::start(self.kind.title(), Side::Source, line, true)?;
        outcome(job, started, vec![process], vec![daemon])
    }
}
