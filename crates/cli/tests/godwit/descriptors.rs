//! Tests a daemon with few descriptors: transfers are complete, and the daemon serves again after it ran out of them.
//! The cost of transfers is tested in `held`.

use std::fs;
use std::net::TcpStream;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::data::{Seeded, write_file};
use super::judge::{assert_identical, assert_tidy};
use super::process::wait_until;
use super::rig::Rig;

/// The soft and the hard limit of a process.
fn limit(process: u32, soft: u64, hard: u64) {
    let id = i32::try_from(process).expect("a process id");
    let limit = Rlimit {
        current: Some(soft),
        maximum: Some(hard),
    };
    prlimit(Pid::from_raw(id), Resource::Nofile, limit).expect("ours");
}

/// Small files in more directories than the daemon has descriptors for, and large ones.
fn tree(root: &std::path::Path) {
    for directory in 0..60_u64 {
        let path = root.join(format!("a{}/b{directory}", directory % 7));
        fs::create_dir_all(&path).expect("made");
        for file in 0..8_u64 {
            let bytes = 1000 * (directory + file);
            write_file(&path.join(file.to_string()), bytes, &mut Seeded(bytes));
        }
    }
    for file in 0..6_u64 {
        let path = root.join(format!("large{file}"));
        write_file(&path, 3 << 20, &mut Seeded(file));
    }
}

#[test]
fn a_tree_is_copied_whole_by_a_daemon_with_few_descriptors() {
    let mut rig = Rig::new();
    rig.wrap_daemon(["prlimit", "--nofile=64:64", "--"]);
    rig.start(&[]);
    for ends in rig.push_and_pull() {
        tree(&ends.source);
        let outcome = rig.cp(&ends.line(&["--streams", "32"]));
        outcome.complete();
        assert_identical(&ends.source, &ends.destination);
        assert_tidy(&ends.destination, &ends.receiver_home);
    }
}

#[test]
fn a_daemon_raises_its_soft_limit_to_the_hard_one() {
    let mut rig = Rig::new();
    rig.wrap_daemon(["prlimit", "--nofile=64:600", "--"]);
    rig.start(&[]);
    let text = fs::read_to_string(format!("/proc/{}/limits", rig.daemon().id())).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = line.expect("a line").split_whitespace().collect();
    assert_eq!(words[3..5], ["600", "600"], "{text}");
}

#[test]
fn a_daemon_without_descriptors_rests_and_serves_again_when_some_return() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("file", "content");
    let daemon = rig.daemon().id();
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
    // Below the number of open files: no further file can be opened.
    limit(daemon, 4, hard);
    let mut waiting = vec![TcpStream::connect(rig.address()).expect("it listens")];
    rig.daemon().wait_for("connections cannot be accepted");
    let used = processor_ticks(daemon);
    let mut client = rig.begin_cp(&rig.path(""), &["file", &rig.url("copy")]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    // A loop without a rest would use up both seconds.
    let used = processor_ticks(daemon) - used;
    assert!(used < 50, "{used} ticks of 10 ms");
    waiting.push(TcpStream::connect(rig.address()).expect("it still listens"));
    limit(daemon, 1024.min(hard), hard);
    client.wait().complete();
    let said = rig.daemon().said();
    assert_eq!(
        said.matches("connections cannot be accepted").count(),
        1,
        "{said}"
    );
    assert!(wait_until(|| rig.path("export/copy").exists().then_some(())).is_some());
}

/// Processor time of a process, in hundredths of a second as a rule.
fn processor_ticks(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields: Vec<&str> = text[text.rfind(')').expect("a name")..]
        .split_whitespace()
        .collect();
    let number = |index: usize| fields[index].parse::<u64>().expect("a number");
    number(12) + number(13)
}
