//! Owns the common parts of all contenders: the request for one run and its result. Does not depend
//! on a contender.

mod certificate;
mod godwit;
mod peer;
mod pipe;
mod scan;
mod ssh;
mod sshd;
mod verify;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::case::{Case, Kind, LineSpec};
use super::data::{Arrival, Load, Set};
use super::place::{Place, PlaceSpec};
use super::process::{Process, Usage, conduct};
use super::world::World;

pub(crate) use godwit::Godwit;

/// Largest duration of a single run.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Our programs that take part.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) godwit: PathBuf,
    /// This program, optimised; it has the bare pipes.
    pub(crate) xtask: PathBuf,
    /// The emulator of long links.
    pub(crate) wanlink: PathBuf,
}

/// Settings that all cases share.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) programs: Programs,
    pub(crate) place: PlaceSpec,
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) case: &'a Case,
    /// The load of this contender.
    pub(crate) load: Load,
    pub(crate) set: &'a Set,
    /// `None` for loads that are not files.
    pub(crate) source: Option<&'a Path>,
    /// Empty at the start, or has a copy of the source if the case needs it.
    pub(crate) into: &'a Path,
    /// The run is stopped after this time.
    pub(crate) limit: Duration,
    pub(crate) world: &'a World,
}

/// Measurements of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    /// Time from the start of the sending process to the end of the last process that ends without
    /// a signal.
    pub(crate) seconds: f64,
    pub(crate) source: Usage,
    pub(crate) destination: Usage,
    /// The contender's own report, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<serde_json::Value>,
}

/// A program or method that moves data.
pub(crate) trait Contender {
    /// The commands, as a user would type them.
    fn commands(&self, case: &Case) -> String;

    /// How to check the destination.
    fn arrival(&self) -> Arrival {
        Arrival::Contents
    }

    /// Moves the data once.
    ///
    /// # Errors
    /// A part of the run fails.
    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome>;
}

/// Prepares a contender for all its runs in a case, at `place`.
///
/// # Errors
/// The contender is missing or does not start; the other contenders can still run.
pub(crate) fn prepare(
    kind: Kind,
    case: &Case,
    stage: &Stage,
    place: &Rc<Place>,
    world: &World,
) -> anyhow::Result<Box<dyn Contender>> {
    let programs = &stage.programs;
    let scratch = || world.scratch(&format!("{}-{}", kind.name(), case.name));
    let pipe = |extra| -> anyhow::Result<Box<dyn Contender>> {
        Ok(Box::new(pipe::Pipe::prepare(
            programs,
            place,
            &scratch()?,
            extra,
        )))
    };
    Ok(match kind {
        Kind::Godwit | Kind::GodwitBeside => {
            Box::new(Godwit::prepare(programs, place, &scratch()?)?)
        }
        Kind::GodwitNear => {
            let line = case.line.map(|line| LineSpec { rtt_ms: 0, ..line });
            let near = Rc::new(Place::make(&stage.place, line.as_ref(), programs)?);
            Box::new(Godwit::prepare(programs, &near, &scratch()?)?)
        }
        Kind::Pipe => pipe(pipe::BARE)?,
        Kind::PipeDigest => pipe(pipe::DIGEST)?,
        Kind::PipeCubic => pipe(pipe::CUBIC)?,
        Kind::PipeSynced => pipe(pipe::SYNCED)?,
        Kind::Loop => pipe(pipe::COMMIT)?,
        Kind::LoopDigest => pipe(pipe::COMMIT_AND_DIGEST)?,
        Kind::GodwitVerify => Box::new(verify::GodwitVerify::prepare(programs, &scratch()?)),
        Kind::GodwitToSsh | Kind::GodwitFromSsh | Kind::SshTrue => {
            Box::new(ssh::BySsh::prepare(kind, programs, place, &scratch()?)?)
        }
        Kind::B3sum => Box::new(verify::B3sum::prepare()?),
        Kind::Scan => Box::new(scan::Scan::prepare(programs)),
        Kind::Peer(definition) => {
            Box::new(peer::Peer::prepare(definition, case, place, &scratch()?)?)
        }
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
        job.limit,
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
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// The source; an error if the load is not files.
fn files<'a>(job: &Job<'a>) -> anyhow::Result<(&'a Path, &'a std::ffi::OsStr)> {
    let source = job.source.context("this contender moves only files")?;
    Ok((
        source.parent().context("no parent")?,
        source.file_name().context("no name")?,
    ))
}

/// Fails if `program` cannot be found.
pub(crate) fn require(program: &str) -> anyhow::Result<()> {
    is_there(program)
        .then_some(())
        .with_context(|| format!("{program} is not installed"))
}

/// Whether `program` can be found; daemons are often not in the `PATH` of ordinary users.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(SYSTEM_PATHS.map(PathBuf::from));
    places.any(|directory| directory.join(program).is_file())
}

/// A shell line with nothing on its standard input; it fails if any part of it fails.
pub(crate) fn shell(line: &str) -> Command {
    let mut shell = command("bash");
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(SYSTEM_PATHS.join(":"));
    shell
        .args(["--norc", "-eu", "-o", "pipefail", "-c", line.trim()])
        .env("PATH", path);
    shell
}

/// Directories of daemons.
const SYSTEM_PATHS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A port that was free at this moment, for a program that cannot choose one itself.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}
