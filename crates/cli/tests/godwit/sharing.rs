//! Limits of transfers that run, and congestion control: what is asked for is obeyed at the end that sends, or refused.
//! How fast the network is, is not tested here.

use super::process::Process;
use super::rig::Rig;

/// Both directions of a transfer that would go on for long.
const DIRECTIONS: [bool; 2] = [true, false];

fn ends(rig: &Rig, push: bool) -> [String; 2] {
    if push {
        [
            "mem:100GiB".to_owned(),
            format!("godwit://{}/null:", rig.address()),
        ]
    } else {
        [
            format!("godwit://{}/mem:100GiB", rig.address()),
            "null:".to_owned(),
        ]
    }
}

fn said(rig: &Rig, words: &[&str]) -> (Option<i32>, String) {
    let outcome = Process::start(rig.client_command().arg("limit").args(words)).wait();
    (outcome.code, outcome.out + &outcome.complaint)
}

#[test]
fn a_limit_changes_while_the_transfer_runs() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let (code, out) = said(&rig, &[]);
    assert_eq!((code, out.as_str()), (Some(0), "no transfer runs\n"));
    for push in DIRECTIONS {
        let mut command = rig.client_command();
        command
            .args(["cp", "--json", "--limit", "1MB"])
            .args(ends(&rig, push));
        let mut transfer = Process::start(&mut command);
        transfer.wait_for_bytes(1);
        let (code, out) = said(&rig, &["400MB"]);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("at most 400 MB/s"), "{out}");
        // At the first limit this would take five minutes, which is beyond patience.
        transfer.wait_for_bytes(300 << 20);
        let (code, out) = said(&rig, &["--json", "none"]);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("\"limit\":0"), "{out}");
        let (code, out) = said(&rig, &["nosuch", "1MB"]);
        assert_eq!(code, Some(1), "{out}");
        transfer.signal(rustix::process::Signal::INT);
        assert_eq!(transfer.wait().code, Some(5));
        let (_, out) = said(&rig, &[]);
        assert_eq!(out, "no transfer runs\n");
    }
}

#[test]
fn a_congestion_control_that_cannot_be_had_is_refused() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for push in DIRECTIONS {
        let mut command = rig.client_command();
        command
            .args(["cp", "--congestion", "nosuch"])
            .args(ends(&rig, push));
        let outcome = Process::start(&mut command).wait();
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let allowed = "tcp_allowed_congestion_control";
        assert!(
            outcome.complaint.contains("nosuch") && outcome.complaint.contains(allowed),
            "{outcome:?}"
        );
    }
}
