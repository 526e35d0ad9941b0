//! Owns the test of what a long line costs many small files.
//! Emulates no line; `wanlink` does.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::judge::same;
use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};

const BINARY: &str = env!("CARGO_BIN_EXE_godwit");

#[test]
fn many_small_files_take_few_round_trips() {
    with_network(
        "godwit::distance::many_small_files_take_few_round_trips",
        || {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let tree = directory.path().join("tree");
            for number in 0..100 {
                let below = tree.join(number.to_string());
                std::fs::create_dir_all(&below).expect("made");
                for file in 0..20 {
                    std::fs::write(below.join(file.to_string()), vec![7; 500]).expect("written");
                }
            }
            let near = seconds(directory.path(), "near", "1ms");
            let far = seconds(directory.path(), "far", "50ms");
            // A round trip for each directory would take five seconds, for each file a hundred.
            assert!(far - near <= 30.0 * 0.05, "{near} s, and far away {far} s");
        },
    );
}

/// How long a push takes over a line with this delay, by its own account.
fn seconds(directory: &Path, name: &str, rtt: &str) -> f64 {
    let (left, right) = (Netns::new(), Netns::new());
    let options = WanOptions {
        rtt,
        ..WanOptions::default()
    };
    let _link = WanLink::between(&left, &right, &options);
    let export = directory.join(name);
    std::fs::create_dir(&export).expect("made");
    let (here, there) = (directory.join("client"), directory.join("daemon"));
    let mut daemon = Running(
        right
            .command(BINARY)
            .args(["serve", "--listen", &format!("{RIGHT}:0"), "--export"])
            .arg(format!("data={}", export.display()))
            .env("GODWIT_HOME", &there)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts"),
    );
    let mut line = String::new();
    BufReader::new(daemon.0.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, address, _, identity] = words[..] else {
        panic!("{line}");
    };
    let us = run(Command::new(BINARY).arg("id").env("GODWIT_HOME", &here));
    let grant = ["authorize", us.trim(), "--write"];
    run(Command::new(BINARY).args(grant).env("GODWIT_HOME", &there));
    let trust = ["trust", address, identity];
    run(Command::new(BINARY).args(trust).env("GODWIT_HOME", &here));
    let said = run(left
        .command(BINARY)
        .args([
            "cp",
            "--json",
            "tree",
            &format!("godwit://{address}/data/to"),
        ])
        .current_dir(directory)
        .env("GODWIT_HOME", &here));
    same(&directory.join("tree"), &export.join("to"));
    let last = said.lines().last().expect("a summary");
    let summary: Value = serde_json::from_str(last).expect("JSON");
    summary["seconds"].as_f64().expect("a number")
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended of itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
