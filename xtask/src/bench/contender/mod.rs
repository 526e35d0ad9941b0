//! Owns what all contenders have in common: how one run is asked for and what it gives.
//! Knows no contender.

mod godwit;
mod line;
mod pipe;
mod scan;
mod sshd;
mod tar;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::case::{Case, Class, Kind, LineSpec};
use super::process::{Process, Usage, conduct};
use super::world::World;

/// No single run may take longer.
const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The programs of ours that take part.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) godwit: PathBuf,
    /// This program itself, optimised; it has the bare pipes.
    pub(crate) xtask: PathBuf,
    /// The emulator of long lines.
    pub(crate) wanlink: PathBuf,
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) case: &'a Case,
    /// `None` for loads that are no files.
    pub(crate) source: Option<&'a Path>,
    /// Empty at the start, or with a copy of the source where the case says so.
    pub(crate) into: &'a Path,
    pub(crate) world: &'a World,
}

/// What a run took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    /// From the start of the sending process to the end of the last process that ends by itself.
    pub(crate) seconds: f64,
    pub(crate) source: Usage,
    pub(crate) destination: Usage,
    /// What the contender says of itself, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<serde_json::Value>,
}

/// A way to move data.
pub(crate) trait Contender {
    /// The commands, as a reader would type them.
    fn commands(&self, class: Class) -> String;

    /// Moves the data once.
    ///
    /// # Errors
    /// When any part of it fails.
    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome>;
}

/// Prepares a contender for all its runs in a case.
///
/// # Errors
/// When it is not there or does not start; the other contenders can go on.
pub(crate) fn prepare(
    kind: Kind,
    case: &Case,
    programs: &Programs,
    world: &World,
) -> anyhow::Result<Box<dyn Contender>> {
    Ok(match kind {
        Kind::Godwit => Box::new(godwit::Godwit::prepare(programs, case.line, world)?),
        Kind::Pipe => Box::new(pipe::Pipe::prepare(programs, world)?),
        Kind::GodwitNear => {
            let line = case.line.map(|line| LineSpec { rtt_ms: 0, ..line });
            Box::new(godwit::Godwit::prepare(programs, line, world)?)
        }
        Kind::GodwitVerify => Box::new(verify::GodwitVerify::prepare(programs, world)?),
        Kind::B3sum => Box::new(verify::B3sum::prepare()?),
        Kind::Scan => Box::new(scan::Scan::prepare(programs)),
        Kind::TarSocat => Box::new(tar::TarSocat::prepare()?),
        Kind::TarSsh => Box::new(tar::TarSsh::prepare(world)?),
    })
}

/// Measures from `started` until all of `foreground` have ended.
fn outcome(
    job: &Job<'_>,
    started: Instant,
    mut foreground: Vec<Process>,
    mut background: Vec<Process>,
) -> anyhow::Result<Outcome> {
    let interrupted = || job.world.is_interrupted();
    let (time, source, destination) = conduct(
        started,
        &mut foreground,
        &mut background,
        RUN_LIMIT,
        &interrupted,
    )?;
    Ok(Outcome {
        seconds: time.as_secs_f64(),
        source,
        destination,
        report: None,
    })
}

/// A program with nothing on its standard input.
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// The source, where a load must be files.
fn files<'a>(job: &Job<'a>) -> anyhow::Result<(&'a Path, &'a std::ffi::OsStr)> {
    let source = job.source.context("this contender moves only files")?;
    Ok((
        source.parent().context("no parent")?,
        source.file_name().context("no name")?,
    ))
}

/// Fails unless `program` can be found.
fn require(program: &str) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    found
        .then_some(())
        .with_context(|| format!("{program} is not installed"))
}
