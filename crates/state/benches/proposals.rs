//! Measures how fast a lone replica acknowledges commands, from one proposer and from many at once, and prints a table.
//! Judges no speed. `cargo xtask bench state` runs it.

#![allow(clippy::print_stdout, reason = "the table is the result")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use godwit_state::{JobState, Options, Replica};
use support::submit;

/// Proposers at once, and the number of commands that each proposes one after another.
const LOADS: [(u32, u32); 2] = [(1, 500), (64, 50)];

fn main() {
    // Cargo adds `--bench` to the arguments.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"));
    let (Some(directory), Some(runs)) = (arguments.next(), arguments.next()) else {
        panic!("usage: proposals DIRECTORY RUNS");
    };
    let runs: u32 = runs.parse().expect("a number of runs");
    println!("run\tproposers\tproposals\tseconds\tproposals/s\tmedian ms\tp99 ms");
    for run in 1..=runs {
        measure(run, Path::new(&directory));
    }
}

/// Prints one line for each load.
///
/// # Panics
/// An acknowledged command is missing.
fn measure(run: u32, above: &Path) {
    let directory = tempfile::tempdir_in(above).expect("a directory");
    let replica = Replica::open(Options::new(directory.path())).expect("open");
    let mut total = 0;
    for (proposers, each) in LOADS {
        let began = Instant::now();
        let mut times = propose(&replica, proposers, each);
        let seconds = began.elapsed().as_secs_f64();
        times.sort();
        let count = proposers * each;
        total += u64::from(count);
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        println!(
            "{run}\t{proposers}\t{count}\t{seconds:.2}\t{:.0}\t{:.2}\t{:.2}",
            f64::from(count) / seconds,
            at(50),
            at(99)
        );
    }
    let counts = replica.reader().job_counts(None).expect("counts");
    assert_eq!(counts, [(JobState::Queued, total)]);
}

/// Submits jobs and gives the time of each acknowledgement.
fn propose(replica: &Replica, proposers: u32, each: u32) -> Vec<Duration> {
    let one = |proposer: u32| -> Vec<Duration> {
        (0..each)
            .map(|number| {
                let id = format!("job-{proposers}-{proposer}-{number}");
                let began = Instant::now();
                replica.propose_blocking(submit(0, &id)).expect("submit");
                began.elapsed()
            })
            .collect()
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..proposers)
            .map(|proposer| scope.spawn(move || one(proposer)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}
