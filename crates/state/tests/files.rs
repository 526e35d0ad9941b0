//! Tests the files of the state: damage, versions, files that do not belong together, backups.
//! See `crash` and `full` for crashes and full disks.

mod support;

use std::fs;
use std::path::Path;

use godwit_state::{
    Agreed, Change, FEATURE_LEVEL, FaultKind, Invite, JobState, Op, OpenError, Options, Position,
    Replica, Role, Secret, Setting, Store, Timestamp, User, restore,
};
use rusqlite::Connection;
use support::{at, claim, command, job_command, submit};

fn open(directory: &Path) -> Replica {
    Replica::open(Options::new(directory)).expect("open")
}

/// The directory after a crash: `jobs` in the files themselves, and one more in SQLite's logs.
fn crashed(jobs: i64) -> tempfile::TempDir {
    let live = tempfile::tempdir().expect("a directory");
    let replica = open(live.path());
    for number in 0..jobs {
        let id = format!("job{number}");
        replica
            .propose_blocking(submit(number, &id))
            .expect("submit");
    }
    for name in ["raft.db", "state.db"] {
        let db = Connection::open(live.path().join(name)).expect("open");
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .expect("checkpoint");
    }
    replica
        .propose_blocking(submit(jobs, "last"))
        .expect("submit");
    let directory = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(live.path()).expect("list") {
        let name = entry.expect("an entry").file_name();
        if !name.to_string_lossy().ends_with("-shm") {
            fs::copy(live.path().join(&name), directory.path().join(&name)).expect("copy");
        }
    }
    directory
}

/// Names and contents, except the lock and parts that SQLite writes differently each time.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut contents: Vec<_> = fs::read_dir(directory)
        .expect("list")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .filter(|(name, _)| !name.ends_with("-shm") && name != "state.lock")
        .map(|(name, path)| (name, fs::read(path).expect("read")))
        .collect();
    contents.sort();
    contents
}

fn assert_refused(directory: &Path, name: &str, is: impl Fn(&FaultKind) -> bool, says: &str) {
    let this = || {
        let mut files = contents(directory);
        files.retain(|(file, bytes)| file.starts_with(name) && !bytes.is_empty());
        files
    };
    let before = this();
    let error = Replica::open(Options::new(directory)).expect_err("refused");
    assert!(
        matches!(&error, OpenError::Fault(fault) if is(&fault.kind)),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains(name) && text.contains(says), "{text}");
    assert!(before == this(), "files changed: {text}");
}

#[test]
fn a_crash_image_opens() {
    let directory = crashed(50);
    let replica = open(directory.path());
    assert!(replica.reader().job("last").expect("read").is_some());
}

/// Whether SQLite's log of a file contains the first page, so that this page of the file itself is not
/// used.
fn log_has_header(directory: &Path, name: &str) -> bool {
    let log = fs::read(directory.join(format!("{name}-wal"))).expect("a log");
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"));
    let page_bytes = usize::try_from(number(&log[8..])).expect("a page");
    // A header of 32 bytes; each frame has one of 24, which begins with the number of its page.
    log[32..]
        .chunks(24 + page_bytes)
        .any(|frame| number(frame) == 1)
}

/// The files of a crash whose last command is in a log without the first page.
fn crashed_beside_its_header(name: &str) -> tempfile::TempDir {
    let mut jobs = 200;
    loop {
        let directory = crashed(jobs);
        if !log_has_header(directory.path(), name) {
            return directory;
        }
        jobs += 1;
    }
}

/// Cuts SQLite's log of a file to a length that a power cut may leave.
fn cut(directory: &Path, name: &str, part: u64) {
    let log = directory.join(format!("{name}-wal"));
    let log = fs::OpenOptions::new().write(true).open(log).expect("open");
    let length = log.metadata().expect("a length").len();
    log.set_len(length * part / 16).expect("cut");
}

#[test]
fn commands_lost_from_the_state_in_a_power_cut_are_applied_again() {
    for part in 0..16 {
        let directory = crashed(20);
        cut(directory.path(), "state.db", part);
        let replica = open(directory.path());
        let reader = replica.reader();
        assert!(reader.job("last").expect("read").is_some(), "part {part}");
        let counts = reader.job_counts(None).expect("counts");
        assert_eq!(counts, [(JobState::Queued, 21)]);
    }
}

#[test]
fn a_log_that_lost_a_command_is_refused_and_not_shortened() {
    let mut refused = 0;
    for part in 0..16 {
        let directory = crashed(20);
        cut(directory.path(), "raft.db", part);
        match Replica::open(Options::new(directory.path())) {
            Ok(replica) => assert!(replica.reader().job("last").expect("read").is_some()),
            Err(error) => {
                assert!(error.to_string().contains("state.db ends with"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_damaged_file_is_named_and_left_as_it_is() {
    for name in ["raft.db", "state.db"] {
        let damages: [fn(&mut Vec<u8>); 3] = [
            |bytes| {
                let end = bytes.len() - 4_096;
                bytes[4_096..end].fill(0xaa);
            },
            |bytes| bytes.truncate(bytes.len() / 2),
            |bytes| bytes[..64].fill(0),
        ];
        for damage in damages {
            let directory = crashed_beside_its_header(name);
            let file = directory.path().join(name);
            let mut bytes = fs::read(&file).expect("read");
            damage(&mut bytes);
            fs::write(&file, &bytes).expect("write");
            let damaged = |kind: &FaultKind| matches!(kind, FaultKind::Damaged(_));
            assert_refused(directory.path(), name, damaged, "godwit restore");
        }
    }
}

#[test]
fn a_file_of_a_newer_program_and_a_foreign_one_are_refused() {
    for name in ["raft.db", "state.db"] {
        let directory = crashed(1);
        let db = Connection::open(directory.path().join(name)).expect("open");
        db.pragma_update(None, "user_version", 77).expect("set");
        drop(db);
        let newer = |kind: &FaultKind| matches!(kind, FaultKind::Newer { version: 77, .. });
        assert_refused(directory.path(), name, newer, "version 77");
        let db = Connection::open(directory.path().join(name)).expect("open");
        db.pragma_update(None, "application_id", 1).expect("set");
        drop(db);
        let foreign = |kind: &FaultKind| matches!(kind, FaultKind::Foreign);
        assert_refused(directory.path(), name, foreign, "name the right directory");
    }
}

#[test]
fn a_log_of_another_state_is_refused() {
    let (directory, other) = (crashed(20), crashed(1));
    for name in ["raft.db", "raft.db-wal"] {
        fs::copy(other.path().join(name), directory.path().join(name)).expect("copy");
    }
    let error = Replica::open(Options::new(directory.path())).expect_err("refused");
    assert!(
        error.to_string().contains("state.db ends with command"),
        "{error}"
    );
    for name in ["raft.db", "raft.db-wal", "raft.db-shm"] {
        // SQLite may already have removed the second and third file.
        let _ = fs::remove_file(directory.path().join(name));
    }
    let error = Replica::open(Options::new(directory.path())).expect_err("refused");
    assert!(error.to_string().contains("raft.db with none"), "{error}");
}

#[test]
fn only_the_owner_reads_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("state");
    let replica = open(&directory);
    replica.propose_blocking(submit(0, "job")).expect("submit");
    let copy = directory.join("backup");
    replica.backup(&copy).expect("backup");
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).expect("list") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_backup_comes_back_and_the_node_continues() {
    let parent = tempfile::tempdir().expect("a directory");
    let (directory, copy) = (parent.path().join("state"), parent.path().join("backup"));
    let replica = open(&directory);
    for number in 0..100 {
        let id = format!("job{number}");
        replica
            .propose_blocking(submit(number, &id))
            .expect("submit");
    }
    // A backup during writes contains a state that existed.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..200 {
                let value = number.to_string();
                let set = |name: &str| {
                    let (name, value) = (name.to_owned(), value.clone());
                    command(0, Op::Setting(Change::Put(Setting { name, value })))
                };
                replica.propose_blocking(set("first")).expect("set");
                replica.propose_blocking(set("second")).expect("set");
            }
        });
        while !writer.is_finished() {
            replica.backup(&copy).expect("backup");
        }
    });
    replica.backup(&copy).expect("backup");
    replica
        .propose_blocking(submit(1_000, "later"))
        .expect("submit");
    let applied = replica.applied_index();
    // The state of a running node is not replaced.
    let error = restore(&directory, &copy, "gw1-own", Timestamp(0)).expect_err("in use");
    assert!(matches!(error.kind, FaultKind::Locked), "{error}");
    replica.shutdown();

    let kept = restore(&directory, &copy, "gw1-own", Timestamp(0))
        .expect("restore")
        .kept
        .expect("kept");
    assert!(kept.join("state.db").exists() && kept.join("raft.db").exists());
    let replica = open(&directory);
    let reader = replica.reader();
    assert!(reader.job("job99").expect("read").is_some());
    assert!(reader.job("later").expect("read").is_none());
    assert!(replica.applied_index() <= applied);
    for number in 0..100 {
        let id = format!("job{number}");
        replica
            .propose_blocking(job_command(2_000, &id, claim(0)))
            .expect("claim");
    }
    replica.compact().expect("compact");
    replica.shutdown();
    let replica = open(&directory);
    let job = replica.reader().job("job99").expect("read").expect("there");
    assert_eq!(job.state, JobState::Scanning);
}

/// Since the backup, a node may have joined by the invitation and been removed.
#[test]
fn a_restored_state_admits_no_node_by_an_invitation_of_before() {
    for level in [1, FEATURE_LEVEL] {
        let parent = tempfile::tempdir().expect("a directory");
        let (directory, copy) = (parent.path().join("state"), parent.path().join("backup"));
        let replica = open(&directory);
        if level > 1 {
            let raise = command(0, Op::Level(level));
            replica.propose_blocking(raise).expect("alone");
        }
        let invite = Invite {
            id: "i".to_owned(),
            hash: Secret::new("hash-i"),
            expires: at(1_000_000),
            created: None,
            ended: None,
            used: None,
            via: None,
            by: None,
            tokens: Vec::new(),
        };
        let made = command(1, Op::Invite(Change::Create(invite)));
        replica.propose_blocking(made).expect("made");
        let admits = |replica: &Replica| {
            let reader = replica.reader();
            let invites: Vec<Invite> = reader.objects().expect("read");
            let mut invites = invites.iter();
            invites.any(|invite| Agreed(&reader).admits(invite, at(3)).expect("read"))
        };
        assert!(admits(&replica));
        replica.backup(&copy).expect("backup");
        replica.shutdown();
        restore(&directory, &copy, "gw1-own", at(2)).expect("restored");
        let replica = open(&directory);
        assert!(!admits(&replica), "level {level}");
        replica.shutdown();
    }
}

#[test]
fn a_damaged_backup_replaces_nothing() {
    let directory = crashed(200);
    let copy = directory.path().join("backup");
    let replica = open(directory.path());
    replica.backup(&copy).expect("backup");
    replica.shutdown();
    let whole = fs::read(&copy).expect("read");
    let mut damaged = whole.clone();
    let end = damaged.len() - 4_096;
    damaged[4_096..end].fill(0xaa);
    for bytes in [
        damaged,
        whole[..whole.len() / 2].to_vec(),
        b"text".to_vec(),
        Vec::new(),
    ] {
        fs::write(&copy, bytes).expect("write");
        let before = contents(directory.path());
        let error = restore(directory.path(), &copy, "gw1-own", Timestamp(0)).expect_err("refused");
        assert_eq!(error.file, copy, "{error}");
        assert!(
            before == contents(directory.path()),
            "files changed: {error}"
        );
    }
    fs::remove_file(&copy).expect("remove");
    restore(directory.path(), &copy, "gw1-own", Timestamp(0)).expect_err("missing");
    assert!(!copy.exists());
    open(directory.path());
}

/// A trigger would change what later commands do, at each node that gets a copy of the file.
#[test]
fn a_file_with_a_trigger_is_refused() {
    const TRIGGER: &str = "CREATE TRIGGER hide AFTER INSERT ON audit BEGIN DELETE FROM audit; END";
    let directory = crashed(20);
    let copy = directory.path().join("backup");
    let replica = open(directory.path());
    replica.backup(&copy).expect("backup");
    replica.shutdown();
    let change = |file: &Path| {
        let db = Connection::open(file).expect("open");
        db.execute_batch(TRIGGER).expect("changed");
    };
    change(&copy);
    let before = contents(directory.path());
    let error = restore(directory.path(), &copy, "gw1-own", Timestamp(0)).expect_err("refused");
    assert!(error.to_string().contains("the trigger hide"), "{error}");
    assert!(before == contents(directory.path()), "files changed");
    change(&directory.path().join("state.db"));
    let damaged = |kind: &FaultKind| matches!(kind, FaultKind::Damaged(_));
    assert_refused(directory.path(), "state.db", damaged, "the trigger hide");
}

/// The checksums of the copy are computed while changes of rows are recorded. The next change must not meet these records.
#[test]
fn a_store_continues_from_a_copy_without_checksums() {
    let parent = tempfile::tempdir().expect("a directory");
    let copy = parent.path().join("backup");
    let mut from = Store::open(&parent.path().join("from.db")).expect("open");
    from.apply(1, &submit(0, "job"))
        .expect("apply")
        .expect("submit");
    from.backup(&copy).expect("backup");
    let db = Connection::open(&copy).expect("open");
    db.execute("UPDATE applied SET sealed = 0", [])
        .expect("changed");
    drop(db);
    let mut store = Store::open(&parent.path().join("state.db")).expect("open");
    store.replace(&copy).expect("replaced");
    let mut batch = store.batch().expect("a batch");
    let next = Position {
        index: 2,
        ..Position::default()
    };
    batch.mark(&next).expect("marked");
    batch.commit().expect("committed");
    let before = store.dump().expect("dump");
    drop(store);
    let again = Store::open(&parent.path().join("state.db")).expect("open");
    assert_eq!(again.dump().expect("dump"), before);
}

#[test]
fn an_interrupted_restore_is_reported_and_can_be_repeated() {
    let parent = tempfile::tempdir().expect("a directory");
    let (directory, copy) = (parent.path().join("state"), parent.path().join("backup"));
    let replica = open(&directory);
    replica.propose_blocking(submit(0, "job")).expect("submit");
    replica.backup(&copy).expect("backup");
    replica.shutdown();
    // The directory after a crash in which the earlier files had been moved away.
    fs::create_dir(directory.join("restored")).expect("make");
    fs::create_dir(directory.join("kept-1")).expect("make");
    for name in ["raft.db", "state.db"] {
        fs::rename(directory.join(name), directory.join("kept-1").join(name)).expect("move");
    }
    let error = Replica::open(Options::new(&directory)).expect_err("refused");
    assert!(error.to_string().contains("interrupted"), "{error}");
    restore(&directory, &copy, "gw1-own", Timestamp(0)).expect("restore");
    assert!(
        open(&directory)
            .reader()
            .job("job")
            .expect("read")
            .is_some()
    );
}

#[test]
fn a_state_of_version_1_opens() {
    let parent = tempfile::tempdir().expect("a directory");
    let (directory, copy) = (parent.path().join("state"), parent.path().join("backup"));
    Connection::open(&copy)
        .expect("open")
        .execute_batch(include_str!("fixtures/state_v1.sql"))
        .expect("load");
    let before = Store::open(&copy).expect("open").dump().expect("dump");
    restore(&directory, &copy, "gw1-own", Timestamp(0)).expect("restore");
    let replica = open(&directory);
    let reader = replica.reader();
    let job = reader.job("job1").expect("read").expect("there");
    assert_eq!((job.state, job.attempts), (JobState::Scanning, 1));
    assert_eq!(reader.attempts("job1").expect("read").len(), 1);
    assert_eq!(
        reader.job_spec("job1").expect("read").as_deref(),
        Some("{\"name\":\"job1\"}")
    );
    let user: User = reader.object("bob").expect("read").expect("there");
    assert_eq!(
        (user.role, user.password),
        (Role::Admin, Some(Secret::new("hash")))
    );
    replica.shutdown();
    let after = Store::open(&directory.join("state.db"))
        .expect("open")
        .dump()
        .expect("dump");
    assert_eq!(before, after);
}
