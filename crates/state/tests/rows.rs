//! Tests rows that differ from the written ones: they are not trusted, and only the check at startup reports the file as damaged.
//! See `files` for damage to the structure of the files.

mod support;

use std::fs;
use std::path::Path;

use godwit_state::{
    AccessRight, AccessRule, Change, FEATURE_LEVEL, FaultKind, Invite, JobState, Limit, LimitScope,
    Op, OpenError, OpenWork, Options, Replica, Role, Secret, Setting, Share, Site, Store, Token,
    User, Webhook, WorkOp, WorkRoot,
};
use rusqlite::Connection;
use rusqlite::types::Value;
use support::{at, claim, command, job_command, nightly, submit};

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

/// Some bytes are left over from rows that moved.
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
        // Undetected, the job would be copied to run43.
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

/// One object of each kind that the state keeps.
fn objects() -> Vec<Op> {
    let webhook = Webhook {
        id: "hook".to_owned(),
        url: "https://example.org".to_owned(),
        events: Vec::new(),
        owner: None,
        secret: Secret::new("key"),
        disabled: false,
    };
    let user = User {
        name: "bob".to_owned(),
        role: Role::Operator,
        password: Some(Secret::new("hash of a password")),
        disabled: false,
    };
    let token = Token {
        id: "t".to_owned(),
        user: "bob".to_owned(),
        hash: Secret::new("hash of t"),
        scope: String::new(),
        role: Role::Viewer,
        created: at(0),
        expires: None,
        revoked: None,
        last_digits: "1234".to_owned(),
        comment: String::new(),
    };
    let rule = AccessRule {
        id: "r".to_owned(),
        subject: "user:bob".to_owned(),
        site: None,
        export: "data".to_owned(),
        path: "run42".to_owned(),
        rights: vec![AccessRight::Read],
        expires: None,
        comment: String::new(),
        job: None,
    };
    let site = Site {
        name: "siteB".to_owned(),
        addresses: vec!["dtn1.siteb.example.org".to_owned()],
        identity: "gw1-b".to_owned(),
        comment: String::new(),
        nodes: Vec::new(),
    };
    let limit = Limit {
        scope: LimitScope::Site,
        name: "siteB".to_owned(),
        rate: Some(1_000),
        jobs_max: None,
        windows: Vec::new(),
        time_zone: "UTC".to_owned(),
    };
    let share = Share {
        owner: "alice".to_owned(),
        weight: 3,
    };
    let setting = Setting {
        name: "checksum".to_owned(),
        value: "on".to_owned(),
    };
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("hash of i"),
        expires: at(1_000),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    vec![
        Op::Webhook(Change::Create(webhook)),
        Op::User(Change::Create(user)),
        Op::Token(Change::Create(token)),
        Op::Access(Change::Create(rule)),
        Op::Site(Change::Create(site)),
        Op::Schedule(Change::Create(nightly())),
        Op::Limit(Change::Create(limit)),
        Op::Share(Change::Create(share)),
        Op::Setting(Change::Create(setting)),
        Op::Invite(Change::Create(invite)),
    ]
}

/// A state with rows in all tables: objects of each kind, a divided job with an item, and messages to a webhook.
fn full_state() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let work = OpenWork {
        epoch: 1,
        claim: "claim".to_owned(),
        roots: vec![WorkRoot {
            source: "data/a".to_owned(),
            file: None,
            destination: "data/b".to_owned(),
            observation: Vec::new(),
        }],
        part_bytes: 256 << 20,
    };
    let mut commands = vec![command(0, Op::Level(FEATURE_LEVEL))];
    commands.extend(objects().into_iter().map(|op| command(1, op)));
    commands.push(submit(2, "job"));
    commands.push(job_command(3, "job", claim(0)));
    commands.push(command(4, Op::Work("job".to_owned(), WorkOp::Open(work))));
    for command in commands {
        replica
            .propose_blocking(command.clone())
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
    replica.shutdown();
    directory
}

/// The same value with one bit flipped. An empty text has none.
fn flipped(value: Value) -> Option<Value> {
    let flip = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        *bytes.get_mut(middle)? ^= 1;
        Some(bytes)
    };
    match value {
        // The type of a value is stored as well.
        Value::Null => Some(Value::Integer(0)),
        Value::Integer(number) => Some(Value::Integer(number ^ (1 << 20))),
        Value::Text(text) => flip(text.into_bytes())
            .map(|bytes| Value::Text(String::from_utf8(bytes).expect("ASCII"))),
        Value::Blob(bytes) => flip(bytes).map(Value::Blob),
        Value::Real(_) => panic!("no column has such numbers"),
    }
}

/// Covers grants, users, tokens, sites and other objects, work and its items, the level of the cluster, and messages to webhooks.
#[test]
fn one_flipped_bit_in_any_column_of_any_row_is_found() {
    let directory = full_state();
    let file = directory.path().join("state.db");
    let db = Connection::open(&file).expect("open");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("checkpoint");
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = db.prepare(sql).expect(sql);
        let rows = statement.query_map([], |row| row.get(0)).expect(sql);
        rows.collect::<Result<_, _>>().expect(sql)
    };
    let kinds = texts("SELECT DISTINCT kind FROM objects");
    assert!(kinds.len() >= objects().len(), "{kinds:?}");
    let mut found = 0;
    for (table, key) in [
        ("objects", "kind || ' ' || id"),
        ("work", "job"),
        ("work_items", "number"),
        ("cluster", "one"),
        ("deliveries", "id"),
    ] {
        let rows = texts(&format!("SELECT CAST({key} AS TEXT) FROM {table}"));
        assert!(!rows.is_empty(), "{table} has no row");
        let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let cells = rows
            .iter()
            .flat_map(|row| columns.iter().map(move |column| (row, column)));
        for (row, column) in cells {
            let cell = format!("{column} of {row} of {table}");
            let select = format!("SELECT {column} FROM {table} WHERE CAST({key} AS TEXT) = ?1");
            let value = db.query_row(&select, [row], |row| row.get(0));
            let Some(other) = flipped(value.expect(&cell)) else {
                continue;
            };
            let aside = tempfile::tempdir().expect("a directory");
            fs::copy(&file, aside.path().join("state.db")).expect("copied");
            let copy = Connection::open(aside.path().join("state.db")).expect("open");
            // Damaged data need not obey constraints.
            copy.execute_batch("PRAGMA ignore_check_constraints = ON")
                .expect("set");
            let update = format!("UPDATE {table} SET {column} = ?2 WHERE CAST({key} AS TEXT) = ?1");
            let changed = copy.execute(&update, (row, other)).expect(&cell);
            assert_eq!(changed, 1, "{cell}");
            drop(copy);
            let Err(fault) = Store::open(&aside.path().join("state.db")) else {
                panic!("{cell} is believed");
            };
            assert!(
                matches!(fault.kind, FaultKind::Damaged(_)),
                "{cell}: {fault}"
            );
            let text = fault.to_string();
            // The file itself contains the only key of the table.
            let says = match (table, column.as_str()) {
                ("cluster", "one") => "CHECK constraint failed in cluster",
                _ => &format!("of {table} does not match its checksum"),
            };
            assert!(text.contains(says), "{cell}: {fault}");
            found += 1;
        }
    }
    assert!(found > 100, "{found}");
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
    // The check at startup has not run, so nothing is reported as damaged yet.
    assert!(!text.contains("is damaged ("), "{text}");
    assert!(!text.contains("godwit restore"), "{text}");
    assert!(replica.reader().job("job4").expect("read").is_some());
    replica
        .propose_blocking(job_command(200, "job3", claim(0)))
        .expect_err("not applied");
    replica.readiness().check().expect_err("not ready any more");
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

/// An older program leaves the checksums unchanged, and does not record up to which command they are valid.
#[test]
fn rows_written_by_an_older_program_are_accepted() {
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
