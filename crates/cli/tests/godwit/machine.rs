//! Owns the tests of how a process uses the machine: --direct, --pin, and that its memory is its own.
//! Does not measure the benefit.

use std::path::Path;
use std::process::Command;

use super::judge::assert_identical;
use super::rig::{NOBODY, Rig, as_each_user, is_root};

/// Bytes of a file in the page cache, as `fincore` of util-linux reports; `None` on tmpfs, which is nothing but a cache.
fn cached_bytes(path: &Path) -> Option<u64> {
    let kind = Command::new("stat")
        .args(["--file-system", "--format=%T"])
        .arg(path)
        .output()
        .expect("stat");
    if kind.stdout.starts_with(b"tmpfs") {
        return None;
    }
    let reported = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output=RES"])
        .arg(path)
        .output()
        .expect("fincore");
    let text = String::from_utf8(reported.stdout).expect("a number");
    Some(text.trim().parse().expect("a number"))
}

#[test]
fn direct_leaves_only_the_ends_of_files_in_the_cache() {
    const PAGE: u64 = 4096;
    as_each_user(|rig| {
        rig.start(&["--encryption", "any"]);
        let sizes = [0, 1, 4095, 4096, 5_000_011, 8 << 20];
        for (number, bytes) in sizes.into_iter().enumerate() {
            let content: Vec<u8> = (0..bytes)
                .map(|at: u32| at.to_le_bytes()[1] ^ 0x5a)
                .collect();
            rig.write(&format!("data/f{number}"), content);
        }
        // A hole that neither begins nor ends with a page.
        let holes = std::fs::File::create(rig.path("data/holes")).expect("made");
        let write = std::os::unix::fs::FileExt::write_all_at;
        write(&holes, &[1; 100], 3_000_001).expect("written");
        write(&holes, &[2; 5000], 9_000_001).expect("written");
        rig.own();
        for encryption in ["tls", "none"] {
            let pushed = format!("pushed-{encryption}");
            let url = rig.url(&pushed);
            let pulled = format!("pulled-{encryption}");
            let flags = ["--direct", "--verify", "--encryption", encryption];
            for [from, to] in [["data", &url], [&url, &pulled]] {
                let mut line = flags.to_vec();
                line.extend([from, to]);
                rig.cp(&line).complete();
            }
            for copy in [rig.path("export").join(&pushed), rig.path(&pulled)] {
                assert_identical(&rig.path("data"), &copy);
            }
        }
        let fresh = rig.path("export/fresh");
        let url = rig.url("fresh");
        rig.cp(&["--direct", "data/f4", &url]).complete();
        if let Some(cached) = cached_bytes(&fresh) {
            assert!(cached <= PAGE, "{cached} bytes in the cache");
            rig.cp(&["--force", "data/f4", &url]).complete();
            let cached = cached_bytes(&fresh).expect("as above");
            assert!(
                cached > 1 << 20,
                "the judge sees {cached} bytes without --direct"
            );
        }
    });
}

#[test]
fn pin_restricts_the_process_and_refuses_processors_that_it_cannot_use() {
    let mut rig = Rig::new();
    rig.start(&["--pin", "0"]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", rig.daemon().id()));
    let allowed = status.expect("it runs");
    let allowed = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    assert_eq!(allowed.map(str::trim), Some("0"));
    rig.write("data", "content");
    rig.cp(&["--pin", "0", "data", &rig.url("")]).complete();
    for (pin, said) in [
        ("0-", "neither a list of CPUs"),
        ("nosuch0", "nor a network interface"),
        ("lo", "name the CPUs instead"),
        ("1023", "may not run on any of these CPUs"),
    ] {
        let refused = rig.cp(&["--pin", pin, "data", &rig.url("")]);
        assert_eq!(refused.code, Some(2), "{}", refused.said());
        refused.says(said);
    }
}

/// Whether another program of the rig's user can read the memory of its node. The kernel checks the same for `environ` as for `mem`.
fn memory_is_open(rig: &Rig) -> bool {
    let file = format!("/proc/{}/environ", rig.daemon().id());
    let [user, group] = ["uid", "gid"].map(|id| format!("--re{id}={NOBODY}"));
    let mut line = vec!["cat", &file];
    if is_root() {
        line.splice(0..0, ["setpriv", &user, &group, "--clear-groups", "--"]);
    }
    let read = Command::new(line[0]).args(&line[1..]).output();
    read.expect("it runs").status.success()
}

#[test]
fn the_memory_of_a_node_is_closed_to_its_user_and_never_dumped() {
    let mut rig = Rig::for_user(is_root());
    rig.wrap_daemon(["env", "--unset=GODWIT_ALLOW_DUMPS"]);
    rig.serve(&[]);
    assert!(!memory_is_open(&rig));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", rig.daemon().id()));
    let limits = limits.expect("it runs");
    let core = limits.lines().find(|line| line.starts_with("Max core"));
    let core = core.expect("the kernel tells it");
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    rig.kill_daemon();
    rig.wrap_daemon(["env", "GODWIT_ALLOW_DUMPS=1"]);
    rig.serve(&[]);
    assert!(memory_is_open(&rig), "the judge sees what is open");
}
