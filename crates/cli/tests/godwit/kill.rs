//! Tests that a killed transfer finishes when its command is run again, and that little of the data is sent twice.
//! Does not cut power (`power`) or connections (`cuts`). Other effects of an interruption are tested in `resume`.

#![expect(clippy::print_stderr, reason = "a failure is reported with its seed")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;

use super::case::{Case, Direction, MIB};
use super::data::{Seeded, first_seed, make_tree, write_file};
use super::judge::assert_finals_whole;

/// Most written bytes that the receiver may not have made durable: its limit, and blocks that were arriving when it was
/// reached.
const UNDURABLE: u64 = 160 * MIB;

const MOMENTS: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Client,
    Daemon,
    /// The daemon is started again while the client keeps trying.
    DaemonOnly,
}

/// Kills the transfer at moments from the seed until it is complete. Returns how often it was killed.
fn kill_until_complete(seed: u64, way: Direction) -> u64 {
    let mut seeded = Seeded(seed);
    // A small tree may be undurable as a whole at any moment, so only large ones show the cost of a kill.
    let (mib, limit) = if seed.is_multiple_of(5) {
        (480, "400MB")
    } else {
        (96, "80MB")
    };
    let mut case = Case::new(way, |root| make_tree(root, mib, &mut Seeded(seed)));
    let mut kills = 0;
    // The least that all runs so far must have kept.
    let mut least = 0;
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
        let mut client = case.run(number, &["--limit", limit, "--retry-for", retry]);
        let written = case.watch(&mut client, before, moment);
        if client.has_ended() {
            let end = client.wait();
            case.check_end(&end, vouched.max(least));
            return kills;
        }
        kills += 1;
        least = least.max(
            (vouched + written)
                .min(case.total)
                .saturating_sub(UNDURABLE),
        );
        match victim {
            Victim::Client => {
                client.signal(Signal::KILL);
                client.wait();
            }
            Victim::Daemon => {
                case.rig.kill_daemon();
                let end = client.wait();
                // Before the started event, the client cannot know that it can resume.
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
                    let way = if seed % 2 == 0 {
                        Direction::Push
                    } else {
                        Direction::Pull
                    };
                    eprintln!("seed {seed}: {way:?}");
                    let killed = kill_until_complete(seed, way);
                    eprintln!("seed {seed}: complete after {killed} kills");
                    kills.fetch_add(killed, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Kills once after `moment` bytes, then finishes: all bytes that must be durable must have been kept.
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
    // The daemon may still write the data that it had when its client was killed, so it is asked afterwards.
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
        let mut content = vec![seeded.draw().to_le_bytes()[0]; bytes];
        content[..8].copy_from_slice(&number.to_le_bytes());
        fs::write(directory.join(number.to_string()), &content).expect("written");
    }
    20_000 * bytes as u64
}

#[test]
fn a_killed_receiver_costs_little_of_one_large_file() {
    bound_holds(
        Case::new(Direction::Push, one_large_file),
        500 * MIB,
        Victim::Daemon,
    );
}

#[test]
fn a_killed_sender_costs_little_of_one_large_file() {
    bound_holds(
        Case::new(Direction::Push, one_large_file),
        450 * MIB,
        Victim::Client,
    );
}

#[test]
fn a_killed_receiver_costs_little_of_many_small_files() {
    bound_holds(
        Case::new(Direction::Pull, many_small_files),
        330 * MIB,
        Victim::Client,
    );
}

#[test]
fn a_killed_sender_costs_little_of_many_small_files() {
    bound_holds(
        Case::new(Direction::Push, many_small_files),
        330 * MIB,
        Victim::Client,
    );
}
