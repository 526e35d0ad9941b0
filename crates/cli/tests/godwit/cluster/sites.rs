//! Two clusters: all nodes of one send a job to all nodes of the other, whichever nodes are killed or see another file system.
//! See `divided` for a destination of one node.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries, files_below};
use super::super::mounts::Mount;
use super::super::process::wait_until;
use super::super::rig::Rig;
use super::super::sites::{allow, know as know_by, submit, wait_for};
use super::divided::senders;
use super::{Site, invite, join_by, up};

/// Lets the nodes of one cluster read and write at the other, which they know by its first node.
pub(super) fn know(site: &Site, there: &Site) {
    for node in &site.nodes {
        let line = ["access", "allow", &node.identity, "--all-exports"];
        let outcome = there.nodes[0].admin(&[&line[..], &["--read", "--write"]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let first = &there.nodes[0];
    let line = ["site", "add", "siteB", first.address(), "--identity"];
    let outcome = site.nodes[0].admin(&[&line[..], &[&first.identity]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

pub(super) fn fill(export: &Path) {
    // More files than four scans move.
    for n in 0..18_000_u32 {
        let directory = export.join(format!("set/d{}/e{}", n % 20, n % 3));
        if n < 60 {
            fs::create_dir_all(&directory).expect("made");
        }
        let content: Vec<u8> = (0..500_u32).flat_map(|at| (at ^ n).to_le_bytes()).collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
    let large = fs::File::create(export.join("set/large")).expect("made");
    large.set_len((600 << 20) + 7).expect("long");
}

#[track_caller]
fn assert_complete(site: &Site, there: &Site, asked: usize, id: &str) {
    let ended = wait_for(&site.nodes[asked], id, |job| !job["ended"].is_null());
    let log = site.nodes[asked].admin(&["job", "log", id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    let copy = there.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &site.nodes[0].export.join("set"), &copy);
    assert_no_temporaries(&there.nodes[0].export);
}

/// Has a node join whose export is a separate directory.
pub(super) fn join_odd(site: &mut Site, mut odd: Rig) {
    let by = &site.nodes[0];
    join_by(&mut odd, by, &invite(by), "odd", &[]);
    site.nodes.push(odd);
}

/// Whether the cluster knows that the node's export is wrong.
pub(super) fn lacks_export(view: &serde_json::Value, name: &str) -> bool {
    let nodes = super::nodes(view);
    let node = nodes.iter().find(|node| node["name"] == name);
    node.is_some_and(|node| node["exports"].as_array().is_some_and(Vec::is_empty))
}

/// How many nodes of the source sent to the node.
fn sender_count(node: &Rig) -> usize {
    senders(node).len()
}

#[test]
fn nodes_of_both_sites_share_the_work_though_the_known_one_is_killed() {
    let (site, mut there) = (Site::of(2), Site::of(3));
    know(&site, &there);
    fill(&site.nodes[0].export);
    let line = ["--limit", "1MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    wait_for(&site.nodes[1], &id, |job| {
        job["state"] == "running" && job["progress"]["files"].as_u64() > Some(0)
    });
    there.nodes[0].kill_daemon();
    there.wait_at(&[1, 2], "a node is lost", |view| up(view).len() == 2);
    // Both current leases may be with one node. The next ones go to both.
    let faster = site.nodes[0].admin(&["job", "limit", &id, "3MB"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    let shares = wait_until(|| {
        let mut nodes = there.nodes[1..].iter();
        nodes.all(|node| sender_count(node) > 0).then_some(())
    });
    assert!(
        shares.is_some(),
        "each node of the destination takes a part"
    );
    let faster = site.nodes[0].admin(&["job", "limit", &id, "20MB"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    assert_complete(&site, &there, 1, &id);
    // Another job finds the site by a node that the site named before.
    fs::create_dir_all(site.nodes[0].export.join("next")).expect("made");
    fs::write(site.nodes[0].export.join("next/f"), b"next").expect("written");
    for divide in ["auto", "never"] {
        let to = format!("siteB:/data/{divide}");
        let line = ["--divide", divide];
        let id = submit(&site.nodes[0], "here:/data/next", &to, &line);
        let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        let copy = fs::read(there.nodes[1].export.join(divide).join("f"));
        assert_eq!(copy.ok().as_deref(), Some(&b"next"[..]));
    }
    there.nodes[0].serve(&[]);
}

#[test]
fn the_nodes_of_a_site_bring_what_another_cluster_fetches() {
    let (site, there) = (Site::of(2), Site::of(2));
    know(&site, &there);
    fill(&there.nodes[0].export);
    // The nodes at the destination may read there; the nodes there have no rights here, and write for the job alone.
    let line = ["--limit", "6MB"];
    let id = submit(&site.nodes[1], "siteB:/data/set", "here:/data/copy", &line);
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    let (from, to) = (&there.nodes[0].export, &site.nodes[0].export);
    assert_identical_to_rsync("-aH", &from.join("set"), &to.join("copy"));
    assert_no_temporaries(to);
    // The log is at the node that followed the job.
    let logs: Vec<String> = (0..2)
        .map(|node| site.nodes[node].admin(&["job", "log", &id]).out)
        .collect();
    assert!(logs.concat().contains("siteB sends to"), "{logs:?}");
    assert!(!logs.concat().contains("not divided"), "{logs:?}");
    let sent = senders(&site.nodes[0]).len() + senders(&site.nodes[1]).len();
    assert!(sent > 1, "both nodes there sent");
    let rules = site.nodes[0].admin(&["access", "list"]).out;
    assert!(!rules.contains(&id), "nothing of it is left: {rules}");
}

#[test]
fn a_lone_node_sends_to_all_nodes_of_a_cluster_and_hears_from_all_of_them() {
    let (site, there) = (Site::of(1), Site::of(2));
    know(&site, &there);
    fill(&site.nodes[0].export);
    let line = ["--limit", "6MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    assert_complete(&site, &there, 0, &id);
    for node in &there.nodes {
        assert!(
            sender_count(node) > 0,
            "each node of the destination took a part"
        );
    }
    // A site without a right to write here gets none to what is there from a job with `auto`.
    fs::create_dir(site.nodes[0].export.join("alone")).expect("made");
    let id = submit(
        &site.nodes[0],
        "siteB:/data/copy",
        "here:/data/alone",
        &line,
    );
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert!(log.contains("no right to write"), "{log}");
    assert!(senders(&site.nodes[0]).is_empty(), "one node here fetched");
    for node in &there.nodes {
        let allow = [
            "access",
            "allow",
            &node.identity,
            "--export",
            "data",
            "--write",
        ];
        let outcome = site.nodes[0].admin(&allow);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let id = submit(&site.nodes[0], "siteB:/data/copy", "here:/data/back", &line);
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let export = &site.nodes[0].export;
    assert_identical_to_rsync("-aH", &export.join("set"), &export.join("back"));
    assert_no_temporaries(export);
    let there: BTreeSet<String> = there.nodes.iter().map(|one| one.identity.clone()).collect();
    assert_eq!(senders(&site.nodes[0]), there, "each node there sent");
}

/// A node that joins changes nothing for a job that one node began to fetch.
#[test]
fn a_job_that_one_node_fetches_is_not_brought_by_others_later() {
    let (mut site, there) = (Site::of(1), Site::of(1));
    know(&site, &there);
    for n in 0..30_u8 {
        let directory = there.nodes[0].export.join(format!("run42/d{}", n % 3));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(format!("f{n}")), vec![n; 100_000]).expect("written");
    }
    // The join takes seconds on a busy machine, and the job has to last longer.
    let line = ["--limit", "50KB"];
    let id = submit(&site.nodes[0], "siteB:/data/run42", "here:/data/new", &line);
    wait_for(&site.nodes[0], &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(0)
    });
    site.join("dtn2", &[]);
    site.wait("two nodes", |view| up(view).len() == 2);
    // Either node may make the second attempt.
    let line = [
        "access",
        "allow",
        &site.nodes[1].identity,
        "--export",
        "data",
    ];
    let outcome = there.nodes[0].admin(&[&line[..], &["--read"]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    site.nodes[0].kill_daemon();
    site.nodes[0].serve(&[]);
    let faster = site.nodes[0].admin(&["job", "limit", &id, "none"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    let ended = wait_for(&site.nodes[1], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(ended["attempts"], 2, "{ended}");
    let jobs_there = there.nodes[0]
        .admin(&["job", "list", "--all", "--json"])
        .out;
    assert_eq!(jobs_there, "", "no job runs there for this one");
    let (from, to) = (&there.nodes[0].export, &site.nodes[0].export);
    assert_identical_to_rsync("-aHO", &from.join("run42"), &to.join("new"));
    assert_no_temporaries(to);
}

#[test]
fn a_node_whose_export_is_another_file_system_is_left_out() {
    let (site, mut there) = (Site::of(1), Site::of(1));
    join_odd(&mut there, Rig::new());
    there.wait("two nodes", |view| up(view).len() == 2);
    know(&site, &there);
    fill(&site.nodes[0].export);
    // So slow that the node is asked again after it knows the possible writers.
    let line = ["--divide", "always", "--limit", "2MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    assert_complete(&site, &there, 0, &id);
    assert_eq!(sender_count(&there.nodes[1]), 0);
    assert!(!there.nodes[1].export.join("copy").exists());
}

#[test]
fn a_node_that_sees_another_source_takes_no_part() {
    let (mut site, there) = (Site::of(2), Site::of(1));
    know(&site, &there);
    fill(&site.nodes[0].export);
    let line = ["--divide", "always", "--limit", "1MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    wait_for(&site.nodes[0], &id, |job| job["state"] == "running");
    let odd = Rig::new();
    fs::create_dir_all(odd.export.join("set/d1")).expect("made");
    fs::write(odd.export.join("set/d1/wrong"), b"of another file system").expect("written");
    join_odd(&mut site, odd);
    site.wait("it is told", |view| lacks_export(view, "odd"));
    let faster = site.nodes[0].admin(&["job", "limit", &id, "none"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    assert_complete(&site, &there, 0, &id);
    assert!(!there.nodes[0].export.join("copy/d1/wrong").exists());
}

#[test]
fn a_node_whose_mount_is_missing_takes_no_job() {
    let (mut site, there) = (Site::of(2), Site::of(1));
    fill(&site.nodes[0].export);
    // As without a mounted file system: an empty directory.
    join_odd(&mut site, Rig::new());
    site.wait("three nodes", |view| up(view).len() == 3);
    know(&site, &there);
    site.wait("it is told", |view| lacks_export(view, "odd"));
    let leader = site.leader(0);
    site.nodes[leader]
        .daemon()
        .wait_for("the export data of the node odd is a different file system");
    for n in 0..4 {
        let to = format!("siteB:/data/copy{n}");
        let id = submit(
            &site.nodes[2],
            "here:/data/set/d1",
            &to,
            &["--divide", "never"],
        );
        let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
    }
    assert!(!senders(&there.nodes[0]).contains(&site.nodes[2].identity));
}

#[test]
fn a_node_whose_export_is_another_file_system_takes_no_undivided_job_into_it() {
    let mut there = Site::of(2);
    fs::write(there.nodes[0].export.join("here"), b"the file system").expect("written");
    let own = tempfile::tempdir_in(there.shared.path()).expect("a directory");
    join_odd(&mut there, Rig::with(own, None, None));
    there.wait("it is odd", |view| lacks_export(view, "odd"));
    let odd = &there.nodes[2];
    odd.daemon()
        .wait_for("are refused until the file system is mounted");
    let mut here = Rig::new();
    here.serve(&[]);
    allow(odd, &here.identity, &["--read", "--write"]);
    know_by(&here, "siteB", odd);
    fs::create_dir_all(here.export.join("set")).expect("made");
    fs::write(here.export.join("set/f"), b"content").expect("written");
    // The node that is known passes the job on to one with the file system.
    let id = submit(&here, "here:/data/set", "siteB:/data/copy", &[]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let arrived = fs::read(there.nodes[0].export.join("copy/f")).expect("there");
    assert_eq!(arrived, b"content");
    // A transfer to the node itself is refused.
    let trusted = here.admin(&["trust", odd.address(), &odd.identity]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let set = here.export.join("set");
    let set = set.to_str().expect("text");
    let refused = here.admin(&["cp", "-r", set, &odd.url("data/copy"), "--retry-for=1s"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.complaint.contains("is not mounted"), "{refused:?}");
    let written = fs::read_dir(&odd.export).expect("read").count();
    assert_eq!(written, 0, "nothing is in the empty mount point");
}

/// Makes files that one node moves in many leases, most of them in parts.
fn fill_large(export: &Path) {
    for n in 0..3_u32 {
        fs::create_dir_all(export.join("set")).expect("made");
        let content: Vec<u8> = (0..(280 << 18) + n)
            .flat_map(|at| (at ^ (n << 30)).to_le_bytes())
            .collect();
        fs::write(export.join(format!("set/large{n}")), content).expect("written");
    }
}

/// The longest time in which no byte may move while a node is judged, on a busy machine. A node that waits for the disturbed node, or for
/// the end of its job, takes several times as long.
const STANDSTILL_MAX: Duration = Duration::from_secs(40);

/// The longest time without a new byte.
fn longest_standstill(looks: &[(Instant, u64)]) -> Duration {
    let (mut longest, mut best) = (Duration::ZERO, None);
    for (at, bytes) in looks {
        match best {
            Some((since, most)) if *bytes <= most => longest = longest.max(*at - since),
            _ => best = Some((*at, *bytes)),
        }
    }
    longest
}

/// Brings a set while the last node of the destination is disturbed, for as long as the job lasts. All others continue, and no
/// second attempt is needed.
pub(super) fn bring_though(site: &Site, there: &Site, hurt: impl FnOnce(), heal: impl FnOnce()) {
    know(site, there);
    fill_large(&site.nodes[0].export);
    // The deadline for standing connections is far off, so it cannot help.
    let line = [
        "--limit",
        "40MB",
        "--divide",
        "always",
        "--setting",
        "stall-deadline=600s",
    ];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    wait_for(&site.nodes[0], &id, |job| {
        job["state"] == "running" && job["progress"]["bytes"].as_u64() > Some(30_000_000)
    });
    hurt();
    let mut looks = Vec::new();
    let job = wait_for(&site.nodes[0], &id, |job| {
        let bytes = job["progress"]["bytes"].as_u64();
        looks.extend(bytes.map(|bytes| (Instant::now(), bytes)));
        !job["ended"].is_null()
    });
    heal();
    let still = longest_standstill(&looks);
    assert!(
        still < STANDSTILL_MAX,
        "the others moved nothing for {still:?}: {job}"
    );
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert_eq!(job["state"], "complete", "{job}\n{log}");
    assert_eq!(job["attempts"], 1, "{job}\n{log}");
    let copy = there.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &site.nodes[0].export.join("set"), &copy);
}

#[test]
fn a_stopped_node_of_the_destination_delays_no_other() {
    let (site, there) = (Site::of(2), Site::of(3));
    let last = &there.nodes[2];
    let stop = || last.daemon().signal(Signal::STOP);
    let resume = || last.daemon().signal(Signal::CONT);
    bring_though(&site, &there, stop, resume);
}

/// Adds a node that has the shared file system by a mount that can hang; None where this user may not mount.
pub(super) fn join_by_mount(there: &mut Site) -> Option<Mount> {
    let shared = there.nodes[0].export.clone();
    let mount = Mount::of(&shared, &there.shared.path().join("mount"))?;
    let own = tempfile::tempdir_in(there.shared.path()).expect("a directory");
    join_odd(there, Rig::with(own, Some(mount.place()), None));
    there.wait("three nodes", |view| up(view).len() == 3);
    Some(mount)
}

/// Whether a thread of a node is in a transfer into files.
pub(super) fn writes(node: &Rig) -> bool {
    has_thread(node, b"gw-commit")
}

/// Whether a node has a thread with this name.
pub(super) fn has_thread(node: &Rig, wanted: &[u8]) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.daemon().id())).expect("it runs");
    let names = tasks.filter_map(|task| fs::read(task.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with(wanted))
}

#[test]
fn late_calls_of_a_node_with_a_hanging_mount_change_nothing() {
    let (site, mut there) = (Site::of(2), Site::of(2));
    let Some(mount) = join_by_mount(&mut there) else {
        return;
    };
    know(&site, &there);
    let export = &site.nodes[0].export;
    for n in 0..6_000_u32 {
        let directory = export.join(format!("set/d{}", n % 20));
        fs::create_dir_all(&directory).expect("made");
        let content: Vec<u8> = (0..5_000_u32)
            .flat_map(|at| (at ^ n).to_le_bytes())
            .collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
    let wait = "stall-deadline=600s";
    let line = ["--limit", "10MB", "--divide", "always", "--setting", wait];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    wait_for(&site.nodes[0], &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(10_000_000) && writes(&there.nodes[2])
    });
    mount.signal(Signal::STOP);
    let job = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    let copy = there.nodes[0].export.join("copy");
    assert_identical_to_rsync("-a", &export.join("set"), &copy);
    assert!(writes(&there.nodes[2]), "it hangs in a call");
    // The job is complete, and reports that late calls may still come.
    assert_eq!(job["reason"]["code"], "late_calls", "{job}");
    for command in ["show", "log", "report"] {
        let said = site.nodes[0].admin(&["job", command, &id]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let words = "siteB.odd has not confirmed";
        assert!(said.out.contains(words), "{command}: {said:?}");
    }
    let files: Vec<_> = files_below(&copy)
        .iter()
        .map(|file| copy.join(file))
        .collect();
    assert_eq!(files.len(), 6_000);
    for file in &files {
        fs::write(file, "edited").expect("written");
    }
    mount.signal(Signal::CONT);
    wait_until(|| (!writes(&there.nodes[2])).then_some(())).expect("it ends");
    for file in &files {
        assert_eq!(fs::read(file).expect("read"), b"edited", "{file:?}");
    }
    assert_eq!(files_below(&copy).len(), 6_000);
    drop(there);
}

#[test]
fn a_node_whose_mount_hangs_reports_it_and_delays_no_other() {
    let (site, mut there) = (Site::of(2), Site::of(2));
    let Some(mount) = join_by_mount(&mut there) else {
        return;
    };
    let hang = || mount.signal(Signal::STOP);
    let resume = || {
        // The leader learns of the mount, and a node with a mount that hangs answers.
        for node in 0..3 {
            there.wait_at(&[node], "one does without", |view| {
                lacks_export(view, "odd") && up(view).len() == 3
            });
        }
        let log = there.nodes[2].daemon();
        log.wait_for("the file system of the export data");
        mount.signal(Signal::CONT);
        log.wait_for("answers again");
    };
    bring_though(&site, &there, hang, resume);
    drop(there);
}
