//! A full destination of several nodes: a divided job waits for room, and then continues at all of them.
//! Leaves a destination of one node to `sites`.

use std::fs;

use super::super::job_troubles::{fill, with_mount};
use super::super::rig::{Rig, is_root};
use super::super::sites::{allow, know, submit, wait_for};
use super::{Site, invite, join_by, up};

const MIB: usize = 1 << 20;

/// Two nodes with one small file system, and that file system as the test sees it; None if this user may not mount.
fn small() -> Option<(Site, std::path::PathBuf)> {
    let mut there = Site::empty();
    let mut first = there.rig();
    let export = first.export.clone();
    let mounted = with_mount(&mut first, &export, "32m", &[])?;
    let pid = first.daemon().id().to_string();
    let mut second = there.rig();
    let user = ["--user", "--preserve-credentials"];
    let user = if is_root() { &user[..0] } else { &user[..] };
    let line = ["nsenter", "--target", &pid, "--mount"];
    second.wrap_daemon([&line[..], user].concat());
    join_by(&mut second, &first, &invite(&first), "dtn2", &[]);
    there.nodes = vec![first, second];
    there.wait("both are up", |view| up(view).len() == 2);
    Some((there, mounted))
}

#[test]
fn a_divided_job_to_two_nodes_waits_for_room_and_continues_unasked() {
    let Some((there, mounted)) = small() else {
        return;
    };
    let mut here = Rig::new();
    here.serve(&[]);
    allow(&there.nodes[0], &here.identity, &["--read", "--write"]);
    know(&here, "siteB", &there.nodes[0]);
    for n in 0..24_u8 {
        here.write(&format!("export/run42/d{}/f{n}", n % 3), vec![n; MIB]);
    }
    let ballast = mounted.join("ballast");
    // Some of it finds room, and then nothing does, not even at the beginning.
    for name in ["part", "none"] {
        match name {
            "part" => fs::write(&ballast, vec![0; 16 * MIB]).expect("written"),
            _ => fill(&ballast),
        }
        let to = format!("siteB:/data/{name}");
        let id = submit(&here, "here:/data/run42", &to, &[]);
        for attempt in 1..=2 {
            let waits = wait_for(&here, &id, |job| {
                let is_later = job["attempts"].as_u64() >= Some(attempt);
                is_later && job["state"] == "queued" && !job["next_attempt"].is_null()
            });
            assert_eq!(waits["reason"]["code"], "no_space", "{waits}");
        }
        fs::remove_file(&ballast).expect("ours");
        let done = wait_for(&here, &id, |job| !job["ended"].is_null());
        let log = here.admin(&["job", "log", &id]).out;
        assert_eq!(done["state"], "complete", "{done}\n{log}");
        assert!(log.contains("divided:"), "{log}");
        assert!(!log.contains("does not see the mark"), "{log}");
        for n in 0..24_u8 {
            let copy = fs::read(mounted.join(format!("{name}/d{}/f{n}", n % 3)));
            assert!(copy.is_ok_and(|copy| copy == vec![n; MIB]), "f{n}\n{log}");
        }
        fs::remove_dir_all(mounted.join(name)).expect("ours");
    }
}
