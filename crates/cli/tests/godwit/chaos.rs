//! Some seeds of the kit for clusters: a node of two sites is killed, stopped or cut off while a job runs.
//! See `xtask` for the kit, which reports its actions.

use std::process::Command;

use super::netns;

/// Seeds, and the chosen faults: the node that controls the job is killed, the state disk of the leader is full, a mount hangs, and a
/// source is stopped, each until the job ends.
const SEEDS: [(&str, &[&str]); 4] = [
    ("1", &["--role", "controller", "--fault", "kill"]),
    ("2", &["--role", "leader", "--fault", "full-disk"]),
    (
        "3",
        &["--mounts", "--role", "target", "--fault", "hang-mount"],
    ),
    ("4", &["--role", "worker", "--fault", "stop"]),
];

#[test]
fn jobs_complete_whichever_node_is_hurt() {
    netns::with_network(
        "godwit::chaos::jobs_complete_whichever_node_is_hurt",
        || {
            let logs = tempfile::tempdir().expect("a directory");
            for (seed, chosen) in SEEDS {
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
                let told = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{told}\n{output:?}");
                assert!(told.contains("\tidentical"), "{told}");
                assert!(told.contains("stuck: 0"), "{told}");
            }
        },
    );
}
