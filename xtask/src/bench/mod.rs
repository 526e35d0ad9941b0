//! Owns the benchmark as a whole: the order of the cases, where the report goes.
//! The method is described in `docs/performance.md`.

mod case;
mod contender;
mod data;
mod machine;
mod options;
mod process;
mod report;
mod runner;
mod stats;
mod world;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use anyhow::{Context as _, bail, ensure};
use clap::ArgMatches;

use case::{Case, Suite, cases};
use contender::Programs;
use data::Load;
use options::Options;
use report::{CaseReport, Report};
use world::World;

pub(crate) use options::command;

/// Runs the benchmark and writes its report.
///
/// # Errors
/// When it cannot be carried out, was interrupted, or a bar was missed.
pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let options = Options::parse(matches)?;
    // Cases of memory and distance exist only in the full suite, but who names one wants it.
    let full_only = |case: &Case| case.rss_max.is_some() || case.line.is_some();
    let named = |case: &Case| full_only(case) && !options.only.is_empty();
    let mut chosen = cases(options.suite, options.scale);
    if options.suite == Suite::Quick {
        chosen.extend(cases(Suite::Full, options.scale).into_iter().filter(named));
    }
    chosen.retain(|case| options.wants_case(case));
    ensure!(!chosen.is_empty(), "no case has such a name");
    let target = target_directory()?;
    let release = target.join("release");
    if options.build {
        build()?;
    }
    let programs = Programs {
        godwit: release.join("godwit"),
        xtask: release.join("xtask"),
        wanlink: release.join("wanlink"),
    };

    let mut say = |line: &str| {
        // A benchmark goes on when nobody listens.
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    let mut world = World::make(&options.directory)?;
    let machine = machine::describe(&world.source(), &programs);
    let peak = chosen.iter().map(Case::peak_bytes).max().unwrap_or(0);
    say(&format!("touching {} of memory twice", case::size(peak)));
    world.touch(peak)?;
    let mut report = Report {
        command: command_line(),
        machine,
        cases: Vec::new(),
    };
    let mut set = DataSet::default();
    for case in &chosen {
        say(&format!("{}: {}", case.name, case.title));
        let source = set.of(case.load, &world)?;
        let wanted = |kind| options.wants_contender(kind);
        let tracks = runner::run(
            case,
            options.pairs,
            &wanted,
            source.as_deref(),
            &programs,
            &mut world,
            &mut say,
        )?;
        report
            .cases
            .push(CaseReport::new(case, options.pairs, tracks));
    }
    drop(world);
    let table = report.save(&options.out.unwrap_or_else(|| target.join("bench")))?;
    // The table is also in the file.
    let _ = writeln!(std::io::stdout(), "{}", report.markdown());
    say(&format!("saved {}", table.display()));
    ensure!(
        !report.has_failed(),
        "a bar was missed, or a contender failed"
    );
    Ok(())
}

/// The data set of the last case, kept for the next one if that moves the same.
#[derive(Default)]
struct DataSet {
    made: Option<(Load, Option<PathBuf>)>,
}

impl DataSet {
    fn of(&mut self, load: Load, world: &World) -> anyhow::Result<Option<PathBuf>> {
        if let Some((made, source)) = &self.made
            && *made == load
        {
            return Ok(source.clone());
        }
        let parent = world.source();
        fs::remove_dir_all(&parent)?;
        fs::create_dir(&parent)?;
        let source = load.make(&parent, world)?;
        self.made = Some((load, source.clone()));
        Ok(source)
    }
}

/// Builds what is measured as it is released, and this program, which has the pipes, alike.
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

/// Where cargo puts what it builds.
fn target_directory() -> anyhow::Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => Ok(std::path::absolute(PathBuf::from(directory))?),
        None => Ok(workspace().join("target")),
    }
}

/// The root of the repository.
pub(crate) fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The command that makes the same report again.
fn command_line() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", args.join(" "))
}
