//! Tests of files that are rewritten for seconds during the copy: how long they are retried, and which files wait for that.
//! Does not test that no two states are mixed (`changes`).

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::judge::{assert_identical, assert_no_temporaries};
use super::process::{Outcome, Process, wait_until};
use super::rig::Rig;

const BYTES: usize = 1 << 20;

/// One copy: the source's name and its tree, the destination's name and where the tree arrives.
struct Direction {
    source: String,
    tree: PathBuf,
    destination: String,
    arrived: PathBuf,
}

impl Direction {
    fn push(rig: &Rig) -> Self {
        Self {
            source: "pushed".to_owned(),
            tree: rig.path("pushed"),
            destination: rig.url("to"),
            arrived: rig.export.join("to"),
        }
    }

    fn pull(rig: &Rig) -> Self {
        Self {
            source: rig.url("pulled"),
            tree: rig.export.join("pulled"),
            destination: "pulled".to_owned(),
            arrived: rig.path("pulled"),
        }
    }

    fn local(rig: &Rig) -> Self {
        Self {
            source: "copied".to_owned(),
            tree: rig.path("copied"),
            destination: "there".to_owned(),
            arrived: rig.path("there"),
        }
    }

    /// Copies a tree with a file that is rewritten all the time. The other file must arrive without a wait for the first one. After its
    /// arrival `meanwhile` runs, and then the rewriting stops.
    fn run(&self, rig: &Rig, meanwhile: impl Fn(&mut Process)) -> Outcome {
        fs::create_dir(&self.tree).expect("made");
        let changing = self.tree.join("changing");
        fs::write(&changing, vec![0; BYTES]).expect("written");
        fs::write(self.tree.join("good"), "good").expect("written");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Not shortened, because an empty file would be a complete one at once.
                let file = File::options().write(true).open(&changing).expect("there");
                for state in (1..=u8::MAX).cycle() {
                    file.write_all_at(&vec![state; BYTES], 0).expect("written");
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            // The file is rewritten many times while it is read once.
            let names = [&self.source, &self.destination].map(String::as_str);
            let line = [&["--limit", "500kB", "--block-size", "64KiB"][..], &names].concat();
            let mut client = rig.begin_cp(&rig.path(""), &line);
            let good = self.arrived.join("good");
            wait_until(|| (good.exists() || client.has_ended()).then_some(()));
            // The writer must end before a failed check does.
            let in_time = good.exists() && !client.has_ended();
            meanwhile(&mut client);
            stop.store(true, Ordering::Relaxed);
            let outcome = client.wait();
            assert!(in_time, "the other file waited: {outcome:?}");
            outcome
        })
    }
}

#[test]
fn a_file_that_is_rewritten_for_seconds_arrives_once_it_rests() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for way in [
        Direction::push(&rig),
        Direction::pull(&rig),
        Direction::local(&rig),
    ] {
        let outcome = way.run(&rig, |client| {
            // Longer than several tries without a pause.
            let until = Instant::now() + Duration::from_secs(2);
            wait_until(|| (Instant::now() > until || client.has_ended()).then_some(()));
        });
        outcome.complete();
        let (there, arrived) = (way.tree.join("changing"), way.arrived.join("changing"));
        assert!(fs::read(there).expect("ours") == fs::read(arrived).expect("arrived"));
        assert_no_temporaries(&way.arrived);
    }
}

#[test]
fn a_file_that_never_rests_fails_alone_and_the_attempts_are_counted() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let way = Direction::push(&rig);
    let outcome = way.run(&rig, |client| {
        wait_until(|| client.has_ended().then_some(()));
    });
    assert_eq!(outcome.expect(3, "partial").failed(), ["pushed/changing"]);
    let said = outcome.said();
    let words = "changed while it was read; 8 attempts over ";
    let over = said.split(words).nth(1).unwrap_or_else(|| panic!("{said}"));
    let seconds: u64 = over
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    assert!(seconds >= 31, "{said}");
    assert!(!way.arrived.join("changing").exists());
    assert_no_temporaries(&way.arrived);
    assert_eq!(
        fs::read(way.arrived.join("good")).expect("arrived"),
        b"good"
    );
}

#[test]
fn a_stopped_transfer_does_not_wait_for_its_retries() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for way in [Direction::pull(&rig), Direction::local(&rig)] {
        let outcome = way.run(&rig, |client| {
            client.signal(Signal::INT);
            // Were all tries waited for, the file would have failed.
            wait_until(|| client.has_ended().then_some(()));
        });
        outcome.expect(5, "interrupted");
        let again = rig.cp(&[&way.source, &way.destination]);
        again.complete();
        assert_identical(&way.tree, &way.arrived);
    }
}
