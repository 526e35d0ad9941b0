//! Tests the two ends of a bare pipe as processes, and compares the received data. Measures no
//! times.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Kills its process if a test fails early.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("pipe");
    command
}

/// Sends with `what` from `work` and receives with `into`; both must succeed.
fn run(work: &Path, shape: &[&str], what: &[&str], into: &[&str]) {
    let mut receiver = xtask();
    receiver
        .arg("recv")
        .args(shape)
        .args(["--streams", "3", "--block-bytes", "65536"])
        .args(into);
    let mut receiver = Guard(
        receiver
            .current_dir(work)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start receiver"),
    );
    let mut line = String::new();
    let out = receiver.0.stdout.take().expect("its output is a pipe");
    BufReader::new(out)
        .read_line(&mut line)
        .expect("read its address");
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .expect("an address");
    let mut sender = xtask();
    sender.args(["send", "--to", address]).args(shape);
    sender
        .args(["--streams", "3", "--block-bytes", "65536"])
        .args(what);
    assert!(
        sender
            .current_dir(work)
            .status()
            .expect("run sender")
            .success()
    );
    assert!(receiver.0.wait().expect("wait for receiver").success());
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| {
            at.wrapping_mul(seed | 1)
                .wrapping_add(at >> 8)
                .to_le_bytes()[0]
        })
        .collect()
}

fn files_arrive(shape: &[&str]) {
    let work = tempfile::tempdir().expect("make a directory");
    let (source, into) = (work.path().join("source"), work.path().join("into"));
    fs::create_dir(&into).expect("make a directory");
    let sizes = [0, 1, 8192, 65_535, 65_536, 65_537, 1_000_003];
    let mut names = Vec::new();
    for directory in ["a", "a/deeper", "b"] {
        fs::create_dir_all(source.join(directory)).expect("make a directory");
        for (index, &bytes) in sizes.iter().enumerate() {
            let name = format!("{directory}/{index}");
            fs::write(source.join(&name), pattern(bytes, bytes + names.len())).expect("write");
            names.push(name);
        }
    }
    run(work.path(), shape, &["source"], &["--directory", "into"]);
    for name in &names {
        let (sent, arrived) = (
            fs::read(source.join(name)),
            fs::read(into.join("source").join(name)),
        );
        assert!(
            sent.expect("read source") == arrived.expect("read copy"),
            "{name} differs"
        );
    }
}

const TLS: [&str; 2] = ["--certificate", "certificate"];

#[test]
fn files_arrive_plain() {
    files_arrive(&[]);
}

#[test]
fn files_arrive_through_tls() {
    files_arrive(&TLS);
}

#[test]
fn files_arrive_with_digests() {
    files_arrive(&["--digest"]);
    files_arrive(&[&TLS[..], &["--digest"]].concat());
}

#[test]
fn files_arrive_with_modes_and_times() {
    files_arrive(&["--commit"]);
    files_arrive(&["--commit", "--digest"]);
    let work = tempfile::tempdir().expect("make a directory");
    let source = work.path().join("source");
    fs::create_dir(&source).expect("make a directory");
    fs::create_dir(work.path().join("into")).expect("make a directory");
    let file = fs::File::create(source.join("f")).expect("make a file");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(time).expect("set its time");
    let mode = fs::Permissions::from_mode(0o500);
    file.set_permissions(mode).expect("set its mode");
    run(
        work.path(),
        &["--commit"],
        &["source"],
        &["--directory", "into"],
    );
    let arrived = fs::metadata(work.path().join("into/source/f")).expect("look at the copy");
    assert_eq!(arrived.modified().expect("its time"), time);
    assert_eq!(arrived.permissions().mode() & 0o777, 0o500);
}

#[test]
fn memory_arrives_both_ways() {
    let work = tempfile::tempdir().expect("make a directory");
    for shape in [&[][..], &TLS, &["--digest"]] {
        run(work.path(), shape, &["--memory", "10000001"], &[]);
    }
}
