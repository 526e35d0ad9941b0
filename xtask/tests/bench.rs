//! Tests the benchmark with the smallest loads, and checks its report. Compares no times.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn the_report_holds_every_run_and_nothing_else_is_left() {
    let work = tempfile::tempdir().expect("make a directory");
    let release = work.path().join("target/release");
    fs::create_dir_all(&release).expect("make a directory");
    // The pipes are in the binary under test; there is no Godwit, and the report must contain this
    // fact.
    symlink(env!("CARGO_BIN_EXE_xtask"), release.join("xtask")).expect("make a link");
    let world = work.path().join("world");
    let out = work.path().join("out");
    let status = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "--no-build", "--no-install", "--place", "loopback"])
        .args(["--scale", "0.0004", "--pairs", "2"])
        .args(["--contender", "pipe", "--contender", "godwit"])
        .args([
            "--only", "memory", "--only", "one", "--only", "forty", "--only", "small",
        ])
        .arg("--directory")
        .arg(&world)
        .arg("--out")
        .arg(&out)
        .env("CARGO_TARGET_DIR", work.path().join("target"))
        .status()
        .expect("run the benchmark");
    assert_eq!(
        status.code(),
        Some(1),
        "a benchmark without Godwit must not end well"
    );
    assert!(!world.exists(), "the world is still there");

    let report = fs::read(out.join("bench.json")).expect("read the report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("parse the report");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let tracks = case["tracks"].as_array().expect("tracks");
        let of = |who: &str| {
            let found = tracks.iter().find(|track| track["contender"] == who);
            found.unwrap_or_else(|| panic!("{who} is not in {name}"))
        };
        let failure = of("godwit")["failure"]
            .as_str()
            .expect("why Godwit did not run");
        assert!(failure.contains("godwit"), "{name}: {failure}");
        let pipe = of("pipe");
        assert_eq!(pipe.get("failure"), None, "{name}: {pipe}");
        let samples = pipe["samples"].as_array().expect("samples");
        // One round warms up and two count; disturbed runs are additional.
        assert!(samples.len() >= 3, "{name}: {} samples", samples.len());
        assert!(
            samples
                .iter()
                .all(|sample| sample["seconds"].as_f64() > Some(0.0))
        );
    }
    let table = fs::read_to_string(out.join("bench.md")).expect("read the table");
    assert!(table.contains("| bare pipe |"), "{table}");
}

/// A peer that copies files, and a peer that only pretends to copy them.
const HONEST: &str = "
name = 'honest'
title = 'honest copy'
class = 'plain'
programs = ['cp']
version = 'cp --version'
note = 'of this test'
[transfer]
tree = 'test {bytes} -gt 0 && cp -r {source} {into}/'
";
const LIAR: &str = "
name = 'liar'
title = 'liar'
class = 'plain'
programs = ['cp']
version = 'cp --version'
note = 'of this test'
[transfer]
tree = 'cp -r {source} {into}/ && find {into} -type f | head -n 1 | xargs shred -n 1'
";

#[test]
fn a_peer_of_the_user_takes_part_and_what_arrives_is_compared() {
    let work = tempfile::tempdir().expect("make a directory");
    let release = work.path().join("target/release");
    fs::create_dir_all(&release).expect("make a directory");
    symlink(env!("CARGO_BIN_EXE_xtask"), release.join("xtask")).expect("make a link");
    let out = work.path().join("out");
    let mut bench = Command::new(env!("CARGO_BIN_EXE_xtask"));
    bench
        .args([
            "bench",
            "quick",
            "--no-build",
            "--no-install",
            "--place",
            "loopback",
        ])
        .args(["--scale", "0.0004", "--pairs", "1", "--only", "small-plain"])
        .args([
            "--contender",
            "honest",
            "--contender",
            "liar",
            "--contender",
            "loop",
        ]);
    for (name, text) in [("honest.toml", HONEST), ("liar.toml", LIAR)] {
        let path = work.path().join(name);
        fs::write(&path, text).expect("write a definition");
        bench.arg("--peer").arg(path);
    }
    let status = bench
        .arg("--directory")
        .arg(work.path().join("world"))
        .arg("--out")
        .arg(&out)
        .env("CARGO_TARGET_DIR", work.path().join("target"))
        .status()
        .expect("run the benchmark");
    assert_eq!(status.code(), Some(1), "a liar must not go unnoticed");
    let report = fs::read(out.join("bench.json")).expect("read the report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("parse the report");
    let tracks = report["cases"][0]["tracks"].as_array().expect("tracks");
    let failure = |who: &str| {
        let track = tracks.iter().find(|track| track["contender"] == who);
        track.unwrap_or_else(|| panic!("{who} is missing"))["failure"].as_str()
    };
    assert_eq!(failure("honest"), None);
    assert_eq!(failure("loop"), None);
    let lie = failure("liar").expect("a failure");
    assert!(lie.contains("other contents"), "{lie}");
    let plot = fs::read_to_string(out.join("bench.svg")).expect("read the plot");
    assert!(plot.contains("honest copy"), "{plot}");
    let table = fs::read_to_string(out.join("bench.md")).expect("read the table");
    assert!(table.contains("cp -r {source} {into}/"), "{table}");
}

/// This test needs root, like the tests of the emulator of long links.
#[test]
fn ends_are_namespaces_with_cables_and_nothing_of_them_is_left() {
    let work = tempfile::tempdir().expect("make a directory");
    let release = work.path().join("target/release");
    fs::create_dir_all(&release).expect("make a directory");
    symlink(env!("CARGO_BIN_EXE_xtask"), release.join("xtask")).expect("make a link");
    let out = work.path().join("out");
    let mut bench = Command::new(env!("CARGO_BIN_EXE_xtask"));
    bench
        .args([
            "bench",
            "quick",
            "--no-build",
            "--no-install",
            "--place",
            "namespaces",
        ])
        .args(["--cables", "2", "--cable-rate", "1gbit", "--mtu", "1500"])
        .args([
            "--scale",
            "0.0004",
            "--pairs",
            "1",
            "--only",
            "memory-plain",
        ])
        .args(["--contender", "pipe"])
        .arg("--directory")
        .arg(work.path().join("world"))
        .arg("--out")
        .arg(&out)
        .env("CARGO_TARGET_DIR", work.path().join("target"));
    let mut bench = bench.spawn().expect("run the benchmark");
    let ours = format!("gwb-{}-", bench.id());
    assert!(bench.wait().expect("wait for the benchmark").success());
    let report = fs::read_to_string(out.join("bench.md")).expect("read the table");
    assert!(
        report.contains("two network namespaces, 2 veth pair(s), MTU 1500, 1gbit"),
        "{report}"
    );
    assert!(report.contains("| bare pipe | 1 |"), "{report}");
    for place in ["/run/netns", "/etc/netns"] {
        let left = fs::read_dir(place).into_iter().flatten().flatten();
        let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours));
        assert_eq!(left.count(), 0, "namespaces are left in {place}");
    }
}

#[test]
fn a_row_whose_network_cannot_be_made_is_reported_and_leaves_nothing() {
    let work = tempfile::tempdir().expect("make a directory");
    let out = work.path().join("out");
    let world = work.path().join("world");
    // The emulator of long links is missing here.
    let status = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "wan", "--no-build", "--no-install"])
        .args(["--only", "fast", "--seconds", "4", "--pairs", "2"])
        .arg("--directory")
        .arg(&world)
        .arg("--out")
        .arg(&out)
        .env("CARGO_TARGET_DIR", work.path().join("target"))
        .status()
        .expect("run the benchmark");
    assert_eq!(status.code(), Some(1), "nothing was measured");
    assert!(!world.exists(), "the world is still there");
    let report = fs::read(out.join("bench.json")).expect("read the report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("parse the report");
    let failures = report["rows"][0]["failures"].as_array().expect("failures");
    // Four failures of iperf3 and one of Godwit, in two rounds.
    assert_eq!(failures.len(), 10, "{failures:?}");
    let said = failures[0].as_str().expect("text");
    assert!(said.contains("cannot make the network"), "{said}");
    let table = fs::read_to_string(out.join("bench.md")).expect("read the table");
    assert!(table.contains("**failed**: iperf3 -P 1"), "{table}");
    let picture = fs::read_to_string(out.join("wan-fast.svg")).expect("a picture");
    assert!(picture.starts_with("<svg"), "{picture}");
}
