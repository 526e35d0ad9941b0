//! A job of all nodes of a cluster, while some of them are killed or have a mount that hangs.
//! See `divided` for a lone node that divides.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::super::mounts::stop;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::guests::rules;
use super::left::wait_until;
use super::sites::{bring_though, join_by_mount};
use super::{Site, archive, runner, up};

/// Identities that sent to a node, by its records of transfers.
pub(super) fn senders(there: &Rig) -> std::collections::BTreeSet<String> {
    let outcome = there.admin(&["accounting", "--json"]);
    let records = outcome.out.lines();
    let records = records.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records
        .filter_map(|record| record["identity"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn all_nodes_bring_one_data_set_though_two_are_killed_meanwhile() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let export = site.nodes[0].export.clone();
    for n in 0..300_u32 {
        let directory = export.join(format!("set/d{}/e{}", n % 20, n % 3));
        fs::create_dir_all(&directory).expect("made");
        let content: Vec<u8> = (0..25_000_u32)
            .flat_map(|at| (at ^ n).to_le_bytes())
            .collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
    std::os::unix::fs::symlink("d1", export.join("set/link")).expect("made");
    fs::create_dir_all(export.join("set/empty")).expect("made");
    let large = fs::File::create(export.join("set/large")).expect("made");
    large.set_len((600 << 20) + 7).expect("long");
    let line = ["--limit", "1MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let job = wait_for(&site.nodes[0], &id, |job| job["state"] == "running");
    let controller = site.place_of(runner(&job).expect("a runner"));
    let worker = (controller + 1) % 3;
    let last = (controller + 2) % 3;
    site.nodes[worker].kill_daemon();
    site.wait_at(&[last], "a worker is lost", |view| up(view).len() == 2);
    site.nodes[worker].serve(&[]);
    site.wait_at(&[last], "it is back", |view| up(view).len() == 3);
    site.nodes[controller].kill_daemon();
    let ended = wait_for(&site.nodes[last], &id, |job| !job["ended"].is_null());
    let log = site.nodes[last].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_identical_to_rsync("-aH", &export.join("set"), &there.export.join("copy"));
    assert_no_temporaries(&there.export);
    // A transfer that a kill cut has no record, so a node that was killed early may have none.
    assert!(senders(&there).len() >= 2, "nodes share the work");
    // No access remains, neither that of the killed controller nor that of the next one.
    wait_until("no right stays", || rules(&there) == 0);
}

#[test]
fn a_source_whose_mount_hangs_gives_its_items_to_the_others() {
    let (mut site, there) = (Site::of(2), Site::of(2));
    let Some(mount) = join_by_mount(&mut site) else {
        return;
    };
    // The job ends while the mount still hangs.
    let hang = || stop(mount.pid());
    bring_though(&site, &there, hang, || mount.signal(Signal::CONT));
    drop(site);
}

#[test]
fn the_last_item_of_a_job_has_more_than_an_equal_share_of_its_limit() {
    let site = Site::of(3);
    let there = archive(&site);
    let set = site.nodes[0].export.join("set");
    fs::create_dir_all(&set).expect("made");
    fs::write(set.join("file"), vec![7_u8; 120 << 20]).expect("written");
    let line = ["--limit", "6MB", "--divide", "always"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    // The rate of a moment proves little.
    let mut fast = std::collections::BTreeSet::new();
    wait_for(&site.nodes[0], &id, |job| {
        assert!(job["ended"].is_null(), "as slow as an equal share: {job}");
        let progress = &job["progress"];
        if progress["bytes_per_second"].as_f64() > Some(3e6) {
            fast.insert(progress["at"].to_string());
        }
        fast.len() >= 5
    });
    let faster = site.nodes[0].admin(&["job", "limit", &id, "none"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_identical_to_rsync("-aH", &set, &there.export.join("copy"));
}

#[test]
fn a_job_uses_as_many_nodes_as_its_owner_says() {
    let site = Site::of(3);
    let there = archive(&site);
    let set = site.nodes[0].export.join("set");
    for n in 0..40_u8 {
        let directory = set.join(format!("d{n}"));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("f"), vec![n; 20_000]).expect("written");
    }
    let log_of = |line: &[&str], name: &str| {
        let to = format!("siteB:/data/{name}");
        let id = submit(&site.nodes[0], "here:/data/set", &to, line);
        let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
        let log = site.nodes[0].admin(&["job", "log", &id]).out;
        assert_eq!(ended["state"], "complete", "{ended}\n{log}");
        assert_identical_to_rsync("-aH", &set, &there.export.join(name));
        log
    };
    let log = log_of(&["--setting", "nodes=2"], "two");
    let says = "2 of 3 nodes of this site take part, as the setting nodes says";
    assert!(log.contains(says), "{log}");
    assert!(senders(&there).len() <= 2, "{log}");
    let log = log_of(&["--setting", "nodes=1"], "one");
    assert!(!log.contains("divided: "), "{log}");
    let log = log_of(&[], "all");
    assert!(!log.contains("as the setting nodes says"), "{log}");
}
