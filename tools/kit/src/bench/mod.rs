//! Owns the benchmark as a whole: the order of the cases, and the place of the report.
//! `docs/performance.md` describes the method.

mod case;
mod contender;
mod data;
mod machine;
mod options;
mod peers;
mod place;
pub(crate) mod process;
mod rates;
mod report;
mod runner;
mod spent;
mod state;
mod stats;
mod wan;
pub(crate) mod world;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::ArgMatches;

use case::{Case, Kind, Storage};
use contender::{Programs, Stage};
use data::{Load, Set};
use options::Options;
use peers::{Definition, Tool};
use report::{CaseReport, Report};
use runner::Sets;
use spent::{Spent, timed};
use world::World;

pub use options::command;

/// Runs the benchmark and writes its report.
///
/// # Errors
/// The benchmark cannot run, was interrupted, or missed a bar.
pub fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let started = Instant::now();
    let options = Options::parse(matches)?;
    let target = target_directory()?;
    if options.is_of_state() {
        return state::run(options.disk.as_deref().unwrap_or(&target), options.pairs);
    }
    let mut say = |line: &str| {
        // The benchmark continues if its output is closed.
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    let peers = peers::load(&options.peers)?;
    let chosen = options.choose(&peers)?;
    let needed = needed(&chosen, &options);
    if options.install
        && let Err(error) = peers::install(&needed, &tools(&chosen, &options)?, &mut say)
    {
        // The tables also name missing programs, and the others can still be measured.
        say(&format!("{error:#}"));
    }
    let release = target.join("release");
    if options.build {
        build()?;
    }
    let stage = Stage {
        programs: Programs {
            godwit: release.join("godwit"),
            xtask: release.join("xtask"),
            wanlink: release.join("wanlink"),
        },
        place: options.place.clone(),
    };

    let disk = options
        .disk
        .clone()
        .unwrap_or_else(|| target.join(format!("bench-disk-{}", std::process::id())));
    let on_disk = chosen.iter().any(|case| case.storage != Storage::Memory);
    let mut world = World::make(&options.directory, on_disk.then_some(&*disk))?;
    let of_rows = options.rows()?.iter().map(wan::Row::peak_bytes).max();
    let peak = chosen.iter().map(Case::peak_bytes).max();
    let peak = peak.max(of_rows).unwrap_or(0);
    let names = chosen.iter().map(Case::peak_names).max();
    world.make_room_for_names(names.unwrap_or(0))?;
    say(&format!("touching {} of memory twice", case::size(peak)));
    world.touch(peak)?;
    let mut report = Report {
        command: command_line(),
        machine: machine::describe(&world, &stage, &needed),
        notes: needed
            .iter()
            .map(|peer| (&*peer.title, &*peer.note))
            .collect(),
        cases: Vec::new(),
        rows: Vec::new(),
    };
    let mut cache = Cache::default();
    for case in &chosen {
        say(&format!("{}: {}", case.name, case.title));
        let mut making = Duration::ZERO;
        let sets = timed(&mut making, || cache.sets(case, &stage.programs, &world))?;
        let wanted = |kind| options.wants_contender(kind);
        let rounds = case.rounds_max.unwrap_or(u32::MAX).min(options.pairs);
        let (tracks, spent) =
            runner::run(case, rounds, &wanted, sets, &stage, &mut world, &mut say)?;
        let spent = Spent { making, ..spent };
        say(&format!("  {}", spent.describe()));
        let finished = CaseReport::new(case, rounds, tracks, spent);
        report.cases.push(finished);
    }
    for row in &options.rows()? {
        say(&format!("{}: {}", row.name, row.title));
        let wanted = |title: &str| options.wants_turn(title);
        let rounds = options.pairs.min(ROUNDS_OF_ROWS_MAX);
        let finished = wan::run(row, rounds, &wanted, &stage, &world, &mut say)?;
        report.rows.push(finished);
    }
    drop(world);
    let all = started.elapsed().as_secs_f64();
    say(&format!("all of it took {all:.0} s"));
    let table = report.save(&options.out.unwrap_or_else(|| target.join("bench")))?;
    // The file also has the table.
    let _ = writeln!(std::io::stdout(), "{}", report.markdown());
    say(&format!("saved {}", table.display()));
    ensure!(
        !report.has_failed(),
        "a bar was missed, or a contender failed"
    );
    Ok(())
}

/// Largest number of rounds of rows over long links, each of which takes minutes.
const ROUNDS_OF_ROWS_MAX: u32 = 3;

/// The peers and limits that take part.
fn needed(cases: &[Case], options: &Options) -> Vec<&'static Definition> {
    let mut needed: Vec<&'static Definition> = Vec::new();
    for kind in cases.iter().flat_map(Case::contenders) {
        if let Kind::Peer(peer) = kind
            && options.wants_contender(kind)
            && needed.iter().all(|other| other.name != peer.name)
        {
            needed.push(peer);
        }
    }
    needed
}

/// The tools that run beside Godwit.
fn tools(cases: &[Case], options: &Options) -> anyhow::Result<Vec<Tool>> {
    let kinds = cases.iter().flat_map(Case::contenders);
    let wanted = kinds.filter(|&kind| options.wants_contender(kind));
    let mut tools: Vec<Tool> = wanted.flat_map(Kind::tools).copied().collect();
    if !options.rows()?.is_empty() {
        tools.push(("iperf3", "iperf3"));
    }
    Ok(tools)
}

/// The data sets of the last case, kept for the next case if it moves the same data.
#[derive(Default)]
struct Cache {
    made: Option<(Load, Option<Load>, bool, Sets)>,
}

impl Cache {
    fn sets(&mut self, case: &Case, programs: &Programs, world: &World) -> anyhow::Result<&Sets> {
        let on_disk = case.storage == Storage::DiskRead;
        let is_made = self.made.as_ref().is_some_and(|(main, beside, place, _)| {
            (*main, *beside, *place) == (case.load, case.beside, on_disk)
        });
        if !is_made {
            let root = if on_disk { world.disk()? } else { world.root() };
            if let Some((.., old)) = self.made.take() {
                old.remove()?;
            }
            let make = |name, load| {
                let parent = root.join(name);
                fs::create_dir(&parent)?;
                Set::make(load, &parent, programs, world)
            };
            let main = make("source", case.load)?;
            let beside = case.beside.map(|load| make("beside", load)).transpose()?;
            self.made = Some((case.load, case.beside, on_disk, Sets { main, beside }));
        }
        let (.., sets) = self.made.as_ref().context("made above")?;
        Ok(sets)
    }
}

/// Builds Godwit in release mode, and this program, which has the pipes, in the same way.
fn build() -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Program::new(cargo);
    build.args([
        "build",
        "--release",
        "--quiet",
        "--package",
        "godwit",
        "--package",
        "xtask",
        "--package",
        "wanlink",
    ]);
    let status = build
        .current_dir(workspace())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the build failed");
    }
    Ok(())
}

/// The directory of cargo's output.
fn target_directory() -> anyhow::Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => Ok(std::path::absolute(PathBuf::from(directory))?),
        None => Ok(workspace().join("target")),
    }
}

/// The root of the repository.
#[must_use]
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// The command that makes the same report.
fn command_line() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", args.join(" "))
}
