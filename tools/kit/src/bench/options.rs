//! Owns the command line of the benchmark.
//! Runs nothing.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::case::{Case, Kind, Suite, cases};
use super::peers::Definition;
use super::place::{CABLES_MAX, CableSpec, PlaceSpec};
use super::wan::{Row, SECONDS_DEFAULT, rows};

/// Pairs per case; fewer prove nothing.
const PAIRS_DEFAULT: u32 = 5;
/// The largest packets that most data transfer hardware is configured for.
const MTU_DEFAULT: u16 = 9000;

/// The command line of the benchmark.
pub fn command() -> Command {
    let text = |name: &'static str| Arg::new(name).long(name);
    let path = |name: &'static str| text(name).value_parser(value_parser!(PathBuf));
    let flag = |name: &'static str| text(name).action(ArgAction::SetTrue);
    let suites = Suite::NAMES.map(|(name, _)| name);
    Command::new("bench")
        .about("Measures Godwit against the bare pipe, against peers and against limits, in pairs")
        .arg(
            Arg::new("suite")
                .value_parser(suites)
                .help("quick: a quarter of the data, the best peers; full: as the bars are defined; \
                       peers: a quarter, all peers; wan: long lines and channels over time, beside iperf3; \
                       wan-peers: files over long lines, all peers; \
                       state: commands that a state acknowledges, without transfers [default: quick]"),
        )
        .arg(
            text("suite-option")
                .long("suite")
                .value_name("SUITE")
                .value_parser(suites)
                .conflicts_with("suite")
                .help("The same"),
        )
        .arg(text("only").action(ArgAction::Append).help(
            "Only cases whose name begins so: memory, one, forty, small, rss, second-run, small-tls, …",
        ))
        .arg(text("contender").action(ArgAction::Append).help(
            "Only contenders whose name begins so: godwit, pipe, loop, rsync, xrdcp-tls, …",
        ))
        .arg(
            path("peer")
                .action(ArgAction::Append)
                .help("A definition of one more peer; the format is in tools/kit/README.md"),
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
            text("seconds")
                .value_parser(value_parser!(f64))
                .help("How long each run of the suite wan takes at full rate [default: 34.4]"),
        )
        .arg(
            text("place")
                .value_parser(["auto", "loopback", "namespaces"])
                .default_value("auto")
                .help("Where the two ends are; auto: namespaces for root, else loopback"),
        )
        .arg(
            text("cables")
                .value_parser(value_parser!(u8).range(1..=i64::from(CABLES_MAX)))
                .default_value("1")
                .help("veth pairs between the namespaces"),
        )
        .arg(
            text("cable-rate")
                .value_name("RATE")
                .help("Rate of each of them, as tc takes it: 10gbit [default: no limit]"),
        )
        .arg(
            text("mtu")
                .value_parser(value_parser!(u16).range(576..))
                .default_value("9000")
                .help("Their largest packet, in bytes"),
        )
        .arg(path("directory").help(
            "Where data sets and destinations are, made and removed [default: in /dev/shm]",
        ))
        .arg(path("disk").help(
            "Where those of the disk cases are, made and removed [default: in the target directory]",
        ))
        .arg(path("out").help("Where the report goes [default: bench in the target directory]"))
        .arg(flag("no-build").help("Use the binaries that are there"))
        .arg(flag("no-install").help("Install no packages; peers that are missing take no part"))
}

/// The user's request.
pub(super) struct Options {
    suite: Suite,
    only: Vec<String>,
    contenders: Vec<String>,
    pub(super) peers: Vec<PathBuf>,
    pub(super) pairs: u32,
    scale: f64,
    seconds: f64,
    pub(super) place: PlaceSpec,
    pub(super) directory: PathBuf,
    pub(super) disk: Option<PathBuf>,
    pub(super) out: Option<PathBuf>,
    pub(super) build: bool,
    pub(super) install: bool,
}

impl Options {
    pub(super) fn parse(matches: &ArgMatches) -> anyhow::Result<Self> {
        let all = |name: &str| -> Vec<String> {
            let given = matches.get_many::<String>(name).unwrap_or_default();
            given.cloned().collect()
        };
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let scale = matches.get_one::<f64>("scale").copied().unwrap_or(1.0);
        ensure!(
            scale > 0.0 && scale <= 100.0,
            "--scale is a positive number, at most 100"
        );
        let seconds = matches.get_one::<f64>("seconds").copied();
        let seconds = seconds.unwrap_or(SECONDS_DEFAULT);
        ensure!(
            (4.0..=36.0).contains(&seconds),
            "--seconds is from 4, for there is nothing to see before, to 36, for the files must fit into memory twice"
        );
        let suite = text("suite")
            .or_else(|| text("suite-option"))
            .unwrap_or("quick");
        let suite = Suite::NAMES.iter().find(|(name, _)| *name == suite);
        let is_root = rustix::process::geteuid().is_root();
        let place = match text("place") {
            Some("loopback") => PlaceSpec::Loopback,
            Some("auto") if !is_root => PlaceSpec::Loopback,
            _ => PlaceSpec::Namespaces(CableSpec {
                count: matches.get_one("cables").copied().unwrap_or(1),
                rate: text("cable-rate").map(str::to_owned),
                mtu: matches.get_one("mtu").copied().unwrap_or(MTU_DEFAULT),
            }),
        };
        let default = || PathBuf::from(format!("/dev/shm/godwit-bench-{}", std::process::id()));
        Ok(Self {
            suite: suite.context("no such suite")?.1,
            only: all("only"),
            contenders: all("contender"),
            peers: matches
                .get_many("peer")
                .unwrap_or_default()
                .cloned()
                .collect(),
            pairs: matches.get_one("pairs").copied().unwrap_or(PAIRS_DEFAULT),
            scale,
            seconds,
            place,
            directory: path("directory").unwrap_or_else(default),
            disk: path("disk"),
            out: path("out"),
            build: !matches.get_flag("no-build"),
            install: !matches.get_flag("no-install"),
        })
    }

    /// Whether the state is measured instead of transfers.
    pub(super) fn is_of_state(&self) -> bool {
        self.suite == Suite::State
    }

    /// The selected cases, with those of `peers` that can take part.
    ///
    /// # Errors
    /// There are no cases, or a named contender takes part in none of them.
    pub(super) fn choose(&self, peers: &[&'static Definition]) -> anyhow::Result<Vec<Case>> {
        // Contenders that the user names or adds take part in all suites.
        let first_added = peers.len() - self.peers.len();
        let mut added: Vec<String> = peers[first_added..]
            .iter()
            .map(|peer| peer.name.clone())
            .collect();
        let named = peers.iter().filter(|peer| {
            self.contenders
                .iter()
                .any(|name| peer.name.starts_with(name.as_str()))
        });
        added.extend(named.map(|peer| peer.name.clone()));
        let mut chosen = cases(self.suite, self.scale, peers, &added);
        if self.suite == Suite::Quick && !self.only.is_empty() {
            // Cases of memory and distance exist only in the full suite, but a user who names one expects
            // it.
            let only_full =
                |case: &Case| case.rss_max.is_some() || case.line.is_some() || case.again;
            let full = cases(Suite::Full, self.scale, peers, &added);
            chosen.extend(full.into_iter().filter(only_full));
        }
        chosen.retain(|case| self.wants_name(case.name));
        if self.suite == Suite::Quick && self.only.is_empty() {
            chosen.retain(Case::is_quick);
        }
        ensure!(
            !chosen.is_empty() || self.suite == Suite::Wan,
            "no case has such a name"
        );
        if chosen.is_empty() {
            return Ok(chosen);
        }
        for name in &self.contenders {
            let takes_part = |case: &Case| {
                let all = case.contenders();
                all.iter()
                    .any(|kind| kind.name().starts_with(name.as_str()))
            };
            ensure!(
                chosen.iter().any(takes_part),
                "no contender of these cases is called {name}"
            );
        }
        Ok(chosen)
    }

    /// The selected rows; only the suite of long links has rows.
    ///
    /// # Errors
    /// There are no such rows.
    pub(super) fn rows(&self) -> anyhow::Result<Vec<Row>> {
        if self.suite != Suite::Wan {
            return Ok(Vec::new());
        }
        let mut chosen = rows(self.seconds);
        chosen.retain(|row| self.wants_name(&row.name));
        ensure!(!chosen.is_empty(), "no row has such a name");
        Ok(chosen)
    }

    fn wants_name(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Whether a turn with this title takes part.
    pub(super) fn wants_turn(&self, title: &str) -> bool {
        let named = |name: &String| title.replace(' ', "-").starts_with(name.as_str());
        self.contenders.is_empty() || self.contenders.iter().any(named)
    }

    pub(super) fn wants_contender(&self, kind: Kind) -> bool {
        let named = |name: &String| kind.name().starts_with(name.as_str());
        self.contenders.is_empty() || self.contenders.iter().any(named)
    }
}

#[cfg(test)]
mod tests;
