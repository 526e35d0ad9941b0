//! Tests that a source which changes while it is read arrives in one state or is named: never a mixture.
//! Unchanging files are tested in `entries`.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::data::{Seeded, write_file};
use super::judge::{assert_identical, assert_no_temporaries, assert_tidy};
use super::process::Outcome;
use super::rig::{Ends, Rig, as_each_user};

const BYTES: u64 = 3 << 20;

/// Changes a file once, when some of it has arrived and not all.
///
/// If the machine was so slow that the file had been read before the change, the earlier state has
/// arrived, which is correct. Then the test repeats more slowly.
fn changed_once(change: impl Fn(&Path), check: impl Fn(&Rig, &Ends, &Outcome)) {
    as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            let in_time = ["4MB", "1MB", "250kB"].iter().any(|limit| {
                fs::create_dir(&ends.source).expect("made");
                fs::write(ends.source.join("good"), "good").expect("written");
                let changing = ends.source.join("changing");
                write_file(&changing, BYTES, &mut Seeded(BYTES));
                let before = fs::read(&changing).expect("ours");
                let line = ends.line(&["--limit", limit, "--block-size", "64KiB"]);
                let mut client = rig.begin_cp(&rig.path(""), &line);
                client.wait_for_bytes(BYTES / 12);
                change(&changing);
                let outcome = client.wait();
                let arrived = fs::read(ends.destination.join("changing"));
                let in_time = !arrived.is_ok_and(|arrived| arrived == before);
                if in_time {
                    check(rig, &ends, &outcome);
                } else {
                    outcome.complete();
                }
                assert_eq!(
                    fs::read(ends.destination.join("good")).expect("arrived"),
                    b"good"
                );
                assert_no_temporaries(&ends.destination);
                fs::remove_dir_all(&ends.source).expect("ours");
                fs::remove_dir_all(&ends.destination).expect("ours");
                in_time
            });
            assert!(in_time, "it was never noticed");
        }
    });
}

/// One change is repaired: the new state arrives complete.
#[track_caller]
fn afresh(_rig: &Rig, ends: &Ends, outcome: &Outcome) {
    outcome.complete();
    let changed = fs::metadata(ends.source.join("changing")).expect("there");
    assert_eq!(outcome.number("bytes"), 4 + changed.len(), "{outcome:?}");
    assert_identical(&ends.source, &ends.destination);
    assert_tidy(&ends.destination, &ends.receiver_home);
}

/// A look may fall between the new size and the new time of a truncation. The copy then has the new contents and the old time, and
/// the next run corrects the time.
#[track_caller]
fn afresh_but_for_its_time(rig: &Rig, ends: &Ends, outcome: &Outcome) {
    outcome.complete();
    let [source, arrived] = [&ends.source, &ends.destination]
        .map(|root| fs::read(root.join("changing")).expect("there"));
    assert!(source == arrived, "it is not what it became");
    rig.cp(&ends.line(&[])).complete();
    assert_identical(&ends.source, &ends.destination);
    assert_tidy(&ends.destination, &ends.receiver_home);
}

/// A path that is no longer a file is named, and is not at the destination.
#[track_caller]
fn named(_rig: &Rig, ends: &Ends, outcome: &Outcome) {
    outcome.expect(3, "partial");
    assert_eq!(outcome.failed(), [ends.reported("changing")], "{outcome:?}");
    let good = fs::metadata(ends.source.join("good")).expect("there");
    assert_eq!(outcome.number("bytes"), good.len(), "{outcome:?}");
    fs::symlink_metadata(ends.destination.join("changing")).expect_err("left out");
}

#[test]
fn a_file_that_vanishes_is_named() {
    changed_once(
        |path| fs::remove_file(path).expect("there"),
        |rig, ends, outcome| {
            named(rig, ends, outcome);
            rig.cp(&ends.line(&[])).complete();
            assert_identical(&ends.source, &ends.destination);
        },
    );
}

#[test]
fn a_file_that_becomes_a_fifo_is_named_and_not_waited_for() {
    changed_once(
        |path| {
            fs::remove_file(path).expect("there");
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.is_ok_and(|made| made.success()), "made");
        },
        named,
    );
}

#[test]
fn a_file_that_grew_arrives_as_it_became() {
    changed_once(|path| append(path, &[b'+'; 100_000]), afresh);
}

#[test]
fn a_file_that_shrank_arrives_as_it_became() {
    for bytes in [BYTES / 2, 1_000, 0] {
        changed_once(|path| cut_off(path, bytes), afresh_but_for_its_time);
    }
}

#[test]
fn a_file_that_another_takes_the_place_of_arrives_as_it_became() {
    changed_once(
        |path| {
            let above = File::open(path.parent().expect("above")).expect("ours");
            let times = FileTimes::new()
                .set_modified(above.metadata().expect("ours").modified().expect("known"));
            let other = path.with_file_name("other");
            write_file(&other, BYTES, &mut Seeded(7));
            let meta = fs::metadata(path).expect("there");
            chown(&other, Some(meta.uid()), Some(meta.gid())).expect("ours");
            fs::rename(other, path).expect("ours");
            // The time of the directory is not tested here.
            above.set_times(times).expect("set");
        },
        afresh,
    );
}

/// Changes a file at each progress event, until the end of the transfer: `change` returns the next length of the file.
fn changed_throughout(first: u64, change: impl Fn(u64) -> u64) {
    let mut content = vec![0; 16 << 20];
    let mut seeded = Seeded(5);
    for chunk in content.chunks_mut(8) {
        chunk.copy_from_slice(&seeded.draw().to_le_bytes());
    }
    let part = |from: u64, to: u64| {
        let [from, to] = [from, to].map(|at| usize::try_from(at).expect("in memory"));
        &content[from..to]
    };
    as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            fs::create_dir(&ends.source).expect("made");
            fs::write(ends.source.join("good"), "good").expect("written");
            let changing = ends.source.join("changing");
            fs::write(&changing, part(0, first)).expect("written");
            let mut lengths = vec![first];
            let line = ends.line(&["--limit", "4MB", "--block-size", "64KiB"]);
            let mut client = rig.begin_cp(&rig.path(""), &line);
            let mut statement = 0;
            while !client.has_ended() {
                let (events, bytes) = client.progress();
                if events == statement || bytes == 0 {
                    std::thread::yield_now();
                    continue;
                }
                statement = events;
                let now = lengths[lengths.len() - 1];
                let next = change(now);
                if next > now {
                    append(&changing, part(now, next));
                } else {
                    cut_off(&changing, next);
                }
                lengths.push(next);
            }
            let outcome = client.wait();
            let arrived = fs::read(ends.destination.join("changing"));
            if outcome.code == Some(0) {
                let arrived = arrived.expect("complete");
                let length = arrived.len() as u64;
                assert!(lengths.contains(&length), "{length} of {lengths:?}");
                assert!(arrived == part(0, length), "a mixture of {length} bytes");
            } else {
                named(rig, &ends, &outcome);
                outcome.says("changed while it was read; 8 attempts over ");
            }
            assert_no_temporaries(&ends.destination);
            rig.cp(&ends.line(&[])).complete();
            assert_identical(&ends.source, &ends.destination);
            assert_tidy(&ends.destination, &ends.receiver_home);
        }
    });
}

#[test]
fn a_file_that_only_grows_is_never_mixed() {
    changed_throughout(1 << 20, |length| (length + 30_000).min(16 << 20));
}

#[test]
fn a_file_that_only_shrinks_is_never_mixed() {
    changed_throughout(4 << 20, |length| length.saturating_sub(70_000));
}

fn append(path: &Path, more: &[u8]) {
    let mut file = File::options().append(true).open(path).expect("there");
    file.write_all(more).expect("written");
}

fn cut_off(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("there");
    file.set_len(bytes).expect("set");
}

/// Each line of the file names its generation; a mixture has lines of two.
#[test]
fn a_file_that_changes_while_read_is_never_mixed() {
    as_each_user(|rig| {
        rig.start(&[]);
        let lines = 400_000;
        let content = |generation: u8| [generation, b'\n'].repeat(lines);
        rig.write("tree/good", "good");
        rig.write("tree/changing", content(b'a'));
        rig.own();
        let stop = AtomicBool::new(false);
        let path = rig.path("tree/changing");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for generation in (b'a'..=b'z').cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let open = OpenOptions::new().write(true).truncate(true).open(&path);
                    let mut file = open.expect("there");
                    file.write_all(&content(generation)).expect("written");
                }
            });
            let outcome = rig.cp(&["tree", &rig.url("to")]);
            stop.store(true, Ordering::Relaxed);
            assert!(matches!(outcome.code, Some(0 | 3)), "{outcome:?}");
            if outcome.code == Some(3) {
                outcome.says("tree/changing");
            } else {
                assert!(rig.path("export/to/changing").exists());
            }
        });
        assert_eq!(rig.read("export/to/good"), b"good");
        if let Ok(arrived) = fs::read(rig.path("export/to/changing")) {
            let first = arrived.first().copied();
            let one = arrived.iter().step_by(2).all(|byte| Some(*byte) == first);
            assert!(one, "two generations in one file");
        }
        assert_no_temporaries(&rig.path("export"));
        rig.cp(&["--force", "tree/.", &rig.url("to")]).complete();
        assert_identical(&rig.path("tree"), &rig.path("export/to"));
    });
}
