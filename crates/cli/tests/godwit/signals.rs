//! Tests of what signals do to a client.
//! Does not test what is kept of an interrupted transfer (`resume`).

use rustix::process::Signal;

use super::rig::Rig;

const BYTES: usize = 24 << 20;

#[test]
fn each_signal_that_ends_programs_stops_a_transfer_cleanly() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("large", vec![7; BYTES]);
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
        Signal::IO,
        Signal::POWER,
        Signal::STKFLT,
    ] {
        let destination = rig.url(&format!("by-{}", signal.as_raw()));
        let line = [
            "--limit",
            "8MB",
            "--block-size",
            "64KiB",
            "large",
            &destination,
        ];
        let mut client = rig.begin_cp(&rig.path(""), &line);
        client.wait_for_bytes(BYTES as u64 / 24);
        client.signal(signal);
        let outcome = client.wait();
        assert_eq!(outcome.code, Some(5), "{signal:?}: {}", outcome.said());
        outcome.expect(5, "interrupted");
    }
}

#[test]
fn what_is_ignored_at_the_start_stays_ignored() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("large", vec![7; BYTES]);
    rig.wrap_client(["nohup"]);
    let destination = rig.url("into");
    let line = [
        "--limit",
        "16MB",
        "--block-size",
        "64KiB",
        "large",
        &destination,
    ];
    let mut client = rig.begin_cp(&rig.path(""), &line);
    client.wait_for_bytes(BYTES as u64 / 24);
    client.signal(Signal::HUP);
    client.wait().complete();
}
