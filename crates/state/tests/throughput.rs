//! Measures proposals, alone and from many threads at once, and prints the figures. Fails only if an
//! acknowledged command is missing; a loaded machine fails no test by its speed.

mod support;

use std::time::{Duration, Instant};

use godwit_state::{JobState, Options, Replica};
use support::submit;

#[test]
fn proposals_from_one_and_from_many() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = Replica::open(Options::new(directory.path())).expect("open");
    println!("proposers\tproposals\tseconds\tproposals/s\tmedian ms\tp99 ms");
    let mut total = 0;
    for (proposers, each) in [(1_u32, 500_u32), (64, 50)] {
        let began = Instant::now();
        let mut times: Vec<Duration> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..proposers)
                .map(|proposer| {
                    let replica = &replica;
                    scope.spawn(move || {
                        (0..each)
                            .map(|number| {
                                let id = format!("job-{proposers}-{proposer}-{number}");
                                let began = Instant::now();
                                replica.propose_blocking(submit(0, &id)).expect("submit");
                                began.elapsed()
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        times.sort();
        let count = proposers * each;
        total += u64::from(count);
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        println!(
            "{proposers}\t{count}\t{seconds:.2}\t{:.0}\t{:.2}\t{:.2}",
            f64::from(count) / seconds,
            at(50),
            at(99)
        );
    }
    let counts = replica.reader().job_counts(None).expect("counts");
    assert_eq!(counts, [(JobState::Queued, total)]);
}
