//! Tests rows that differ from what was written: they are not trusted, and only the check at a start reports the file as damaged.
//! See `files` for damage to the structure of the files.

mod support;

use std::fs;
use std::path::Path;

use godwit_state::{FaultKind, JobState, OpenError, Options, Replica};
use rusqlite::Connection;
use support::{claim, job_command, submit};

fn open(directory: &Path) -> Replica {
    Replica::open(Options::new(directory)).expect("open")
}

/// A state with some jobs, one of them claimed, with all data in the files themselves.
fn state() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    for number in 0..20 {
        let id = format!("job{number}");
        replica
            .propose_blocking(submit(number, &id))
            .expect("submit");
    }
    replica
        .propose_blocking(job_command(100, "job7", claim(0)))
        .expect("claim");
    replica.shutdown();
    directory
}

fn change(directory: &Path, name: &str, sql: &str) {
    let db = Connection::open(directory.join(name)).expect("open");
    assert!(db.execute(sql, []).expect(sql) > 0, "{sql}");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("checkpoint");
}

#[track_caller]
fn assert_damaged(directory: &Path, says: &str) {
    let error = Replica::open(Options::new(directory)).expect_err("refused");
    let OpenError::Fault(fault) = &error else {
        panic!("{error}");
    };
    assert!(matches!(fault.kind, FaultKind::Damaged(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(says) && text.contains("godwit restore"),
        "{text}"
    );
}

/// Some of the bytes are left over from rows that moved.
#[test]
fn one_flipped_bit_in_a_destination_is_found_or_of_no_row() {
    let directory = state();
    change(
        directory.path(),
        "state.db",
        "UPDATE jobs SET priority = priority",
    );
    let file = directory.path().join("state.db");
    let whole = fs::read(&file).expect("read");
    let destination = b"/archive/run42";
    let mut found = 0;
    for at in 0..whole.len() - destination.len() {
        if !whole[at..].starts_with(destination) {
            continue;
        }
        let mut bytes = whole.clone();
        // Otherwise, the job would go to run43.
        bytes[at + destination.len() - 1] ^= 1;
        fs::write(&file, bytes).expect("write");
        match Replica::open(Options::new(directory.path())) {
            Ok(replica) => {
                for number in 0..20 {
                    let job = replica.reader().job(&format!("job{number}"));
                    let path = job.expect("read").expect("there").destination.path;
                    assert_eq!(path, "/archive/run42");
                }
                replica.shutdown();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("of jobs does not match its checksum"),
                    "{text}"
                );
                assert!(text.contains("godwit restore"), "{text}");
                found += 1;
            }
        }
    }
    assert_eq!(found, 20, "one destination of each job");
}

#[test]
fn a_changed_row_of_each_kind_is_found_at_the_start() {
    for (name, table, sql) in [
        (
            "state.db",
            "jobs",
            "UPDATE jobs SET priority = priority + 1 WHERE id = 'job3'",
        ),
        (
            "state.db",
            "jobs",
            "UPDATE jobs SET due = 4 WHERE id = 'job3'",
        ),
        (
            "state.db",
            "job_specs",
            "UPDATE job_specs SET spec = spec || ' ' WHERE job = 'job3'",
        ),
        ("state.db", "attempts", "UPDATE attempts SET goes_into = 1"),
        (
            "state.db",
            "applied",
            "UPDATE applied SET membership = membership || ' '",
        ),
        (
            "state.db",
            "two last commands",
            "UPDATE applied SET log_index = log_index - 1",
        ),
        (
            "raft.db",
            "entries",
            "UPDATE entries SET body = body || ' ' WHERE log_index = 5",
        ),
        (
            "raft.db",
            "marks",
            "UPDATE marks SET body = body || ' ' WHERE name = 'vote'",
        ),
    ] {
        let directory = state();
        change(directory.path(), name, sql);
        assert_damaged(directory.path(), table);
    }
}

#[test]
fn a_row_that_changes_under_a_running_node_is_not_believed() {
    let directory = state();
    let replica = open(directory.path());
    change(
        directory.path(),
        "state.db",
        "UPDATE jobs SET destination = replace(destination, 'siteB', 'siteC') WHERE id = 'job3'",
    );
    let error = replica.reader().job("job3").expect_err("not believed");
    let text = error.to_string();
    assert!(
        text.contains("row job3 of jobs") && text.contains("Restart the node"),
        "{text}"
    );
    // The check at a start has not run, so nothing is reported as damaged yet.
    assert!(!text.contains("is damaged ("), "{text}");
    assert!(!text.contains("godwit restore"), "{text}");
    assert!(replica.reader().job("job4").expect("read").is_some());
    replica
        .propose_blocking(job_command(200, "job3", claim(0)))
        .expect_err("not applied");
    replica.check_ready().expect_err("not ready any more");
    replica.shutdown();
    assert_damaged(directory.path(), "row job3 of jobs");
}

#[test]
fn a_state_without_checksums_gets_them() {
    let directory = state();
    let db = Connection::open(directory.path().join("state.db")).expect("open");
    for table in ["jobs", "job_specs", "attempts", "objects", "applied"] {
        db.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN sum"))
            .expect("dropped");
    }
    db.execute_batch("ALTER TABLE applied DROP COLUMN sealed; UPDATE jobs SET priority = 3")
        .expect("written");
    drop(db);
    let replica = open(directory.path());
    let job = replica.reader().job("job3").expect("read").expect("there");
    assert_eq!((job.priority, job.state), (3, JobState::Queued));
    replica.shutdown();
    change(
        directory.path(),
        "state.db",
        "UPDATE jobs SET priority = 4 WHERE id = 'job3'",
    );
    assert_damaged(directory.path(), "row job3 of jobs");
}

/// An older program leaves the checksums as they were, and does not record how far they go.
#[test]
fn what_an_older_program_wrote_is_believed() {
    let directory = state();
    change(
        directory.path(),
        "state.db",
        "UPDATE jobs SET priority = 3 WHERE id = 'job3'",
    );
    change(
        directory.path(),
        "state.db",
        "UPDATE applied SET sealed = log_index - 1",
    );
    let replica = open(directory.path());
    let job = replica.reader().job("job3").expect("read").expect("there");
    assert_eq!(job.priority, 3);
    replica
        .propose_blocking(job_command(200, "job3", claim(0)))
        .expect("claim");
    replica.shutdown();
    open(directory.path());
}
