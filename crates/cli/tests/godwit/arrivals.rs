//! Files that arrive in the transfer buffer of a running node: each counts as delivered once it is on flash, and reaches its export after
//! kills, refusals and later changes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::process::wait_until;
use super::rig::Rig;
use super::sync::{Direction, same};

const LARGE: usize = 5 * 1024 * 1024 + 77;

fn contents(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| u8::try_from(at / 13 % 251).expect("small") ^ seed)
        .collect()
}

fn flags(rig: &Rig, more: &[&str]) -> Vec<String> {
    let place = rig.path("flash").to_str().expect("text").to_owned();
    let flags = ["--buffer-bytes", "48MiB", "--buffer-arrivals", "data"];
    let flags = flags.iter().chain(more).map(|&flag| flag.to_owned());
    ["--buffer-path".to_owned(), place]
        .into_iter()
        .chain(flags)
        .collect()
}

fn start(rig: &mut Rig, more: &[&str]) {
    let flags = flags(rig, more);
    let words: Vec<&str> = flags.iter().map(String::as_str).collect();
    let known = !rig.identity.is_empty();
    rig.start(&words);
    if known {
        rig.trust(rig.address(), &rig.identity.clone());
    }
}

#[track_caller]
fn done(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

fn figure(rig: &Rig, name: &str) -> u64 {
    let status = done(rig, &["buffer", "status", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    status[name].as_u64().expect("a number")
}

#[track_caller]
fn wait_for(rig: &Rig, name: &str, number: u64) {
    let is_so = || (figure(rig, name) == number).then_some(());
    assert!(
        wait_until(is_so).is_some(),
        "{}",
        done(rig, &["buffer", "status"])
    );
}

/// A data set with a large file, small ones, an empty one, and modes.
fn data_set(rig: &Rig) {
    rig.write("src/large", contents(LARGE, 1));
    rig.write("src/sub/empty", "");
    for number in 0..3 {
        rig.write(&format!("src/sub/{number}"), contents(3000 + number, 2));
    }
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(rig.path("src/sub/0"), mode(0o640)).expect("ours");
    fs::set_permissions(rig.path("src/sub"), mode(0o750)).expect("ours");
}

#[test]
fn files_that_arrived_reach_the_export_after_a_kill_and_are_never_sent_twice() {
    let mut rig = Rig::new();
    data_set(&rig);
    // After the first file the others wait for hours.
    start(&mut rig, &["--buffer-drain-rate", "1"]);
    let first = Direction::Push.sync(&rig, &["--delete"]);
    assert_eq!(first.complete().number("files"), 5, "{first:?}");
    assert!(figure(&rig, "files_waiting") >= 3, "{first:?}");
    let again = Direction::Push.sync(&rig, &[]);
    assert_eq!(again.complete().number("files"), 0, "{again:?}");
    let list = done(&rig, &["buffer", "list", "--waiting", "here:/data/dst"]);
    assert!(
        list.contains("ready") && list.contains("dst/sub/"),
        "{list}"
    );
    rig.kill_daemon();
    start(&mut rig, &[]);
    wait_for(&rig, "files_waiting", 0);
    same(&rig.path("src"), &rig.path("export/dst"));
    let again = Direction::Push.sync(&rig, &["--delete"]);
    assert_eq!(again.complete().number("files"), 0, "{again:?}");
    assert_eq!(figure(&rig, "bytes_dirty"), 0);
    assert!(figure(&rig, "drained_bytes") > 0);
    // The drained file is served from flash.
    let hits = figure(&rig, "hit_bytes");
    let pulled = rig.cp(&[rig.url("dst/large"), "pulled".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    assert!(rig.read("pulled") == contents(LARGE, 1));
    assert_eq!(figure(&rig, "hit_bytes") - hits, LARGE as u64);
}

#[test]
fn a_pull_a_change_and_a_removal_meet_the_file_that_waits() {
    let mut rig = Rig::new();
    rig.write("src/a", contents(4000, 1));
    rig.write("src/b", contents(5000, 2));
    rig.write("src/c", contents(6000, 3));
    start(&mut rig, &["--buffer-drain-rate", "1"]);
    Direction::Push.sync(&rig, &[]).complete();
    // The pull waits for its file, which then comes first.
    let pulled = rig.cp(&[rig.url("dst/c"), "pulled".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    assert!(rig.read("pulled") == contents(6000, 3));
    // A later file wins over the waiting one, and a removed one does not come back.
    rig.write("src/b", contents(5001, 9));
    fs::remove_file(rig.path("src/c")).expect("ours");
    Direction::Push.sync(&rig, &["--delete"]).complete();
    rig.stop_daemon(Signal::TERM);
    start(&mut rig, &[]);
    wait_for(&rig, "files_waiting", 0);
    same(&rig.path("src"), &rig.path("export/dst"));
}

#[test]
fn a_job_says_that_its_data_is_buffered_and_later_that_none_is() {
    let mut rig = Rig::new();
    rig.write("export/src/a", contents(4000, 1));
    rig.write("export/src/b", contents(5000, 2));
    start(&mut rig, &["--buffer-drain-rate", "1"]);
    let line = [
        "job",
        "submit",
        "here:/data/src",
        "here:/data/dst",
        "--wait",
    ];
    let ended = done(&rig, &line);
    assert!(ended.contains("complete (buffered)"), "{ended}");
    let id = ended.lines().next().expect("an id");
    let list = done(&rig, &["job", "list", "--all"]);
    assert!(list.contains("complete (buffered)"), "{list}");
    // The pull wants the files, so they drain before their time.
    let pulled = rig.cp(&[rig.url("dst"), "pulled".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    let log = || {
        let log = done(&rig, &["job", "log", id]);
        log.contains("nothing waits in the transfer buffer")
            .then_some(())
    };
    assert!(
        wait_until(log).is_some(),
        "{}",
        done(&rig, &["job", "log", id])
    );
    // The log is the owner's, who may have no right to list the place: the amounts there are those of others, too.
    let log = done(&rig, &["job", "log", id]);
    let mut waited = log.lines().filter(|line| line.contains("transfer buffer"));
    assert!(!waited.any(|line| line.contains("9.00 kB")), "{log}");
    let list = done(&rig, &["job", "list", "--all"]);
    assert!(!list.contains("buffered"), "{list}");
}

#[test]
fn a_name_that_another_took_meanwhile_is_not_replaced() {
    let mut rig = Rig::new();
    rig.write("src/a", contents(4000, 1));
    rig.write("src/b", contents(4000, 2));
    start(&mut rig, &["--buffer-drain-rate", "1"]);
    Direction::Push.sync(&rig, &[]).complete();
    wait_for(&rig, "files_waiting", 1);
    let late = ["a", "b"].map(|name| rig.path(format!("export/dst/{name}")));
    let late = late.iter().find(|path| !path.exists()).expect("one waits");
    let name = late.file_name().expect("a name").to_str().expect("text");
    fs::write(late, "mine").expect("written");
    rig.stop_daemon(Signal::TERM);
    start(&mut rig, &[]);
    wait_for(&rig, "files_troubled", 1);
    assert_eq!(fs::read(late).expect("there"), b"mine");
    let list = done(&rig, &["buffer", "list", "--waiting", "here:/data"]);
    assert!(list.contains("another entry got this name"), "{list}");
    fs::remove_file(late).expect("ours");
    done(
        &rig,
        &["buffer", "retry", &format!("here:/data/dst/{name}")],
    );
    wait_for(&rig, "files_waiting", 0);
    assert!(rig.read(&format!("export/dst/{name}")) == rig.read(&format!("src/{name}")));
}

#[test]
fn arrivals_without_a_buffer_or_an_export_are_refused() {
    let rig = Rig::new();
    let place = rig.path("flash").to_str().expect("text").to_owned();
    fs::create_dir_all(rig.export.join("inner")).expect("ours");
    let inner = format!("inner={}", rig.export.join("inner").display());
    for (line, words) in [
        (
            &["--buffer-arrivals", "data"][..],
            "set buffer-path or buffer-device",
        ),
        (
            &["--buffer-arrivals", "other", "--buffer-path", &place],
            "this node has no export other",
        ),
        (
            &[
                "--buffer-arrivals",
                "data",
                "--buffer-path",
                &place,
                "--export",
                &inner,
            ],
            "the exports data and inner lie in each other",
        ),
    ] {
        let outcome = rig.launch(line).wait();
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.complaint.contains(words), "{outcome:?}");
    }
    assert!(!Path::new(&place).exists());
}
