//! Undivided jobs whose node stands still: stopped, or with a hanging mount. Another node continues, and the first changes nothing late.
//! See `sites` and `distributed` for divided jobs.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::super::judge::{assert_identical_to_rsync, files_below};
use super::super::mounts::{Mount, stop};
use super::super::process::wait_until;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::sites::{has_thread, know, writes};
use super::{Site, archive, runner};

const NEVER: [&str; 4] = ["--divide", "never", "--limit", "6MB"];

/// Small files that take some seconds under the limit.
fn fill(set: &Path) {
    for n in 0..2_000_u32 {
        let directory = set.join(format!("d{}", n % 20));
        fs::create_dir_all(&directory).expect("made");
        let content: Vec<u8> = (0..5_000_u32)
            .flat_map(|at| (at ^ n).to_le_bytes())
            .collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
}

/// Nodes that reach one directory, each by a separate mount; None if this user may not mount.
pub(super) fn by_mounts(disk: &Path, nodes: usize) -> Option<(Site, Vec<Mount>)> {
    let places = (1..=nodes).map(|node| disk.with_file_name(format!("m{node}")));
    let places: Vec<PathBuf> = places.collect();
    let mounts = places.iter().map(|place| Mount::of(disk, place));
    let mounts = mounts.collect::<Option<Vec<_>>>()?;
    Some((Site::at(&places), mounts))
}

/// Wakes a stopped node while all others of its site stand still. So the woken node cannot hear that another node took over its job.
#[track_caller]
fn wake_alone(site: &Site, late: usize) {
    let others = || (0..site.nodes.len()).filter(|node| *node != late);
    for other in others() {
        site.nodes[other].daemon().signal(Signal::STOP);
    }
    let node = &site.nodes[late];
    node.daemon().signal(Signal::CONT);
    // It has time to act until it has failed to change the state.
    let own = node.identity.as_str();
    let change = node.admin(&["site", "add", "kept", "192.0.2.1", "--identity", own]);
    assert_eq!(change.code, Some(1), "{change:?}");
    for other in others() {
        site.nodes[other].daemon().signal(Signal::CONT);
    }
}

/// The set has arrived, and a user's edits stay while late nodes wake.
#[track_caller]
fn assert_kept(set: &Path, copy: &Path, late: &Rig, wake: impl FnOnce()) {
    assert_identical_to_rsync("-a", set, copy);
    let files: Vec<PathBuf> = files_below(copy)
        .iter()
        .map(|file| copy.join(file))
        .collect();
    assert_eq!(files.len(), 2_000);
    for file in &files {
        fs::write(file, "edited").expect("written");
    }
    wake();
    let is_over = || !writes(late) && !has_thread(late, b"gw-job\n");
    wait_until(|| is_over().then_some(())).expect("it ends");
    for file in &files {
        assert_eq!(fs::read(file).expect("read"), b"edited", "{file:?}");
    }
}

#[test]
fn a_job_of_a_node_that_is_stopped_continues_elsewhere_and_the_node_wakes_too_late() {
    let site = Site::of(3);
    let export = site.nodes[0].export.clone();
    let (set, copy) = (export.join("set"), export.join("copy"));
    fill(&set);
    let id = submit(&site.nodes[0], "here:/data/set", "here:/data/copy", &NEVER);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(8_000_000)
    });
    let first = site.place_of(runner(&job).expect("a runner"));
    let late = &site.nodes[first];
    assert!(writes(late), "{job}");
    late.daemon().signal(Signal::STOP);
    let other = &site.nodes[(first + 1) % 3];
    let job = wait_for(other, &id, |job| !job["ended"].is_null());
    assert_eq!(
        (&job["state"], &job["attempts"]),
        (&"complete".into(), &2.into()),
        "{job}"
    );
    assert_kept(&set, &copy, late, || wake_alone(&site, first));
}

#[test]
fn a_push_of_a_node_that_is_stopped_continues_elsewhere_and_the_node_sends_nothing_late() {
    let site = Site::of(3);
    let there = archive(&site);
    let (set, copy) = (site.nodes[0].export.join("set"), there.export.join("copy"));
    fill(&set);
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &NEVER);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(8_000_000)
    });
    let first = site.place_of(runner(&job).expect("a runner"));
    let late = &site.nodes[first];
    late.daemon().signal(Signal::STOP);
    let other = &site.nodes[(first + 1) % 3];
    let job = wait_for(other, &id, |job| !job["ended"].is_null());
    // The transfer of the stopped node is ended, though its connections are still open.
    assert_eq!(
        (&job["state"], &job["attempts"]),
        (&"complete".into(), &2.into()),
        "{job}"
    );
    assert!(has_thread(late, b"gw-job\n"), "{job}");
    assert_kept(&set, &copy, late, || wake_alone(&site, first));
}

#[test]
fn a_job_into_a_mount_that_hangs_continues_at_another_node() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let disk = directory.path().join("disk");
    let (set, copy) = (disk.join("set"), disk.join("copy"));
    fill(&set);
    let Some((site, mounts)) = by_mounts(&disk, 2) else {
        return;
    };
    let id = submit(&site.nodes[0], "here:/data/set", "here:/data/copy", &NEVER);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(8_000_000)
    });
    let first = site.place_of(runner(&job).expect("a runner"));
    stop(mounts[first].pid());
    let other = &site.nodes[1 - first];
    let job = wait_for(other, &id, |job| !job["ended"].is_null());
    assert_eq!(
        (&job["state"], &job["attempts"]),
        (&"complete".into(), &2.into()),
        "{job}"
    );
    let said = site.nodes[first].daemon();
    said.wait_for("The file system of the export data has not answered at the node");
    let late = &site.nodes[first];
    assert!(writes(late), "it hangs in a call");
    assert_kept(&set, &copy, late, || mounts[first].signal(Signal::CONT));
    drop(mounts);
}

#[test]
fn a_job_waits_and_says_so_where_the_only_mount_hangs() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = directory.path().join("disk");
    fill(&disk.join("set"));
    let Some((site, mounts)) = by_mounts(&disk, 1) else {
        return;
    };
    let node = &site.nodes[0];
    let id = submit(node, "here:/data/set", "here:/data/copy", &NEVER);
    wait_for(node, &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(8_000_000)
    });
    stop(mounts[0].pid());
    let away = |job: &serde_json::Value| job["reason"]["code"] == "export_away";
    let job = wait_for(node, &id, away);
    let text = job["reason"]["text"].as_str().expect("a reason");
    let name = view_name(&site);
    assert!(
        text.contains("export data") && text.contains(&name),
        "{job}"
    );
    mounts[0].signal(Signal::CONT);
    let job = wait_for(node, &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    assert_identical_to_rsync("-a", &disk.join("set"), &disk.join("copy"));
    drop(mounts);
}

/// The name of the only node.
fn view_name(site: &Site) -> String {
    let view = site.view(0).expect("a view");
    view["nodes"][0]["name"]
        .as_str()
        .expect("a name")
        .to_owned()
}

#[test]
fn a_job_to_a_site_one_of_whose_mounts_hangs_goes_to_another_node_of_it() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let disk = directory.path().join("disk");
    fs::create_dir_all(&disk).expect("made");
    let Some((there, mounts)) = by_mounts(&disk, 2) else {
        return;
    };
    let here = Site::of(1);
    know(&here, &there);
    let (set, copy) = (here.nodes[0].export.join("set"), disk.join("copy"));
    fill(&set);
    let id = submit(&here.nodes[0], "here:/data/set", "siteB:/data/copy", &NEVER);
    wait_for(&here.nodes[0], &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(8_000_000)
    });
    let first = (0..2).find(|node| writes(&there.nodes[*node]));
    let first = first.expect("a node receives");
    stop(mounts[first].pid());
    let job = wait_for(&here.nodes[0], &id, |job| !job["ended"].is_null());
    let log = here.nodes[0].admin(&["job", "log", &id]).out;
    assert_eq!(job["state"], "complete", "{job}\n{log}");
    let late = &there.nodes[first];
    assert!(writes(late), "it hangs in a call");
    assert_kept(&set, &copy, late, || mounts[first].signal(Signal::CONT));
    drop(mounts);
}

#[test]
fn a_node_that_starts_while_a_mount_hangs_serves_all_else() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let (disk, place) = (directory.path().join("disk"), directory.path().join("m1"));
    fs::create_dir_all(&disk).expect("made");
    let mut node = Rig::new();
    node.write("export/set/f", b"content");
    // It can be seen only later that this export would reach the node's own files.
    std::os::unix::fs::symlink(node.path("daemon"), disk.join("link")).expect("made");
    let Some(mount) = Mount::of(&disk, &place) else {
        return;
    };
    stop(mount.pid());
    let silent = format!("silent={}", place.display());
    let own = format!("own={}", place.join("link").display());
    node.start(&["--export", &silent, "--export", &own]);
    let said = node.daemon();
    said.wait_for("the file system of the export silent");
    let served = submit(&node, "here:/data/set", "here:/data/copy", &[]);
    let job = wait_for(&node, &served, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    let ids =
        ["here:/silent/copy", "here:/own/copy"].map(|to| submit(&node, "here:/data/set", to, &[]));
    for id in &ids {
        wait_for(&node, id, |job| job["reason"]["code"] == "export_away");
    }
    mount.signal(Signal::CONT);
    let job = wait_for(&node, &ids[0], |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!(fs::read(disk.join("copy/f")).expect("read"), b"content");
    node.daemon().wait_for("the export stays closed");
    let to = format!("godwit://{}/own/f", node.address());
    let from = node.path("export/set/f");
    let refused = node.cp(&[from.as_os_str(), to.as_ref()]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    refused.says("must not be exported");
    assert!(!node.path("daemon/f").exists() && !node.path("daemon/copy").exists());
    drop(mount);
}
