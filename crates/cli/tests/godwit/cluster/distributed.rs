//! Clusters whose nodes share a real distributed file system: a volume of GlusterFS, with a mount for each node.
//! See `gluster` for the volume, and `sites` for mounts that lose no answers.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_testkit::skip;
use rustix::process::Signal;

use super::super::data::{Seeded, make_tree, write_file};
use super::super::gluster::{Volume, until};
use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::super::mounts::Mount;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::sites::{join_odd, know, lacks_export, writes};
use super::{Site, up};

/// Nodes in memory, and three whose export is a volume.
struct World {
    /// Go first: a process that waits for a mount that hangs cannot be killed.
    mounts: Vec<Mount>,
    from: Site,
    to: Site,
    volume: Volume,
    directory: tempfile::TempDir,
}

impl World {
    /// None without root.
    fn with(nodes: usize, options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a directory");
        let volume = Volume::make(&directory.path().join("v"))?;
        let places = (1..=nodes).map(|node| directory.path().join(format!("m{node}")));
        let places: Vec<PathBuf> = places.collect();
        let mounts = places.iter().map(|place| volume.mount(place, options));
        let mounts = mounts.collect();
        let from = Site::of(2);
        let to = Site::at(&places);
        know(&from, &to);
        Some(Self {
            mounts,
            from,
            to,
            volume,
            directory,
        })
    }

    /// The source of the job.
    fn set(&self) -> PathBuf {
        self.from.nodes[0].export.join("set")
    }

    /// The copy, by the mount of this node.
    fn copy(&self, node: usize) -> PathBuf {
        self.to.nodes[node].export.join("copy")
    }

    /// The copy is the set by a mount that remembers nothing, which gets this name.
    #[track_caller]
    fn assert_arrived(&self, name: &str) {
        let mount = self.volume.mount(&self.directory.path().join(name), &[]);
        assert_identical_to_rsync("-aH", &self.set(), &mount.place().join("copy"));
        assert_no_temporaries(mount.place());
    }

    /// Submits a divided job that copies the set; returns its id.
    fn submit(&self, more: &[&str]) -> String {
        let line = [&["--divide", "always"], more].concat();
        let to = "siteB:/data/copy";
        submit(&self.from.nodes[0], "here:/data/set", to, &line)
    }

    /// Waits for the end of a job, which has to be complete in one attempt.
    #[track_caller]
    fn complete(&self, id: &str) {
        let node = &self.from.nodes[0];
        let job = wait_for(node, id, |job| !job["ended"].is_null());
        let log = node.admin(&["job", "log", id]).out;
        assert_eq!(job["state"], "complete", "{job}\n{log}");
        assert_eq!(job["attempts"], 1, "{job}\n{log}");
        assert!(!log.contains("not divided"), "{log}");
    }
}

/// One file in two parts, many small ones, and an entry of each kind.
fn fill(set: &Path) {
    make_tree(set, 16, &mut Seeded(33));
    write_file(&set.join("parts"), (300 << 20) + 7, &mut Seeded(34));
    for n in 0..2_000_u32 {
        let directory = set.join(format!("many/d{}", n % 20));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(format!("f{n}")), n.to_string()).expect("written");
    }
}

/// A tree arrives. Its next state arrives by `--sync`, which deletes removed entries.
fn brings_and_syncs(options: &[&str]) {
    let Some(world) = World::with(3, options) else {
        return;
    };
    let set = world.set();
    fill(&set);
    world.complete(&world.submit(&[]));
    world.assert_arrived("first");
    fs::remove_dir_all(set.join("many/d3")).expect("removed");
    fs::remove_file(set.join("large-0")).expect("removed");
    fs::write(set.join("many/d4/new"), b"new").expect("written");
    fs::write(set.join("many/d4/f4"), b"another content").expect("written");
    let sync = ["--sync", "--setting", "delete=true"];
    world.complete(&world.submit(&sync));
    world.assert_arrived("second");
}

#[test]
fn a_tree_arrives_and_is_kept_equal_by_mounts_with_their_usual_caches() {
    brings_and_syncs(&[]);
}

#[test]
fn a_tree_arrives_and_is_kept_equal_by_mounts_that_remember_for_a_minute() {
    brings_and_syncs(&["--attribute-timeout=60", "--entry-timeout=60"]);
}

#[test]
fn a_hung_mount_delays_no_other_call_and_reverts_no_later_edit() {
    let Some(world) = World::with(3, &[]) else {
        return;
    };
    let set = world.set();
    fs::create_dir_all(&set).expect("made");
    write_file(&set.join("parts"), (560 << 20) + 7, &mut Seeded(35));
    for n in 0..200 {
        fs::write(set.join(format!("f{n}")), n.to_string()).expect("written");
    }
    let id = world.submit(&["--limit", "40MB"]);
    wait_for(&world.from.nodes[0], &id, |job| {
        job["state"] == "running" && job["progress"]["bytes"].as_u64() > Some(60_000_000)
    });
    world.volume.stop_without_lock(&world.mounts[2]);
    world.complete(&id);
    world.assert_arrived("judge");
    // A user edits the arrived files.
    let edited = world.copy(0).join("parts");
    write_file(&edited, 560 << 20, &mut Seeded(36));
    let after = fs::metadata(&edited)
        .expect("there")
        .modified()
        .expect("a time");
    world.mounts[2].signal(Signal::CONT);
    world.to.nodes[2].daemon().wait_for("answers again");
    // The work of a node that is killed ends with its process.
    let World { mut to, mounts, .. } = world;
    to.nodes[2].kill_daemon();
    let expected = to.shared.path().join("expected");
    write_file(&expected, 560 << 20, &mut Seeded(36));
    let same = Command::new("cmp").args([&expected, &edited]).status();
    assert!(same.expect("cmp runs").success(), "the edit is taken back");
    let now = fs::metadata(&edited)
        .expect("there")
        .modified()
        .expect("a time");
    assert_eq!(now, after);
    drop(mounts);
}

/// The mount of the node that closes the tree hangs while attributes are set, or names deleted.
#[test]
fn a_closer_whose_mount_hangs_takes_back_no_attributes_and_no_names() {
    let Some(world) = World::with(3, &[]) else {
        return;
    };
    let set = world.set();
    let names: Vec<String> = (0..2_400).map(|n| format!("d{}/f{n}", n % 10)).collect();
    let mode = |path: &Path, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(path, mode).expect("set");
    };
    for name in &names {
        let path = set.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, name).expect("written");
        mode(&path, 0o640);
    }
    world.complete(&world.submit(&[]));
    let (gone, kept) = names.split_at(600);
    for name in gone {
        fs::remove_file(set.join(name)).expect("removed");
    }
    for name in kept {
        mode(&set.join(name), 0o600);
    }
    let judge = world
        .volume
        .mount(&world.directory.path().join("judge"), &[]);
    let copy = judge.place().join("copy");
    let id = world.submit(&["--sync", "--setting", "delete=true"]);
    // Only the closer sets attributes of existing entries.
    let last = copy.join(kept.last().expect("a name"));
    let first = kept.iter().map(|name| copy.join(name)).take(50);
    let first: Vec<PathBuf> = first.chain([last]).collect();
    until("attributes are being set", || {
        let is_set = |path: &PathBuf| fs::metadata(path).expect("there").mode() & 0o777 == 0o600;
        first.iter().any(is_set)
    });
    let closer = (0..3).find(|node| writes(&world.to.nodes[*node]));
    let closer = closer.expect("a node closes");
    world.volume.stop_without_lock(&world.mounts[closer]);
    world.complete(&id);
    assert_identical_to_rsync("-aH", &set, &copy);
    if !writes(&world.to.nodes[closer]) {
        skip("the closer was faster than this test");
        world.mounts[closer].signal(Signal::CONT);
        return;
    }
    let job = wait_for(&world.from.nodes[0], &id, |_| true);
    assert_eq!(job["reason"]["code"], "late_calls", "{job}");
    // A user changes each entry, and makes the missing ones again.
    for name in &names {
        let path = copy.join(name);
        fs::write(&path, "edited").expect("written");
        mode(&path, 0o604);
    }
    let seen = || {
        let of = |name: &String| {
            let there = fs::metadata(copy.join(name)).expect("there");
            (there.mode(), there.mtime(), there.mtime_nsec())
        };
        names.iter().map(of).collect::<Vec<_>>()
    };
    let before = seen();
    world.mounts[closer].signal(Signal::CONT);
    until("the calls end", || !writes(&world.to.nodes[closer]));
    assert!(seen() == before, "attributes are as the user set them");
    for name in &names {
        assert_eq!(
            fs::read(copy.join(name)).expect("read"),
            b"edited",
            "{name}"
        );
    }
    drop(judge);
    drop(world);
}

#[test]
fn a_node_with_no_mount_or_another_volume_is_left_out() {
    let Some(mut world) = World::with(2, &[]) else {
        return;
    };
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    // An empty volume looks like an empty directory.
    fs::write(world.to.nodes[0].export.join("here"), b"the volume").expect("written");
    let other = Volume::make(&directory.path().join("w")).expect("we are root");
    for (number, is_mounted) in [(0, true), (1, false)] {
        let place = directory.path().join(format!("m{number}"));
        let mount = is_mounted.then(|| other.mount(&place, &[]));
        let own = tempfile::tempdir().expect("a directory");
        join_odd(&mut world.to, Rig::with(own, Some(&place), None));
        world.to.wait("all are up", |view| up(view).len() == 3);
        world.to.wait("it is odd", |view| lacks_export(view, "odd"));
        let set = world.set();
        fs::create_dir_all(&set).expect("made");
        for n in 0..200 {
            let content = format!("{n} {number}");
            fs::write(set.join(format!("f{n}")), content).expect("written");
        }
        world.complete(&world.submit(&[]));
        world.assert_arrived(&format!("judge{number}"));
        fs::remove_dir_all(world.copy(0)).expect("removed");
        assert_eq!(fs::read_dir(&place).expect("read").count(), 0);
        let mut odd = world.to.nodes.pop().expect("a node");
        odd.kill_daemon();
        let line = ["cluster", "remove", "odd", "--force"];
        let removed = world.to.nodes[0].admin(&line);
        assert_eq!(removed.code, Some(0), "{removed:?}");
        world.to.wait("it is gone", |view| up(view).len() == 2);
        drop(mount);
    }
}

/// The nodes of two sites mount one volume, each by a separate client.
#[test]
fn places_of_two_sites_in_one_volume_are_known_to_be_one() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let Some(volume) = Volume::make(&directory.path().join("v")) else {
        return;
    };
    let places = [1, 2, 3].map(|node| directory.path().join(format!("m{node}")));
    let mounts = places.each_ref().map(|place| volume.mount(place, &[]));
    let (from, to) = (Site::at(&places[..2]), Site::at(&places[2..]));
    know(&from, &to);
    let top = places[0].join("top");
    fs::create_dir_all(top.join("a/deep")).expect("made");
    for name in ["f", "a/g", "a/deep/h"] {
        fs::write(top.join(name), name).expect("written");
    }
    let node = &from.nodes[0];
    let delete = ["--sync", "--setting", "delete=true"];
    let job = |divide: &str, [from, to]: [&str; 2], more: &[&str]| {
        let line = [&["--divide", divide], more].concat();
        let (from, to) = (format!("here:/data/{from}"), format!("siteB:/data/{to}"));
        let id = submit(node, &from, &to, &line);
        let job = wait_for(node, &id, |job| !job["ended"].is_null());
        let log = node.admin(&["job", "log", &id]).out;
        (job["state"].clone(), format!("{job}\n{log}"))
    };
    let mut names = 3;
    for divide in ["never", "always"] {
        for (ends, words) in [
            (["top/a", "top"], "inside the destination"),
            (["top", "top"], "into itself"),
            (["top", "top/a/x"], "into itself"),
        ] {
            let (state, all) = job(divide, ends, &delete);
            assert_eq!(state, "failed", "{ends:?} {divide}: {all}");
            assert!(all.contains(words), "{ends:?} {divide}: {all}");
            for name in ["f", "a/g", "a/deep/h"] {
                assert_eq!(fs::read(top.join(name)).expect(name), name.as_bytes());
            }
            let is_clean = || {
                let found = Command::new("find")
                    .arg(&top)
                    .args(["-type", "f"])
                    .output()
                    .expect("it runs");
                let found = String::from_utf8(found.stdout).expect("names");
                found.lines().count() == names && !found.contains(".godwit-")
            };
            until(
                &format!("{ends:?} {divide} leaves nothing: {all}"),
                is_clean,
            );
        }
        let (state, all) = job(divide, ["top/a", "top/b"], &delete);
        assert_eq!(state, "complete", "{divide}: {all}");
        assert_eq!(fs::read(top.join("b/deep/h")).expect("there"), b"a/deep/h");
        names = 5;
    }
    drop((from, to));
    drop(mounts);
}
