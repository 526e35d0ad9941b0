//! Divided jobs one of whose nodes cannot write or read while its mount answers: a full disk, a read-only or a broken file system.
//! See `sites` and `held_up` for mounts that hang, and `full` for a file system that is full at all nodes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde_json::Value;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries, files_below};
use super::super::mounts::{Mount, stop};
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::held_up::by_mounts;
use super::sites::{join_odd, know};
use super::{Site, nodes, up, voters};

/// Makes calls of the program of a mount end with the error whose number is the target of a link. Reads and writes have a link each.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int fault(const char *kind) {
    char path[4096], number[16];
    snprintf(path, sizeof path, "%s.%s", getenv("FAULTS"), kind);
    ssize_t length = readlink(path, number, sizeof number - 1);
    if (length <= 0) return 0;
    number[length] = 0;
    return atoi(number);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
    int number = fault("write");
    if (number) { errno = number; return -1; }
    return real(fd, bytes, length, offset);
}

ssize_t pread64(int fd, void *bytes, size_t length, off_t offset) {
    ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");
    int number = fault("read");
    if (number) { errno = number; return -1; }
    return real(fd, bytes, length, offset);
}
"#;

/// A mount whose reads and writes fail when the test says so.
struct FaultyMount {
    mount: Mount,
    prefix: PathBuf,
}

impl FaultyMount {
    /// Mounts `directory` at a place in `beside`; None where this user may not mount.
    fn of(directory: &Path, beside: &Path, name: &str) -> Option<Self> {
        let library = beside.join("faults.so");
        if !library.exists() {
            let source = beside.join("faults.c");
            fs::write(&source, FAULTS).expect("written");
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
            let made = compiler.arg(&library).arg(&source).arg("-ldl").status();
            assert!(made.is_ok_and(|made| made.success()), "it compiles");
        }
        let prefix = beside.join(name);
        let surroundings = [("LD_PRELOAD", &library), ("FAULTS", &prefix)];
        let place = beside.join(format!("{name}-mount"));
        let mount = Mount::with(directory, &place, &surroundings)?;
        Some(Self { mount, prefix })
    }

    fn link(&self, kind: &str) -> PathBuf {
        self.prefix.with_extension(kind)
    }

    /// Calls of this kind fail from now on.
    fn fail(&self, kind: &str, with: Errno) {
        symlink(with.raw_os_error().to_string(), self.link(kind)).expect("made");
    }

    fn heal(&self, kind: &str) {
        fs::remove_file(self.link(kind)).expect("ours");
    }
}

/// Adds a node that has the shared file system by a mount that can fail.
fn join_faulty(site: &mut Site) -> Option<FaultyMount> {
    let shared = site.nodes[0].export.clone();
    let faulty = FaultyMount::of(&shared, site.shared.path(), "odd")?;
    let own = tempfile::tempdir_in(site.shared.path()).expect("a directory");
    join_odd(site, Rig::with(own, Some(faulty.mount.place()), None));
    site.wait("three nodes", |view| up(view).len() == 3);
    Some(faulty)
}

/// Files of 1 MiB, which scans move, or large files, which are moved in parts.
fn fill(set: &Path, files: u32, bytes: u32) {
    // Every MiB of every file differs by its first bytes: a build for tests would need seconds to compute each byte.
    let mut piece: Vec<u8> = (0_u32..1 << 18).flat_map(u32::to_le_bytes).collect();
    for n in 0..files {
        let directory = set.join(format!("d{}", n % 20));
        fs::create_dir_all(&directory).expect("made");
        let mut file = fs::File::create(directory.join(format!("f{n}"))).expect("created");
        for at in 0..bytes >> 20 {
            piece[..4].copy_from_slice(&n.to_le_bytes());
            piece[4..8].copy_from_slice(&at.to_le_bytes());
            file.write_all(&piece).expect("written");
        }
    }
}

const DIVIDED: [&str; 2] = ["--divide", "always"];

fn begin(site: &Site, limit: &str) -> String {
    let line = [&DIVIDED[..], &["--limit", limit]].concat();
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    wait_for(&site.nodes[0], &id, |job| {
        job["state"] == "running" && job["progress"]["bytes"].as_u64() > Some(30_000_000)
    });
    id
}

fn log(site: &Site, id: &str) -> String {
    site.nodes[0].admin(&["job", "log", id]).out
}

/// The job ends complete in its first attempt, and the copy is whole.
#[track_caller]
fn assert_one_attempt(site: &Site, there: &Site, id: &str, job: &Value) {
    let log = log(site, id);
    assert_eq!(job["state"], "complete", "{job}\n{log}");
    assert_eq!(job["attempts"], 1, "{job}\n{log}");
    let copy = there.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &site.nodes[0].export.join("set"), &copy);
    assert_no_temporaries(&there.nodes[0].export);
}

/// Follows a job to its end; returns it with the longest time in which it moved less than a rate.
fn followed(site: &Site, id: &str, least: u64) -> (Value, Duration) {
    let began = Instant::now();
    let mut seen: Vec<(Duration, u64)> = Vec::new();
    let mut longest = Duration::ZERO;
    let mut low_since = None;
    let ended = wait_for(&site.nodes[0], id, |job| {
        let Some(bytes) = job["progress"]["bytes"].as_u64() else {
            return !job["ended"].is_null();
        };
        let now = began.elapsed();
        seen.push((now, bytes));
        // Nodes report once a second, and leases settle in steps.
        let before = seen
            .iter()
            .rev()
            .find(|(at, _)| *at + Duration::from_secs(3) <= now);
        if let Some((at, then)) = before {
            let moved = u128::from(bytes - then) * 1_000;
            let is_low = moved < u128::from(least) * (now - *at).as_millis();
            low_since = is_low.then(|| low_since.unwrap_or(*at));
            longest = longest.max(low_since.map_or(Duration::ZERO, |since| now - since));
        }
        !job["ended"].is_null()
    });
    (ended, longest)
}

#[test]
fn one_full_node_of_the_destination_is_set_aside_and_the_others_bring_its_part() {
    let (site, mut there) = (Site::of(2), Site::of(2));
    let Some(odd) = join_faulty(&mut there) else {
        return;
    };
    know(&site, &there);
    fill(&site.nodes[0].export.join("set"), 700, 1 << 20);
    let id = begin(&site, "12MB");
    odd.fail("write", Errno::NOSPC);
    let (job, low) = std::thread::scope(|scope| {
        let followed = scope.spawn(|| followed(&site, &id, 7_200_000));
        // The running job names the node and the cause.
        let job = wait_for(&site.nodes[1], &id, |job| {
            job["reason"]["code"] == "no_space" || !job["ended"].is_null()
        });
        assert_eq!(job["state"], "running", "{job}\n{}", log(&site, &id));
        let text = job["reason"]["text"].as_str().expect("a text");
        assert!(text.contains("siteB.odd: its storage"), "{job}");
        // Its room comes back, and it is used again after a while.
        odd.heal("write");
        let job = wait_for(&site.nodes[1], &id, |job| {
            job["reason"].is_null() || !job["ended"].is_null()
        });
        assert_eq!(job["state"], "running", "{job}\n{}", log(&site, &id));
        let faster = site.nodes[0].admin(&["job", "limit", &id, "none"]);
        assert_eq!(faster.code, Some(0), "{faster:?}");
        followed.join().expect("no panic")
    });
    assert_one_attempt(&site, &there, &id, &job);
    assert!(
        low <= Duration::from_secs(10),
        "{low:?}\n{}",
        log(&site, &id)
    );
    let log = log(&site, &id);
    let said = "the node siteB.odd of the destination is set aside for 20 s";
    assert!(log.contains(said), "{log}");
    let report = site.nodes[0].admin(&["job", "report", &id]);
    assert!(report.out.contains("siteB.odd"), "{report:?}");
    drop(there);
}

#[test]
fn parts_of_large_files_leave_a_node_that_cannot_write() {
    for fault in [Errno::NOSPC, Errno::ROFS, Errno::IO] {
        let (site, mut there) = (Site::of(2), Site::of(2));
        let Some(odd) = join_faulty(&mut there) else {
            return;
        };
        know(&site, &there);
        fill(&site.nodes[0].export.join("set"), 3, 280 << 20);
        let id = begin(&site, "60MB");
        odd.fail("write", fault);
        let job = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
        assert_one_attempt(&site, &there, &id, &job);
        let log = log(&site, &id);
        // The failure of a single entry would be known only at the end of a lease.
        let said = "siteB.odd of the destination is set aside";
        assert!(fault == Errno::IO || log.contains(said), "{log}");
        assert!(log.contains("; 0 parts, 0 files and 0 scans"), "{log}");
        drop(there);
    }
}

#[test]
fn a_job_waits_while_all_nodes_are_full_and_continues_with_the_first_that_is_not() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let disk = directory.path().join("disk");
    fs::create_dir_all(&disk).expect("made");
    let both = ["one", "two"].map(|name| FaultyMount::of(&disk, directory.path(), name));
    let [Some(one), Some(two)] = both else {
        return;
    };
    let places = [&one, &two].map(|faulty| faulty.mount.place().to_owned());
    let (here, there) = (Site::of(1), Site::at(&places));
    know(&here, &there);
    let set = here.nodes[0].export.join("set");
    fill(&set, 150, 1 << 20);
    let id = begin(&here, "20MB");
    one.fail("write", Errno::NOSPC);
    two.fail("write", Errno::DQUOT);
    let waits = wait_for(&here.nodes[0], &id, |job| {
        !job["next_attempt"].is_null() || !job["ended"].is_null()
    });
    assert_eq!(waits["state"], "queued", "{waits}\n{}", log(&here, &id));
    assert_eq!(waits["reason"]["code"], "no_space", "{waits}");
    two.heal("write");
    let job = wait_for(&here.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}\n{}", log(&here, &id));
    assert_identical_to_rsync("-a", &set, &disk.join("copy"));
    assert_eq!(files_below(&disk.join("copy")).len(), 150);
    drop(there);
}

#[test]
fn a_node_that_cannot_read_the_source_leaves_it_to_the_others() {
    let (mut site, there) = (Site::of(2), Site::of(1));
    let Some(odd) = join_faulty(&mut site) else {
        return;
    };
    know(&site, &there);
    fill(&site.nodes[0].export.join("set"), 400, 1 << 20);
    let id = begin(&site, "20MB");
    odd.fail("read", Errno::IO);
    let job = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_one_attempt(&site, &there, &id, &job);
    let log = log(&site, &id);
    let said = "the node odd does not take part: the file system of the source reports errors";
    assert!(log.contains(said), "{log}");
    odd.heal("read");
    drop(site);
}

#[test]
fn a_leader_whose_mount_hangs_answers_votes_and_gives_its_jobs_to_others() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let disk = directory.path().join("disk");
    fill(&disk.join("set"), 40, 1 << 20);
    let Some((mut site, mounts)) = by_mounts(&disk, 3) else {
        return;
    };
    let has = |node: &Value| node["exports"][0] == "data";
    site.wait("all vote and have the export", |view| {
        voters(view) == 3 && nodes(view).into_iter().all(has)
    });
    let leader = site.leader(0);
    let name = |view: &Value| view["leader"].as_str().map(str::to_owned);
    let led = site.view(leader).as_ref().and_then(name);
    stop(mounts[leader].pid());
    let log = site.nodes[leader].daemon();
    log.wait_for("the file system of the export data");
    site.wait("the leader says that it hangs, and leads", |view| {
        let hangs = nodes(view)
            .into_iter()
            .find(|node| node["name"].as_str() == led.as_deref());
        let lacks = |node: &Value| node["exports"].as_array().is_some_and(Vec::is_empty);
        hangs.is_some_and(lacks) && name(view) == led && up(view).len() == 3
    });
    let shown = site.nodes[leader].admin(&["cluster", "status"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    // It takes a job, which another node runs.
    let here = ("here:/data/set", "here:/data/copy");
    let id = submit(&site.nodes[leader], here.0, here.1, &["--divide", "never"]);
    let job = wait_for(&site.nodes[leader], &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!(job["attempts"], 1, "{job}");
    // With one voter killed, its vote makes the majority.
    let killed = (leader + 1) % 3;
    let other = (leader + 2) % 3;
    site.nodes[killed].kill_daemon();
    for node in [leader, other] {
        let own = site.nodes[node].identity.clone();
        let site_name = format!("kept{node}");
        let line = ["site", "add", &site_name, "192.0.2.1", "--identity", &own];
        let change = site.nodes[node].admin(&line);
        assert_eq!(change.code, Some(0), "{change:?}");
    }
    site.wait_at(&[leader, other], "it leads", |view| name(view) == led);
    assert_identical_to_rsync("-a", &disk.join("set"), &disk.join("copy"));
    mounts[leader].signal(rustix::process::Signal::CONT);
    let log = site.nodes[leader].daemon();
    log.wait_for("answers again");
    drop((site, mounts));
}
