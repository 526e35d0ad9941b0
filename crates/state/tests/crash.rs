//! Tests that kills at any moment lose no acknowledged command and apply none twice. Cannot cut the
//! power; SQLite guarantees the sync before it acknowledges.

mod support;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use godwit_state::{AuditFilter, AuditOutcome, JobState, Options, Replica};
use support::{claim, job_command, submit};

/// Directory of the child's state. Without it, this test proposes a few commands and checks them itself.
const DIRECTORY: &str = "GODWIT_STATE_TEST_DIRECTORY";
/// The part of the ids that identifies the child process.
const ROUND: &str = "GODWIT_STATE_TEST_ROUND";
const KILLS: u32 = 60;
const PROPOSERS: u32 = 4;

/// Code of the child process that will be killed: submits jobs and claims them, and prints each
/// acknowledged command.
#[test]
fn proposer() {
    let given = env::var_os(DIRECTORY).map(PathBuf::from);
    let own = tempfile::tempdir().expect("a directory");
    let directory = given.as_deref().unwrap_or_else(|| own.path());
    let round = env::var(ROUND).unwrap_or_default();
    let jobs = if given.is_some() { u32::MAX } else { 25 };
    let replica = Replica::open(Options::new(directory)).expect("open");
    std::thread::scope(|scope| {
        for proposer in 0..PROPOSERS {
            let (replica, round) = (&replica, &round);
            scope.spawn(move || {
                for number in 0..jobs {
                    let id = format!("{round}-{proposer}-{number}");
                    replica.propose_blocking(submit(0, &id)).expect("submit");
                    say("submitted", &id);
                    replica
                        .propose_blocking(job_command(1, &id, claim(0)))
                        .expect("claim");
                    say("claimed", &id);
                    // Some kills happen while a snapshot is written and the log is cut.
                    if number % 8 == proposer {
                        replica.compact().expect("compact");
                    }
                }
            });
        }
    });
    let counts = replica.reader().job_counts(None).expect("counts");
    assert_eq!(counts, [(JobState::Scanning, u64::from(PROPOSERS * jobs))]);
}

fn say(what: &str, id: &str) {
    if env::var_os(DIRECTORY).is_none() {
        return;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what} {id}").expect("say");
    out.flush().expect("say");
}

fn start(directory: &Path, round: u32) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "proposer", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start")
}

/// The next number of a sequence that is the same in each run.
fn next(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn no_kill_loses_or_doubles_a_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut seed = 25;
    // Acknowledged jobs, and whether their claims were acknowledged too.
    let mut acknowledged = BTreeMap::new();
    for round in 0..KILLS {
        let mut child = start(directory.path(), round);
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        // A third of the kills happens while the child process opens the state.
        let lines = if round % 3 == 0 {
            0
        } else {
            1 + next(&mut seed) % 60
        };
        let mut reported = Vec::new();
        let mut line = String::new();
        while (reported.len() as u64) < lines {
            line.clear();
            assert!(
                out.read_line(&mut line).expect("read") > 0,
                "round {round}: the child ended"
            );
            if line.starts_with("submitted") || line.starts_with("claimed") {
                reported.push(line.trim().to_owned());
            }
        }
        let pause =
            Duration::from_micros(next(&mut seed) % if lines == 0 { 40_000 } else { 3_000 });
        let began = Instant::now();
        while began.elapsed() < pause {
            std::hint::spin_loop();
        }
        child.kill().expect("kill");
        child.wait().expect("wait");
        reported.extend(out.lines().map(|line| line.expect("read")));
        for line in reported {
            match line.split_once(' ') {
                Some(("submitted", id)) => drop(acknowledged.insert(id.to_owned(), false)),
                Some(("claimed", id)) => drop(acknowledged.insert(id.to_owned(), true)),
                _ => {}
            }
        }
        if round % 6 == 5 {
            assert_whole(directory.path(), &acknowledged);
        }
    }
    assert_whole(directory.path(), &acknowledged);
    assert!(acknowledged.len() > 100, "only {} jobs", acknowledged.len());
}

fn assert_whole(directory: &Path, acknowledged: &BTreeMap<String, bool>) {
    let replica = Replica::open(Options::new(directory)).expect("open");
    let reader = replica.reader();
    for (id, claimed) in acknowledged {
        let job = reader.job(id).expect("read");
        let job = job.unwrap_or_else(|| panic!("{id} was acknowledged and is lost"));
        assert!(job.attempts <= 1, "{job:?}");
        assert!(!claimed || job.state == JobState::Scanning, "{job:?}");
    }
    // Each submission adds one line; a repeated one would add a second.
    let mut filter = AuditFilter::default();
    let mut seen = BTreeMap::new();
    loop {
        let lines = reader.audit(&filter, 1_000).expect("read");
        let Some(last) = lines.last() else { break };
        filter.before = Some(last.seq);
        for line in lines {
            assert_eq!(line.outcome, AuditOutcome::Done, "{line:?}");
            let earlier = seen.insert(line.object.clone(), line.seq);
            assert!(earlier.is_none(), "applied twice: {line:?}");
        }
    }
    assert!(acknowledged.keys().all(|id| seen.contains_key(id)));
    replica.shutdown();
}
