//! Owns the benchmark as a whole: its command line, the order of the cases, where the report goes.
//! The method is described in `docs/performance.md`.

mod case;
mod contender;
mod data;
mod machine;
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
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use case::{Case, Kind, Suite, cases};
use contender::Programs;
use data::Load;
use report::{CaseReport, Report};
use world::World;

/// Pairs per case; fewer prove nothing.
const PAIRS_DEFAULT: u32 = 5;

/// The command line of the benchmark.
pub(crate) fn command() -> Command {
    let text = |name: &'static str| Arg::new(name).long(name);
    Command::new("bench")
        .about("Measures Godwit against the bare pipe and against peers, in pairs, on loopback")
        .arg(
            text("suite")
                .value_parser(["quick", "full"])
                .default_value("quick")
                .help(
                    "quick: a quarter of the data, without rss and delay; full: as the bars are defined",
                ),
        )
        .arg(
            text("only").action(ArgAction::Append).help(
                "Only cases whose name begins so: memory, one, forty, small, rss, second-run, small-tls, …",
            ),
        )
        .arg(
            text("contender")
                .action(ArgAction::Append)
                .value_parser(["godwit", "pipe", "tar-socat", "tar-ssh", "b3sum", "scan"])
                .help("Only these contenders"),
        )
        .arg(
            text("pairs")
                .value_parser(value_parser!(u32).range(1..))
                .default_value("5")
                .help("Counted rounds of each case"),
        )
        .arg(
            text("scale")
                .value_parser(value_parser!(f64))
                .default_value("1")
                .help("Multiplies counts and sizes, to try the kit or to fit a small machine"),
        )
        .arg(
            text("directory").value_parser(value_parser!(PathBuf)).help(
                "Where data sets and destinations are, made and removed [default: in /dev/shm]",
            ),
        )
        .arg(
            text("out")
                .value_parser(value_parser!(PathBuf))
                .help("Where the report goes [default: bench in the target directory]"),
        )
        .arg(
            text("no-build")
                .action(ArgAction::SetTrue)
                .help("Use the binaries that are there"),
        )
}

/// What the user asked for.
struct Options {
    suite: Suite,
    only: Vec<String>,
    contenders: Vec<String>,
    pairs: u32,
    scale: f64,
    directory: PathBuf,
    out: Option<PathBuf>,
    build: bool,
}

impl Options {
    fn parse(matches: &ArgMatches) -> anyhow::Result<Self> {
        let all = |name: &str| -> Vec<String> {
            matches
                .get_many::<String>(name)
                .unwrap_or_default()
                .cloned()
                .collect()
        };
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let scale = matches.get_one::<f64>("scale").copied().unwrap_or(1.0);
        ensure!(
            scale > 0.0 && scale <= 100.0,
            "--scale is a positive number, at most 100"
        );
        let suite = matches.get_one::<String>("suite").map(String::as_str);
        let default = || PathBuf::from(format!("/dev/shm/godwit-bench-{}", std::process::id()));
        Ok(Self {
            suite: if suite == Some("full") {
                Suite::Full
            } else {
                Suite::Quick
            },
            only: all("only"),
            contenders: all("contender"),
            pairs: matches.get_one("pairs").copied().unwrap_or(PAIRS_DEFAULT),
            scale,
            directory: path("directory").unwrap_or_else(default),
            out: path("out"),
            build: !matches.get_flag("no-build"),
        })
    }

    fn wants_case(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| case.name.starts_with(prefix))
    }

    fn wants_contender(&self, kind: Kind) -> bool {
        let name = match kind {
            Kind::Godwit | Kind::GodwitNear | Kind::GodwitVerify => "godwit",
            Kind::B3sum => "b3sum",
            Kind::Pipe => "pipe",
            Kind::TarSocat => "tar-socat",
            Kind::TarSsh => "tar-ssh",
            Kind::Scan => "scan",
        };
        self.contenders.is_empty() || self.contenders.iter().any(|wanted| wanted == name)
    }
}

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
