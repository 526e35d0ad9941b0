//! A cluster that has lost a majority for good: one survivor becomes the cluster, and the others join it again.
//! See the tests of `state` for the files of the state.

use rustix::process::Signal;

use super::super::process::{Outcome, Process};
use super::*;

#[test]
fn after_the_loss_of_a_majority_one_survivor_is_made_the_cluster() {
    let mut site = Site::of(3);
    let added = site.nodes[1].admin(&[
        "site",
        "add",
        "kept",
        "192.0.2.1",
        "--identity",
        &site.nodes[0].identity,
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let until = Instant::now() + DEADLINE;
    while !site.nodes[2].admin(&["site", "list"]).out.contains("kept") {
        assert!(Instant::now() < until, "a voter gets what was changed");
        std::thread::sleep(Duration::from_millis(50));
    }
    site.nodes[0].kill_daemon();
    site.nodes[1].kill_daemon();
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = site.nodes[2].admin(&["cluster", "status"]);
        if outcome.code == Some(1) && outcome.complaint.contains("cluster recover") {
            break;
        }
        assert!(Instant::now() < until, "{outcome:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Reads still work, and a change reports the remedy.
    let sites = site.nodes[2].admin(&["site", "list"]);
    assert!(sites.out.contains("kept"), "{sites:?}");
    let change = site.nodes[2].admin(&["site", "remove", "kept"]);
    assert_eq!(change.code, Some(1), "{change:?}");
    assert!(
        change.complaint.contains("voters can be reached"),
        "{change:?}"
    );
    let running = site.nodes[2].admin(&["cluster", "recover", "--yes"]);
    assert_eq!(running.code, Some(1), "not while it runs: {running:?}");
    site.nodes[2].kill_daemon();
    let unsure = site.nodes[2].admin(&["cluster", "recover"]);
    assert_eq!(unsure.code, Some(2), "{unsure:?}");
    let recovered = site.nodes[2].admin(&["cluster", "recover", "--yes"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    site.nodes[2].serve(&[]);
    site.wait_at(&[2], "it is alone", |view| {
        nodes(view).len() == 1 && up(view) == ["dtn3"]
    });
    let sites = site.nodes[2].admin(&["site", "list"]);
    assert!(sites.out.contains("kept"), "{sites:?}");
    let change = site.nodes[2].admin(&["site", "remove", "kept"]);
    assert_eq!(change.code, Some(0), "{change:?}");
    come_back(&site);
    let left = site.nodes[1].admin(&["cluster", "leave", "--yes"]);
    assert_eq!(left.code, Some(0), "{left:?}");
    let mut back = site.nodes.remove(1);
    join_by(
        &mut back,
        &site.nodes[1],
        &invite(&site.nodes[1]),
        "dtn2",
        &[],
    );
    site.nodes.insert(1, back);
    site.wait_at(&[1, 2], "two nodes", |view| up(view).len() == 2);
}

/// The old nodes come back at the same moment. They are a majority of the old cluster, find the survivor dtn3, and end. Returns their output.
#[track_caller]
fn come_back(site: &Site) -> Vec<Outcome> {
    let mut old: Vec<Process> = site.nodes[..2].iter().map(|rig| rig.launch(&[])).collect();
    let until = Instant::now() + DEADLINE;
    while !old.iter_mut().all(Process::has_ended) {
        for node in &site.nodes[..2] {
            let change = node.admin(&["site", "add", "twice", "192.0.2.2", "--identity", "gw1-x"]);
            assert_ne!(change.code, Some(0), "a second cluster: {change:?}");
        }
        assert!(Instant::now() < until, "they do not end");
    }
    let ended: Vec<Outcome> = old.iter_mut().map(Process::wait).collect();
    for outcome in &ended {
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        for words in [
            "has continued without this node",
            "dtn3 became the only one",
        ] {
            assert!(outcome.complaint.contains(words), "{outcome:?}");
        }
    }
    ended
}

/// A cluster in which each node runs a job, and as many wait. Returns their ids.
fn with_jobs() -> (Site, Vec<String>) {
    let site = Site::with(3, &["--jobs", "1"]);
    let source = site.nodes[0].export.join("set");
    fs::create_dir(&source).expect("made");
    for number in 0..20_u8 {
        fs::write(source.join(format!("f{number}")), vec![number; 100_000]).expect("written");
    }
    let line = ["--divide", "never", "--limit", "100KB/s"];
    let ids = (0..6).map(|number| {
        let to = format!("here:/data/copy{number}");
        submit(&site.nodes[0], "here:/data/set", &to, &line)
    });
    let ids = ids.collect();
    let until = Instant::now() + DEADLINE;
    let jobs = || site.nodes[0].admin(&["job", "list", "--json"]).out;
    while jobs().matches("\"running\"").count() < 3 {
        assert!(Instant::now() < until, "no three jobs run: {}", jobs());
        std::thread::sleep(Duration::from_millis(50));
    }
    (site, ids)
}

/// Makes the last node, which does not run, the only one of its cluster, and starts it.
fn recover(site: &mut Site) {
    let recovered = site.nodes[2].admin(&["cluster", "recover", "--yes"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    site.nodes[2].serve(&["--jobs", "1"]);
    site.nodes[2].daemon().wait_for("transfer started");
}

/// All jobs end at the recovered node as they would anywhere.
#[track_caller]
fn assert_finished(site: &Site, ids: &[String]) {
    let node = &site.nodes[2];
    for (number, id) in ids.iter().enumerate() {
        // Refused where the job has ended already.
        node.admin(&["job", "limit", id, "none"]);
        let ended = wait_for(node, id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        let copy = node.export.join(format!("copy{number}"));
        assert_same_files(&node.export.join("set"), &copy);
    }
}

#[test]
fn old_voters_that_come_back_begin_no_job_of_the_recovered_node() {
    let (mut site, ids) = with_jobs();
    for node in &mut site.nodes {
        node.kill_daemon();
    }
    recover(&mut site);
    for outcome in come_back(&site) {
        let said = outcome.said();
        assert!(!said.contains("transfer started"), "{said}");
    }
    assert_finished(&site, &ids);
}

/// The voters hear of the recovery while they run jobs.
#[test]
fn voters_of_a_cluster_that_is_recovered_elsewhere_leave_their_jobs() {
    let (mut site, ids) = with_jobs();
    site.nodes[2].kill_daemon();
    recover(&mut site);
    for number in [0, 1] {
        // The signal changes nothing: the node is ending already.
        let ended = site.nodes[number].stop_daemon(Signal::CONT);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.complaint.contains("dtn3 became the only one"),
            "{ended:?}"
        );
    }
    assert_finished(&site, &ids);
}
