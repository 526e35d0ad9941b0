//! Owns two simultaneous bare scans as a contender: the lowest cost of comparing two trees.
//! `crate::scan` implements the scan.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;

use super::super::case::Case;
use super::super::process::{Process, Side};
use super::{Contender, Job, Outcome, Programs, command, files, outcome};

/// This program, started twice.
pub(super) struct Scan {
    program: PathBuf,
}

impl Scan {
    pub(super) fn prepare(programs: &Programs) -> Self {
        Self {
            program: programs.xtask.clone(),
        }
    }
}

impl Contender for Scan {
    fn commands(&self, _case: &Case) -> String {
        "xtask scan SRC & xtask scan DIR/SRC".to_owned()
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let (_, name) = files(job)?;
        let scan = |tree: PathBuf| {
            let mut scan = command(&self.program);
            scan.arg("scan").arg(tree);
            scan
        };
        let source = scan(job.source.context("no source")?.to_owned());
        let copy = scan(job.into.join(name));
        let started = Instant::now();
        let scans = vec![
            Process::start("scan", Side::Source, source, true)?,
            Process::start("scan", Side::Destination, copy, true)?,
        ];
        outcome(job, started, scans, Vec::new())
    }
}
