//! Owns the kit for clusters: two sites of nodes in namespaces, their faults, and their figures.
//! The kit uses only the command line of Godwit. `tools/kit/README.md` describes its use.

mod chaos;
mod data;
mod disk;
mod figures;
mod iperf;
mod job;
mod judge;
mod memory;
mod mount;
mod network;
mod node;
mod rate;
mod seeded;
mod sites;
mod slow;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::bench::world::World;
use chaos::{Chaos, FAULTS, ROLES, Wish};
use data::Set;
use figures::Figures;
use memory::MemoryFigures;
use sites::Shape;

/// Largest number of nodes of one site.
const NODES_MAX: u16 = 64;

/// Longest job of `memory` at the full rate: a job that takes longer than [`job::STUCK_AFTER`] is stuck.
const SECONDS_MAX: u64 = 60;

/// Data sets for measurements.
const SETS: [(&str, Set); 6] = [
    ("16x256MiB", large(16, 256 << 20)),
    ("1x4GiB", large(1, 4 << 30)),
    ("1x1GiB", large(1, 1 << 30)),
    ("1x2GiB", large(1, 2 << 30)),
    ("512x4MiB", large(512, 4 << 20)),
    (
        "27000x14kB",
        Set {
            directories: 90,
            files: 300,
            small: (4_000, 24_000),
            ..large(0, 0)
        },
    ),
];

const fn large(large: u64, large_bytes: u64) -> Set {
    Set {
        directories: 0,
        files: 0,
        small: (0, 0),
        large,
        large_bytes,
    }
}

/// The command line of the kit.
pub fn command() -> Command {
    let seeds = [
        number("seed", "1", "Seed of the first run"),
        number("runs", "10", "Runs, each with the next seed"),
    ];
    let chaos = Command::new("chaos")
        .about("Kills, stops and cuts off nodes while jobs run")
        .args(seeds)
        .args(wish_arguments())
        .args(shape_arguments("3", "3", "40"))
        .arg(path(
            "logs",
            "Where the logs of failed runs are kept [default: below the temporary directory]",
        ));
    let sets = SETS.map(|(name, _)| name);
    let rate = Command::new("rate")
        .about("Measures divided jobs beside iperf3 over the same links, and prints a table")
        .arg(number("rounds", "3", "Rounds of iperf3 and a job"))
        .arg(
            Arg::new("data")
                .long("data")
                .value_parser(sets)
                .default_value(sets[0])
                .help("What is moved"),
        )
        .args(shape_arguments("2", "2", "200"));
    Command::new("cluster")
        .about("Two sites of nodes in network namespaces; takes root")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(chaos)
        .subcommand(rate)
        .subcommand(memory_command())
}

fn memory_command() -> Command {
    let nodes = value_parser!(u16).range(1..=i64::from(NODES_MAX));
    let seconds = value_parser!(u64).range(1..=SECONDS_MAX);
    Command::new("memory")
        .about("Measures jobs from memory to memory beside iperf3 over all links at once, with TLS and in clear, and prints a table")
        .arg(number("rounds", "3", "Rounds of iperf3 and a job in each world"))
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_delimiter(',')
                .value_parser(nodes)
                .default_values(["1", "2", "4"])
                .help("Nodes of each site: one world for each number"),
        )
        .arg(link_rate("100"))
        .arg(number("seconds", "20", "How long a job takes that fills all links").value_parser(seconds))
        .args(place_arguments())
}

fn link_rate(default: &'static str) -> Arg {
    number("rate", default, "Rate of each link in Mbit/s")
        .value_parser(value_parser!(u32).range(1..))
}

fn place_arguments() -> [Arg; 2] {
    [
        path(
            "program",
            "The binary [default: godwit beside this program]",
        ),
        path(
            "directory",
            "Where all is that the nodes have; must not exist [default: in /dev/shm]",
        ),
    ]
}

fn shape_arguments(
    sources: &'static str,
    destinations: &'static str,
    rate: &'static str,
) -> Vec<Arg> {
    let nodes = |name: &'static str, default: &'static str, help: &'static str| {
        let range = value_parser!(u16).range(1..=i64::from(NODES_MAX));
        number(name, default, help).value_parser(range)
    };
    let own = [
        nodes("sources", sources, "Nodes of the source"),
        nodes("destinations", destinations, "Nodes of the destination"),
        link_rate(rate),
        Arg::new("rates")
            .long("rates")
            .value_delimiter(',')
            .value_parser(value_parser!(u32).range(1..))
            .help("Rate of each link of each node, sources first, instead of --rate"),
        Arg::new("plain")
            .long("plain")
            .action(ArgAction::SetTrue)
            .help("Block contents leave in clear"),
    ];
    own.into_iter().chain(place_arguments()).collect()
}

fn wish_arguments() -> Vec<Arg> {
    let one_of = |name: &'static str, names: Vec<&'static str>, help: &'static str| {
        Arg::new(name).long(name).value_parser(names).help(help)
    };
    let roles = ROLES.map(|(name, _)| name).to_vec();
    let faults = FAULTS.map(|(name, _)| name).to_vec();
    let seconds = number(
        "seconds",
        "0",
        "How long --fault lasts; 0 is until the end of the job",
    );
    vec![
        one_of("role", roles, "Which node [default: by the seed]"),
        one_of("fault", faults, "What happens [default: by the seed]"),
        seconds,
        one_of(
            "parts",
            vec!["yes", "no"],
            "A file in parts [default: by the seed]",
        ),
        Arg::new("mounts")
            .long("mounts")
            .action(ArgAction::SetTrue)
            .help("Each node has a separate mount, by mergerfs"),
    ]
}

fn wish(matches: &ArgMatches) -> Wish {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or(0);
    let during = (seconds > 0).then_some(Duration::from_secs(seconds));
    let role = text("role").and_then(|name| ROLES.iter().find(|(one, _)| *one == name));
    let fault = text("fault").and_then(|name| FAULTS.iter().find(|(one, _)| *one == name));
    Wish {
        role: role.map(|(_, role)| *role),
        fault: fault.map(|(_, make)| make(during)),
        has_parts: text("parts").map(|text| text == "yes"),
    }
}

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .default_value(default)
        .value_parser(value_parser!(u64))
        .help(help)
}

fn path(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// Runs the chosen command. Ends the command's processes and removes its files, also after an error.
///
/// # Errors
/// The command cannot run, was interrupted, or found an error.
pub fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((name, matches)) = matches.subcommand() else {
        anyhow::bail!("nothing to do");
    };
    let temporary = std::env::temp_dir();
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory } else { &temporary };
    let given = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let own = format!("godwit-cluster-{}", std::process::id());
    let directory = given("directory").unwrap_or_else(|| place.join(&own));
    let program = match given("program") {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("godwit"),
    };
    let found = program.canonicalize();
    let program = found.with_context(|| format!("no program {program:?}: build it first"))?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "network namespaces need root"
    );
    let world = World::make(&directory, None)?;
    let check = || world.check();
    let say = |line: &str| {
        // The kit continues if its output is closed.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    match name {
        "chaos" => {
            let of = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
            let (seed, runs) = (of("seed"), of("runs"));
            let chaos = Chaos {
                program: &program,
                root: world.root(),
                logs: &given("logs").unwrap_or_else(|| temporary.join(own)),
                shape: shape(matches)?,
                wish: wish(matches),
                check: &check,
                say: &say,
            };
            chaos.run(seed..seed.saturating_add(runs))
        }
        "rate" => {
            let data = matches.get_one::<String>("data").map_or("", String::as_str);
            let set = SETS.into_iter().find(|(name, _)| *name == data);
            let (title, set) = set.context("no such data set")?;
            let figures = Figures {
                program: &program,
                root: &world.root().join("sites"),
                set,
                title,
                shape: shape(matches)?,
                rounds: matches.get_one::<u64>("rounds").copied().unwrap_or(1),
                check: &check,
                say: &say,
            };
            say(figures::HEAD);
            figures.run()
        }
        "memory" => {
            let nodes = matches.get_many::<u16>("nodes");
            let nodes: Vec<u16> = nodes.into_iter().flatten().copied().collect();
            let of = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
            let figures = MemoryFigures {
                program: &program,
                root: world.root(),
                nodes: &nodes,
                rate_mbit: matches.get_one::<u32>("rate").copied().unwrap_or(1),
                seconds: of("seconds"),
                rounds: of("rounds"),
                check: &check,
                say: &say,
            };
            figures.run()
        }
        _ => anyhow::bail!("no such part of the kit"),
    }
}

fn shape(matches: &ArgMatches) -> anyhow::Result<Shape> {
    let nodes = |name: &str| matches.get_one::<u16>(name).copied().map(usize::from);
    let sources = nodes("sources").context("how many sources")?;
    let destinations = nodes("destinations").context("how many destinations")?;
    let rate = *matches.get_one::<u32>("rate").context("which rate")?;
    let rates = matches.get_many::<u32>("rates");
    let rates_mbit = match rates {
        Some(rates) => rates.copied().collect(),
        None => vec![rate; sources + destinations],
    };
    ensure!(
        rates_mbit.len() == sources + destinations,
        "--rates needs one number for each node: {} were given, of {}",
        rates_mbit.len(),
        sources + destinations
    );
    Ok(Shape {
        sources,
        destinations,
        rates_mbit,
        is_plain: matches.get_flag("plain"),
        is_mounted: matches.try_get_one::<bool>("mounts").ok().flatten() == Some(&true),
    })
}
