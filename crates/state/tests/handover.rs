//! Tests a leader without disk space, and the messages while no change is possible: the reason is correct, and an answering cluster
//! is not recovered. See `full` for full disks of a single node.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use godwit_testkit::needs_root;
use support::air::{Cluster, site, wait_until};

const MIB: usize = 1 << 20;
const ROOM: u64 = 4 << 20;

/// A small file system. Unmounted when dropped.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path) -> Self {
        std::fs::create_dir(at).expect("made");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "none"])
            .arg(at)
            .status();
        assert!(mounted.expect("mount runs").success(), "mounted");
        Self(at)
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        // A failed test may have left files open in it.
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_leader_without_room_hands_over_and_changes_continue() {
    // Only root can mount.
    if !needs_root() {
        return;
    }
    let homes = tempfile::tempdir().expect("a directory");
    let full = homes.path().join("node-1");
    let _small = Small::mount(&full);
    let mut cluster = Cluster::of_one_in(homes, ROOM);
    cluster.grow(&[2, 3]);
    assert_eq!(cluster.leader(&[1, 2, 3]), 1);
    let filler = full.join("filler");
    std::fs::write(&filler, vec![1; 61 * MIB]).expect("filled");
    // Each of them can make changes, for each leader at the time of the request.
    for number in [1, 2, 3] {
        let name = format!("site{number}");
        cluster.nodes[&number]
            .propose_blocking(site(&name))
            .expect("changed");
    }
    assert_ne!(cluster.leader(&[2, 3]), 1);
    let ready = cluster.nodes[&1].readiness().check().expect_err("no room");
    assert!(ready.to_string().contains("make room"), "{ready}");
    wait_until("the full node has what was changed", || {
        cluster.sites(1) == ["site1", "site2", "site3"]
    });
    std::fs::remove_file(&filler).expect("room");
    cluster.nodes[&1]
        .propose_blocking(site("site4"))
        .expect("there is room");
    for number in [1, 2, 3] {
        cluster.kill(number);
    }
}

/// Asks node 4 repeatedly while its consensus looks for a leader. Neither blocks the other.
fn ask_all_the_time(cluster: &Arc<Cluster>) {
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let cluster = Arc::clone(cluster);
            thread::spawn(move || {
                let end = Instant::now() + Duration::from_secs(2);
                while Instant::now() < end {
                    let _ = cluster.nodes[&4].readiness().check();
                }
            })
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(30);
    while !asking.iter().all(thread::JoinHandle::is_finished) {
        if Instant::now() > end {
            // Dropping it would wait for the blocked call.
            std::mem::forget(Arc::clone(cluster));
            panic!("the consensus and who asks it wait for each other");
        }
        thread::sleep(Duration::from_millis(20));
    }
    for thread in asking {
        thread.join().expect("asked");
    }
}

#[test]
fn recover_is_no_advice_while_a_voter_answers() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3, 4, 5]);
    let cluster = Arc::new(cluster);
    // Two of five have no majority, but reach each other.
    cluster.part(&[4, 5]);
    let says = |part: &str| {
        let cluster = &cluster;
        let part = part.to_owned();
        move || {
            let ready = cluster.nodes[&4].readiness().check();
            ready.is_err_and(|error| error.to_string().contains(&part))
        }
    };
    wait_until("the majority is missed", says("1 of the 4 others"));
    let error = cluster.nodes[&4]
        .readiness()
        .check()
        .expect_err("no majority");
    assert!(!error.to_string().contains("recover"), "{error}");
    ask_all_the_time(&cluster);
    cluster.cut(&[1, 2, 3, 4, 5]);
    wait_until("no voter answers", says("godwit cluster recover"));
}
