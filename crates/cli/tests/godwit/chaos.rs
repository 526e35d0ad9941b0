//! Some seeds of the kit for clusters: a node of two sites is killed, stopped or cut off while a job runs.
//! See `xtask` for the kit, which reports its actions.

use std::process::Command;

use super::netns;

/// A seed with its chosen fault, until the job ends.
type Run = (&'static str, &'static [&'static str]);

/// The state disk of the leader is full, a source is stopped, the links of a source are cut, and a destination is slow.
const SEEDS: [Run; 4] = [
    ("2", &["--role", "leader", "--fault", "full-disk"]),
    ("4", &["--role", "worker", "--fault", "stop"]),
    ("5", &["--role", "worker", "--fault", "cut"]),
    ("7", &["--role", "target", "--fault", "slow-node"]),
];

/// Killed nodes and mounts that hang have tests in `cluster`, so these seeds run only if `GODWIT_CHAOS` is set.
const FURTHER: [Run; 3] = [
    ("1", &["--role", "controller", "--fault", "kill"]),
    (
        "3",
        &["--mounts", "--role", "target", "--fault", "hang-mount"],
    ),
    (
        "6",
        &["--mounts", "--role", "leader", "--fault", "hang-mount"],
    ),
];

/// A job may be below 0.6 of the remaining rate for this long. The kit's own runs have 1.5 s as the median; this machine may be busy.
const BELOW_MAX: f64 = 45.0;

/// The column of the seconds below that part, in the line of a seed.
const BELOW: usize = 7;

#[test]
fn jobs_complete_whichever_node_is_hurt() {
    netns::with_network(
        "godwit::chaos::jobs_complete_whichever_node_is_hurt",
        || {
            let logs = tempfile::tempdir().expect("a directory");
            let has_further = std::env::var_os("GODWIT_CHAOS").is_some();
            let further = FURTHER.iter().filter(|_| has_further);
            for &(seed, chosen) in SEEDS.iter().chain(further) {
                let output = Command::new(netns::built("xtask"))
                    .args([
                        "cluster", "chaos", "--runs", "1", "--rate", "80", "--seed", seed,
                    ])
                    .args(chosen)
                    .args(["--program", env!("CARGO_BIN_EXE_godwit")])
                    .arg("--logs")
                    .arg(logs.path())
                    .output()
                    .expect("xtask was built");
                let reported = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{reported}\n{output:?}");
                assert!(reported.contains("\tidentical"), "{reported}");
                assert!(reported.contains("stuck: 0"), "{reported}");
                let mut lines = reported.lines().map(|line| line.split('\t'));
                let mut line = lines
                    .find(|line| line.clone().next() == Some(seed))
                    .expect("the line of the seed");
                let below = line.nth(BELOW).and_then(|text| text.parse::<f64>().ok());
                assert!(below.is_some_and(|below| below < BELOW_MAX), "{reported}");
            }
        },
    );
}
