//! Owns the contenders that read files and transfer none: `godwit verify`, and `b3sum` on the same
//! files. Uses only the command line of both programs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::super::case::Case;
use super::super::process::{Process, Side};
use super::{Contender, Job, Outcome, Programs, command, outcome, require};

/// `godwit verify` with a manifest that is made before the measurement.
pub(super) struct GodwitVerify {
    program: PathBuf,
    home: PathBuf,
    made: bool,
}

impl GodwitVerify {
    pub(super) fn prepare(programs: &Programs, scratch: &Path) -> Self {
        Self {
            program: programs.godwit.clone(),
            home: scratch.to_owned(),
            made: false,
        }
    }
}

impl Contender for GodwitVerify {
    fn commands(&self, _case: &Case) -> String {
        "godwit manifest --digest blake3 SRC MANIFEST; godwit verify MANIFEST SRC".to_owned()
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let source = job.source.context("only files can be verified")?;
        let manifest = self.home.join("manifest");
        if !std::mem::replace(&mut self.made, true) {
            let status = command(&self.program)
                .env("GODWIT_HOME", &self.home)
                .args(["manifest", "--digest", "blake3"])
                .args([source, &manifest])
                .stdout(std::process::Stdio::null())
                .status()?;
            ensure!(status.success(), "godwit manifest: {status}");
        }
        let mut verify = command(&self.program);
        verify
            .env("GODWIT_HOME", &self.home)
            .arg("verify")
            .args([&manifest, source]);
        let started = Instant::now();
        let process = Process::start("godwit verify", Side::Source, verify, true)?;
        outcome(job, started, vec![process], Vec::new())
    }
}

/// `b3sum` on all files at once.
pub(super) struct B3sum;

impl B3sum {
    pub(super) fn prepare() -> anyhow::Result<Self> {
        require("b3sum")?;
        Ok(Self)
    }
}

impl Contender for B3sum {
    fn commands(&self, _case: &Case) -> String {
        "b3sum --num-threads CORES FILES".to_owned()
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let source = job.source.context("only files can be hashed")?;
        let mut files = Vec::new();
        collect(source, &mut files)?;
        let cores = std::thread::available_parallelism()?;
        let mut b3sum = command("b3sum");
        b3sum
            .args(["--num-threads", &cores.to_string()])
            .args(files);
        let started = Instant::now();
        let process = Process::start("b3sum", Side::Source, b3sum, true)?;
        outcome(job, started, vec![process], Vec::new())
    }
}

/// All files at `path` and below it.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
