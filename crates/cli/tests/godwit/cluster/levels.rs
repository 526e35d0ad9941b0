//! A rolling upgrade: nodes of two versions in one cluster while a job runs, and nodes that are too far from the cluster.
//! No earlier program is at hand: a hidden option has a node announce another level.

use std::fs;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::super::sites::{submit, wait_for};
use super::{Site, archive, invite, join_by, nodes, token_file, up};

const OLDER: [&str; 2] = ["--feature-level", "5"];

#[test]
fn nodes_are_updated_one_after_another_while_a_job_runs() {
    let mut site = Site::with(3, &OLDER);
    let there = archive(&site);
    let source = site.nodes[0].export.join("set");
    fs::create_dir_all(&source).expect("made");
    for n in 0..40_u8 {
        fs::write(source.join(format!("f{n}")), vec![n; 2_000_000]).expect("written");
    }
    let line = ["--limit", "1MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    wait_for(&site.nodes[0], &id, |job| job["state"] == "running");
    for node in 0..3 {
        site.wait("nobody uses what one node does not know", |view| {
            view["level"] == 5
        });
        site.nodes[node].kill_daemon();
        site.nodes[node].serve(&[]);
        let newer = |view: &serde_json::Value| {
            nodes(view).iter().filter(|row| row["level"] == 6).count() == node + 1
        };
        site.wait("it is back", |view| up(view).len() == 3 && newer(view));
    }
    site.wait("all know the next level", |view| view["level"] == 6);
    let job = wait_for(&site.nodes[0], &id, |_| true);
    assert!(job["ended"].is_null(), "the job ran all the time: {job}");
    let faster = site.nodes[1].admin(&["job", "limit", &id, "none"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_identical_to_rsync("-aH", &source, &there.export.join("copy"));
    assert_no_temporaries(&there.export);
    let reported = site.nodes[2].admin(&["cluster", "status"]).out;
    assert!(
        reported.contains("LEVEL") && reported.contains("the cluster uses level 6"),
        "{reported}"
    );
    // The older program is started again, but the level of the cluster is now too high for it.
    site.nodes[2].kill_daemon();
    let back = [&["serve", "--listen", "127.0.0.1:0"][..], &OLDER].concat();
    let outcome = site.nodes[2].admin(&back);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.complaint.contains("knows levels up to 5: update"),
        "{outcome:?}"
    );
    site.nodes[2].serve(&[]);
    site.wait("it is back", |view| up(view).len() == 3);
}

#[test]
fn a_node_that_is_too_far_from_the_cluster_does_not_join() {
    let mut site = Site::of(1);
    site.wait("its own level", |view| view["level"] == 6);
    for (level, part) in [("5", "update the program"), ("8", "between the two")] {
        let by = &site.nodes[0];
        let rig = site.rig();
        let file = token_file(&rig, &invite(by));
        let outcome = rig.admin(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--join",
            by.address(),
            "--token-file",
            &file,
            "--name",
            "other",
            "--feature-level",
            level,
        ]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.complaint.contains(part), "{outcome:?}");
    }
    let mut next = site.rig();
    let token = invite(&site.nodes[0]);
    join_by(
        &mut next,
        &site.nodes[0],
        &token,
        "dtn2",
        &["--feature-level", "7"],
    );
    site.nodes.push(next);
    site.wait("the next version is in", |view| up(view).len() == 2);
    site.wait("the level stays", |view| view["level"] == 6);
}
