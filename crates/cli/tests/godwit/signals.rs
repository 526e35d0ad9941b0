//! Tests the effect of signals on a client and on a node.
//! The remains of an interrupted transfer are tested in `resume`.

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
fn a_hangup_that_is_ignored_at_the_start_stays_ignored() {
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

#[test]
fn a_node_stops_cleanly_by_any_of_them_and_keeps_what_it_ignores() {
    for signal in [Signal::QUIT, Signal::USR1, Signal::ALARM, Signal::POWER] {
        let mut rig = Rig::new();
        rig.start(&[]);
        // Fails if a signal has killed it.
        assert_eq!(rig.stop_daemon(signal).code, Some(0), "{signal:?}");
    }
    let mut rig = Rig::new();
    rig.wrap_daemon(["nohup"]);
    rig.start(&[]);
    rig.write("small", "small");
    rig.daemon().signal(Signal::HUP);
    // The effect of this signal is complete before another signal ends the daemon.
    let url = rig.url("small");
    rig.cp(&["small", &url]).complete();
    assert_eq!(rig.read("export/small"), b"small");
    assert_eq!(rig.stop_daemon(Signal::TERM).code, Some(0));
}

#[test]
fn real_time_signals_stop_a_transfer_cleanly() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("large", vec![7; BYTES]);
    let destination = rig.url("into");
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
    let id = client.id().to_string();
    // 40 is a real-time signal with every C library.
    let sent = std::process::Command::new("sh")
        .args(["-c", "kill -40 \"$0\"", &id])
        .status();
    assert!(sent.expect("sh runs").success());
    client.wait().expect(5, "interrupted");
}

#[test]
fn a_file_beyond_the_size_limit_fails_alone() {
    let mut rig = Rig::new();
    rig.write("src/large", vec![7; 8 << 20]);
    rig.write("src/small", "small");
    rig.wrap_client(["sh", "-c", "ulimit -f 4096; exec \"$@\"", "sh"]);
    let outcome = rig.cp(&["src", "to"]);
    assert_eq!(outcome.expect(3, "partial").failed(), ["src/large"]);
    outcome.says("File too large");
    assert_eq!(rig.read("to/small"), b"small");
}

#[test]
fn an_interrupt_stops_what_a_shell_has_started_in_the_background() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("large", vec![7; BYTES]);
    // As shells do for background commands.
    rig.wrap_client(["sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh"]);
    for signal in [Signal::INT, Signal::QUIT] {
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
        client.wait().expect(5, "interrupted");
    }
}
