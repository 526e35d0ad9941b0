//! Owns the command line of the benchmark.
//! Runs nothing.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::case::{Case, Kind, Suite};

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
pub(super) struct Options {
    pub(super) suite: Suite,
    pub(super) only: Vec<String>,
    pub(super) contenders: Vec<String>,
    pub(super) pairs: u32,
    pub(super) scale: f64,
    pub(super) directory: PathBuf,
    pub(super) out: Option<PathBuf>,
    pub(super) build: bool,
}

impl Options {
    pub(super) fn parse(matches: &ArgMatches) -> anyhow::Result<Self> {
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

    pub(super) fn wants_case(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| case.name.starts_with(prefix))
    }

    pub(super) fn wants_contender(&self, kind: Kind) -> bool {
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
