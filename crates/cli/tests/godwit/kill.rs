//! Tests that a killed transfer finishes when it is given again, and how little of it is sent again.
//! Does not cut power (`power`) or connections (`cuts`).

#![expect(clippy::print_stderr, reason = "a failure is reported with its seed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;

use super::data::{Seeded, first_seed, make_tree, write_file};
use super::judge::{assert_finals_whole, assert_identical, assert_tidy};
use super::process::{Outcome, Process, wait_until};
use super::rig::Rig;

const MIB: u64 = 1 << 20;

/// What may be written and not durable at the receiver, and some blocks that came in past that limit at the same time.
const UNDURABLE: u64 = 160 * MIB;

const MOMENTS: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Push,
    Pull,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Client,
    Daemon,
    /// The daemon is started again while the client keeps trying.
    DaemonOnly,
}

/// A transfer that is killed and given again, in either direction.
struct Case {
    rig: Rig,
    way: Way,
    source: PathBuf,
    total: u64,
}

impl Case {
    fn new(way: Way, make: impl FnOnce(&Path) -> u64) -> Self {
        let mut rig = Rig::new();
        let source = match way {
            Way::Push => rig.path("run42"),
            Way::Pull => rig.export.join("run42"),
        };
        fs::create_dir_all(&source).expect("made");
        rig.make_dirs("away/deep");
        let total = make(&source);
        rig.start(&[]);
        Self {
            rig,
            way,
            source,
            total,
        }
    }

    /// Where it goes: a name that does not exist before the first run, so that a wrong mapping would show.
    fn destination(&self) -> PathBuf {
        match self.way {
            Way::Push => self.rig.export.join("new"),
            Way::Pull => self.rig.path("new"),
        }
    }

    fn receiver_home(&self) -> PathBuf {
        match self.way {
            Way::Push => self.rig.daemon_home.clone(),
            Way::Pull => self.rig.client_home(),
        }
    }

    /// The same command in other words, by number.
    fn run(&self, number: u64, flags: &[&str]) -> Process {
        let from = self.rig.path(if number.is_multiple_of(2) {
            "away"
        } else {
            "away/deep"
        });
        let up = if number.is_multiple_of(2) {
            ".."
        } else {
            "../.."
        };
        let streams = (1 + number % 4).to_string();
        let (source, destination) = match self.way {
            Way::Push => (format!("{up}/run42"), self.rig.url("new")),
            Way::Pull => (self.rig.url("run42"), format!("{up}/new")),
        };
        let mut arguments = vec!["--streams", &streams];
        arguments.extend(flags);
        arguments.extend([source.as_str(), destination.as_str()]);
        self.rig.begin_cp(&from, &arguments)
    }

    /// Waits until the receiver has written that much, or the client is at its end. Returns what was written.
    fn watch(&self, client: &mut Process, before: u64, bytes: u64) -> u64 {
        let mut written = 0;
        let reached = wait_until(|| {
            let now = match self.way {
                Way::Push => self.rig.daemon().written(),
                Way::Pull => client.written(),
            };
            written = now.map_or(written, |now| now.saturating_sub(before));
            (written >= bytes || client.has_ended()).then_some(())
        });
        assert!(reached.is_some(), "a standstill: {}", client.said());
        written
    }

    /// What the receiver had written before a run that is about to begin.
    fn written_before(&self) -> u64 {
        match self.way {
            Way::Push => self.rig.daemon().written().expect("it runs"),
            Way::Pull => 0,
        }
    }

    fn vouched(&self) -> u64 {
        Rig::recovered(&self.receiver_home()).map_or(0, |recovered| recovered.vouched_bytes)
    }

    fn check_end(&self, end: &Outcome, vouched: u64) {
        end.complete();
        let bytes = end.number("bytes");
        assert!(
            bytes <= self.total - vouched,
            "{bytes} were delivered, {vouched} of {} were vouched for: {}",
            self.total,
            end.said()
        );
        let rate = bytes as f64 / end.summary()["seconds"].as_f64().expect("a number");
        let resent = end.number("resent_bytes");
        assert!(resent as f64 <= 256.0 * MIB as f64 + rate, "{}", end.said());
        assert_identical(&self.source, &self.destination());
        assert_tidy(&self.destination(), &self.receiver_home());
    }
}

/// Kills the transfer at moments from the seed until it is complete. Returns how often it was killed.
fn kill_until_complete(seed: u64, way: Way) -> u64 {
    let mut seeded = Seeded(seed);
    let mut case = Case::new(way, |root| make_tree(root, 96, &mut Seeded(seed)));
    let mut kills = 0;
    for number in 0.. {
        let victim = [Victim::Client, Victim::Daemon, Victim::DaemonOnly]
            [usize::try_from(seeded.below(3)).expect("small")];
        // Some moments are soon after the beginning, some are after the end.
        let moment = seeded.below(case.total * 6 / 5) >> (2 * seeded.below(2));
        let vouched = case.vouched();
        let before = case.written_before();
        let retry = if victim == Victim::DaemonOnly {
            "60s"
        } else {
            "1s"
        };
        let mut client = case.run(number, &["--limit", "80MB", "--retry-for", retry]);
        case.watch(&mut client, before, moment);
        if client.has_ended() {
            let end = client.wait();
            case.check_end(&end, vouched);
            return kills;
        }
        kills += 1;
        match victim {
            Victim::Client => {
                client.signal(Signal::KILL);
                client.wait();
            }
            Victim::Daemon => {
                case.rig.kill_daemon();
                let end = client.wait();
                // Before it was told that the transfer exists it cannot know that it can be resumed.
                let begun = end.said().contains("\"event\":\"started\"");
                assert_eq!(end.code, Some(if begun { 5 } else { 1 }), "{}", end.said());
                case.rig.start(&[]);
            }
            Victim::DaemonOnly => {
                let begun = client.said().contains("\"event\":\"started\"");
                case.rig.kill_daemon();
                case.rig.start(&[]);
                let end = client.wait();
                if begun {
                    case.check_end(&end, 0);
                    return kills;
                }
            }
        }
        assert_finals_whole(&case.source, &case.destination());
    }
    unreachable!("numbers do not end")
}

#[test]
fn killed_at_fifty_moments_it_finishes_with_everything() {
    let (kills, seed) = (AtomicU64::new(0), AtomicU64::new(first_seed(4200)));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while kills.load(Ordering::Relaxed) < MOMENTS {
                    let seed = seed.fetch_add(1, Ordering::Relaxed);
                    let way = if seed % 2 == 0 { Way::Push } else { Way::Pull };
                    eprintln!("seed {seed}: {way:?}");
                    let killed = kill_until_complete(seed, way);
                    eprintln!("seed {seed}: complete after {killed} kills");
                    kills.fetch_add(killed, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Killed once after `moment` bytes, then finished: all but what may be undurable must have been kept.
fn bound_holds(mut case: Case, moment: u64, victim: Victim) {
    let before = case.written_before();
    let mut client = case.run(0, &["--retry-for", "1s"]);
    let written = case.watch(&mut client, before, moment);
    assert!(
        !client.has_ended(),
        "it was to be killed: {}",
        client.said()
    );
    if victim == Victim::Client {
        client.signal(Signal::KILL);
        client.wait();
    } else {
        case.rig.kill_daemon();
        client.wait();
        case.rig.start(&[]);
    }
    // The daemon may still be at work on what it had when its client was killed: it is asked after the fact.
    let least = written.min(case.total).saturating_sub(UNDURABLE);
    let mut client = case.run(1, &[]);
    let end = client.wait();
    case.check_end(&end, least);
    end.says("\"resumed\":true");
    let resent = end.number("resent_bytes");
    assert!(resent <= UNDURABLE, "{resent}: {}", end.said());
    eprintln!(
        "written {written} of {}, resent {resent}: {}",
        case.total,
        end.summary()
    );
}

fn one_large_file(root: &Path) -> u64 {
    write_file(&root.join("large"), 640 * MIB, &mut Seeded(7));
    640 * MIB
}

fn many_small_files(root: &Path) -> u64 {
    let mut seeded = Seeded(8);
    let bytes = 20 << 10;
    for number in 0..20_000_u64 {
        let directory = root.join(format!("d{}", number / 500));
        if number % 500 == 0 {
            fs::create_dir(&directory).expect("made");
        }
        // Distinct and quickly made.
        let mut content = vec![seeded.next().to_le_bytes()[0]; bytes];
        content[..8].copy_from_slice(&number.to_le_bytes());
        fs::write(directory.join(number.to_string()), &content).expect("written");
    }
    20_000 * bytes as u64
}

#[test]
fn a_killed_receiver_costs_little_of_one_large_file() {
    bound_holds(
        Case::new(Way::Push, one_large_file),
        500 * MIB,
        Victim::Daemon,
    );
}

#[test]
fn a_killed_sender_costs_little_of_one_large_file() {
    bound_holds(
        Case::new(Way::Push, one_large_file),
        450 * MIB,
        Victim::Client,
    );
}

#[test]
fn a_killed_receiver_costs_little_of_many_small_files() {
    bound_holds(
        Case::new(Way::Pull, many_small_files),
        330 * MIB,
        Victim::Client,
    );
}

#[test]
fn a_killed_sender_costs_little_of_many_small_files() {
    bound_holds(
        Case::new(Way::Push, many_small_files),
        330 * MIB,
        Victim::Client,
    );
}

#[test]
fn an_unfinished_transfer_keeps_its_first_mapping_of_names() {
    let case = Case::new(Way::Push, |root| make_tree(root, 16, &mut Seeded(1)));
    let before = case.written_before();
    let mut client = case.run(0, &["--limit", "8MB"]);
    case.watch(&mut client, before, 2 * MIB);
    client.signal(Signal::KILL);
    client.wait();
    assert!(case.destination().is_dir(), "the first run has made it");
    case.run(1, &[]).wait().complete();
    assert_identical(&case.source, &case.destination());
    // Now it is finished, and the same command means "into".
    case.run(2, &[]).wait().complete();
    assert_identical(&case.source, &case.destination().join("run42"));
}

#[test]
fn a_copy_on_one_machine_is_resumed_too() {
    let rig = Rig::new();
    let (source, destination) = (rig.path("run42"), rig.path("new"));
    let total = make_tree(&source, 24, &mut Seeded(9));
    rig.make_dirs("away/deep");
    let here = rig.path("away");
    let mut killed = rig.begin_cp(&here, &["--limit", "12MB", "../run42", "../new"]);
    wait_until(|| (killed.written()? > 9 * MIB).then_some(())).expect("it writes");
    killed.signal(Signal::KILL);
    killed.wait();
    assert_finals_whole(&source, &destination);
    let vouched = Rig::recovered(&rig.client_home()).map_or(0, |known| known.vouched_bytes);
    let end = rig
        .begin_cp(
            &rig.path("away/deep"),
            &["--streams", "3", "../../run42", "../../new"],
        )
        .wait();
    end.complete().says("\"resumed\":true");
    assert!(
        end.number("bytes") <= total - vouched,
        "{vouched}: {}",
        end.said()
    );
    assert_identical(&source, &destination);
    assert_tidy(&destination, &rig.client_home());
}

#[test]
fn control_c_stops_cleanly_and_the_same_command_resumes() {
    for way in [Way::Push, Way::Pull] {
        let case = Case::new(way, |root| make_tree(root, 24, &mut Seeded(2)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "12MB"]);
        case.watch(&mut client, before, 9 * MIB);
        client.signal(Signal::INT);
        client.wait().expect(5, "interrupted");
        assert_finals_whole(&case.source, &case.destination());
        if way == Way::Push {
            // The daemon suspends once it has noticed; the same command would wait for that too.
            wait_until(|| {
                case.rig
                    .daemon()
                    .said()
                    .contains("interrupted")
                    .then_some(())
            })
            .expect("the daemon notices");
        }
        let vouched = case.vouched();
        assert!(vouched > 0, "{way:?}: nothing was kept");
        let end = case.run(1, &[]).wait();
        case.check_end(&end, vouched);
        end.says("\"resumed\":true");
        assert_eq!(end.number("resent_bytes"), 0, "{way:?}: {}", end.said());
    }
}

#[test]
fn a_daemon_that_comes_back_is_found_again_and_one_that_does_not_is_given_up() {
    for way in [Way::Push, Way::Pull] {
        let mut case = Case::new(way, |root| make_tree(root, 24, &mut Seeded(3)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "20MB", "--retry-for", "2s"]);
        case.watch(&mut client, before, 6 * MIB);
        case.rig.kill_daemon();
        client
            .wait()
            .expect(5, "interrupted")
            .says("without a connection");
        case.rig.start(&[]);

        let before = case.written_before();
        let mut client = case.run(1, &["--limit", "20MB", "--retry-for", "60s"]);
        case.watch(&mut client, before, 3 * MIB);
        case.rig.kill_daemon();
        case.rig.start(&[]);
        let end = client.wait();
        case.check_end(&end, 0);
    }
}

#[test]
fn a_damaged_journal_is_told_and_costs_only_what_it_knew() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[..40].fill(b'x'),
        |bytes| bytes.truncate(bytes.len() - 5),
        |bytes| {
            let middle = bytes.len() * 2 / 3;
            bytes[middle] ^= 0x10;
        },
        |bytes| bytes.truncate(10),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let way = if number.is_multiple_of(2) {
            Way::Push
        } else {
            Way::Pull
        };
        let mut case = Case::new(way, |root| make_tree(root, 24, &mut Seeded(4)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "12MB", "--retry-for", "1s"]);
        case.watch(&mut client, before, 9 * MIB);
        if way == Way::Push {
            case.rig.kill_daemon();
        } else {
            client.signal(Signal::KILL);
        }
        client.wait();
        let journals = Rig::journals(&case.receiver_home());
        let mut bytes = fs::read(&journals[0]).expect("read");
        damage(&mut bytes);
        fs::write(&journals[0], &bytes).expect("written");
        if way == Way::Push {
            case.rig.start(&[]);
        }
        // Its header is gone in some cases, and with it the mapping: then the destination is what it is now.
        let header_gone = number == 0 || number == 3;
        let end = case.run(1, &[]).wait();
        end.complete();
        let destination = if header_gone {
            case.destination().join("run42")
        } else {
            case.destination()
        };
        assert_identical(&case.source, &destination);
        let told = if way == Way::Push {
            case.rig.daemon().said()
        } else {
            end.said().clone()
        };
        assert!(told.contains("journal"), "case {number}: {told}");
    }
}

#[test]
fn one_transfer_at_a_time_writes_to_a_destination() {
    let case = Case::new(Way::Push, |root| make_tree(root, 24, &mut Seeded(5)));
    let other = case.rig.path("other");
    make_tree(&other, 4, &mut Seeded(6));
    let before = case.written_before();
    let mut first = case.run(0, &["--limit", "1MB"]);
    case.watch(&mut first, before, MIB);
    let here = case.rig.path("away");
    let other = other.to_str().expect("text");
    let busy = |source: &str, destination: &str| {
        let end = case
            .rig
            .begin_cp(&here, &[source, &case.rig.url(destination)])
            .wait();
        end.expect(1, "failed").says("new");
        end.said()
    };
    let below = busy(other, "new/d0/below");
    let same_place = busy(other, "new");
    // Not taken for one whose client is gone.
    let twice = busy("../run42", "new");
    for said in [&below, &same_place, &twice] {
        assert!(
            said.contains("another transfer") || said.contains("already") || said.contains("runs"),
            "{said}"
        );
    }
    case.rig
        .begin_cp(&here, &[other, &case.rig.url("beside")])
        .wait()
        .complete();
    assert_identical(Path::new(other), &case.rig.export.join("beside"));
    assert!(
        !first.has_ended(),
        "all of that was to be at one time: {}",
        first.said()
    );
    first.signal(Signal::KILL);
    first.wait();
    let end = case.run(1, &[]).wait();
    case.check_end(&end, 0);
}
