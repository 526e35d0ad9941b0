//! Divided jobs with a full destination: they wait for space, report the needed amount, and then continue without a command.
//! See `job_troubles` for jobs of one node.

use std::fs;

use super::super::job_troubles::with_mount;
use super::super::rig::Rig;
use super::{allow, know, submit, wait_for};

const MIB: usize = 1 << 20;

#[test]
fn a_divided_job_waits_for_room_and_continues_unasked() {
    let (mut here, mut there) = (Rig::new(), Rig::new());
    here.serve(&[]);
    let export = there.export.clone();
    let Some(mounted) = with_mount(&mut there, &export, "32m", &[]) else {
        return;
    };
    allow(&there, &here.identity, &["--read", "--write"]);
    know(&here, "siteB", &there);
    for n in 0..24_u8 {
        here.write(&format!("export/run42/d{}/f{n}", n % 3), vec![n; MIB]);
    }
    fs::write(mounted.join("ballast"), vec![0; 16 * MIB]).expect("written");
    let line = ["--divide", "always"];
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    // The attempts that follow find it full, too, and say so.
    for attempt in 1..=2 {
        let waits = wait_for(&here, &id, |job| {
            let is_later = job["attempts"].as_u64() >= Some(attempt);
            is_later && job["state"] == "queued" && !job["next_attempt"].is_null()
        });
        assert_eq!(waits["reason"]["code"], "no_space", "{waits}");
        let why = waits["reason"]["text"].as_str().unwrap_or_default();
        assert!(why.contains("siteB:/data/copy has no room"), "{why}");
        assert!(why.contains("more are needed"), "{why}");
        assert!(why.contains("are free there"), "{why}");
    }
    fs::remove_file(mounted.join("ballast")).expect("ours");
    let done = wait_for(&here, &id, |job| !job["ended"].is_null());
    let log = here.admin(&["job", "log", &id]).out;
    assert_eq!(done["state"], "complete", "{done}\n{log}");
    assert!(log.contains("divided:"), "{log}");
    assert!(!log.contains("does not see the mark"), "{log}");
    for n in 0..24_u8 {
        let copy = fs::read(mounted.join(format!("copy/d{}/f{n}", n % 3)));
        assert!(copy.is_ok_and(|copy| copy == vec![n; MIB]), "f{n}");
    }
}
