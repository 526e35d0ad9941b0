//! Tests the hostile storage: configured operations fail, synced data survives a crash, and other data does
//! not. Other tests check that it otherwise behaves like other storages.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

#[path = "../../store/tests/fs_common/mod.rs"]
mod fs_common;

use fs_common::{drain, meta, rel, temp_of};
use godwit_store::{Create, RelPath, Replace, ScanItem, Storage, StoreErrorKind};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage, Operation, Rule, When};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

fn hostile(change: impl FnOnce(&mut Faults)) -> (MemoryStorage, HostileStorage) {
    let inner = MemoryStorage::new();
    let mut faults = Faults::new(7);
    change(&mut faults);
    (inner.clone(), HostileStorage::new(Arc::new(inner), faults))
}

fn rule(operation: Operation, when: When, error: StoreErrorKind) -> Vec<Rule> {
    vec![Rule {
        operation,
        when,
        error,
    }]
}

fn write(
    storage: &dyn Storage,
    path: &RelPath,
    content: &[u8],
) -> Result<(), godwit_store::StoreError> {
    storage
        .write_whole(path, &temp_of(path), &meta(0o644, 1, 0), content)
        .map(drop)
}

fn sync(storage: &dyn Storage, path: &RelPath) -> Result<(), godwit_store::StoreError> {
    storage.sync_batch(&[(path, temp_of(path))], 1)
}

#[test]
fn rules_fail_the_operation_that_they_name() {
    let (_, storage) = hostile(|faults| {
        faults.rules = rule(Operation::Commit, When::Nth(2), StoreErrorKind::ReadOnly)
    });
    for (number, expected) in [None, Some(StoreErrorKind::ReadOnly), None]
        .into_iter()
        .enumerate()
    {
        let path = rel(&format!("f{number}"));
        write(&storage, &path, b"x").unwrap();
        let result = storage.commit(&path, &temp_of(&path), Replace::Never);
        assert_eq!(result.err().map(|error| error.kind), expected);
    }
    let (_, storage) =
        hostile(|faults| faults.rules = rule(Operation::Stat, When::From(3), StoreErrorKind::Io));
    let works: Vec<_> = (0..5).map(|_| storage.stat(&rel("x")).is_ok()).collect();
    assert_eq!(works, [true, true, false, false, false]);
    storage.change(|faults| faults.rules.clear());
    assert!(storage.stat(&rel("x")).is_ok());
}

#[test]
fn chance_follows_from_the_seed() {
    let outcomes = |seed| {
        let (_, storage) = hostile(|faults| {
            faults.seed = seed;
            faults.rules = rule(Operation::Stat, When::Chance(300_000), StoreErrorKind::Io);
        });
        (0..1000)
            .map(|_| storage.stat(&rel("x")).is_ok())
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(1), outcomes(1));
    assert_ne!(outcomes(1), outcomes(2));
    let failures = outcomes(1).iter().filter(|works| !**works).count();
    assert!((200..400).contains(&failures), "{failures}");
}

#[test]
fn a_failing_write_leaves_a_part() {
    let (inner, storage) =
        hostile(|faults| faults.rules = rule(Operation::Write, When::Nth(2), StoreErrorKind::Io));
    let path = rel("file");
    let file = storage
        .create(&path, &temp_of(&path), Create::Fresh, None)
        .unwrap();
    file.write_at(0, &[1; 1000]).unwrap();
    assert_eq!(
        file.write_at(1000, &[2; 100_000]).unwrap_err().kind,
        StoreErrorKind::Io
    );
    let bytes = inner
        .open_temp(&path, &temp_of(&path))
        .unwrap()
        .meta()
        .unwrap()
        .bytes;
    assert!((1000..101_000).contains(&bytes), "{bytes}");
}

#[test]
fn space_runs_out_and_comes_back() {
    for writer_cache in [false, true] {
        let (_, storage) = hostile(|faults| {
            faults.space_bytes = Some(150);
            faults.writer_cache = writer_cache;
        });
        write(&storage, &rel("a"), &[1; 100]).unwrap();
        assert_eq!(
            write(&storage, &rel("b"), &[1; 100]).unwrap_err().kind,
            StoreErrorKind::NoSpace
        );
        storage.change(|faults| faults.space_bytes = None);
        write(&storage, &rel("b"), &[1; 100]).unwrap();
    }
}

#[test]
fn the_hook_sees_every_operation_before_it_happens() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (_, storage) = hostile(|faults| {
        faults.hook = Some(Arc::new(move |operation, path| {
            log.lock().unwrap().push((operation, path.to_string()))
        }));
    });
    write(&storage, &rel("a"), b"x").unwrap();
    sync(&storage, &rel("a")).unwrap();
    storage.stat(&rel("b")).unwrap();
    let expected = [
        (Operation::Write, "a"),
        (Operation::SyncBatch, "a"),
        (Operation::Stat, "b"),
    ];
    assert_eq!(
        *seen.lock().unwrap(),
        expected.map(|(operation, path)| (operation, path.to_owned()))
    );
    assert_eq!(storage.operations(), 3);
}

#[test]
fn a_scan_finds_unreadable_files() {
    let (inner, storage) = hostile(|faults| {
        faults.rules = rule(Operation::Scan, When::Nth(3), StoreErrorKind::Permission)
    });
    for name in ["a", "b", "c"] {
        inner.put(&rel(name), &meta(0o644, 1, 0), b"x").unwrap();
    }
    let items = drain(storage.scan(&RelPath::root()).unwrap());
    let faults: Vec<_> = items
        .iter()
        .filter(|item| matches!(item, ScanItem::Fault(_)))
        .collect();
    assert_eq!((items.len(), faults.len()), (4, 1));
}

#[test]
fn cached_bytes_are_visible_to_readers_and_absent_below() {
    let (inner, storage) = hostile(|faults| faults.writer_cache = true);
    let path = rel("file");
    let temp = temp_of(&path);
    write(&storage, &path, b"cached").unwrap();
    assert_eq!(
        inner.open_temp(&path, &temp).unwrap().meta().unwrap().bytes,
        0
    );
    let mut buffer = [0; 10];
    let reader = storage.open_temp(&path, &temp).unwrap();
    assert_eq!(reader.read_at(2, &mut buffer).unwrap(), 4);
    assert_eq!(
        (&buffer[..4], reader.next_data(0).unwrap()),
        (&b"ched"[..], Some(0..6))
    );
    storage.commit(&path, &temp, Replace::Never).unwrap();
    assert_eq!(storage.stat(&path).unwrap().unwrap().bytes, 6);
    assert_eq!(storage.read_whole(&path, &mut buffer).unwrap().1, 6);
    assert_eq!(inner.stat(&path).unwrap(), None);
    storage.settle().unwrap();
    assert_eq!(inner.content(&path).unwrap(), b"cached");
}

#[test]
fn a_failed_sync_loses_its_batch_and_no_other() {
    let (inner, storage) = hostile(|faults| {
        faults.writer_cache = true;
        faults.rules = rule(Operation::SyncBatch, When::Nth(1), StoreErrorKind::Io);
    });
    write(&storage, &rel("a"), b"first").unwrap();
    write(&storage, &rel("b"), b"other").unwrap();
    assert_eq!(
        sync(&storage, &rel("a")).unwrap_err().kind,
        StoreErrorKind::Io
    );
    // The second sync succeeds, as in the kernel, but does not restore the lost data.
    sync(&storage, &rel("a")).unwrap();
    sync(&storage, &rel("b")).unwrap();
    let bytes = |path: &str| {
        inner
            .open_temp(&rel(path), &temp_of(&rel(path)))
            .unwrap()
            .meta()
            .unwrap()
            .bytes
    };
    assert_eq!((bytes("a"), bytes("b")), (0, 5));
    write(&storage, &rel("a"), b"again").unwrap();
    sync(&storage, &rel("a")).unwrap();
    assert_eq!(bytes("a"), 5);
}

#[test]
fn a_name_synced_before_its_contents_is_a_short_file_after_a_crash() {
    let (inner, storage) = hostile(|faults| faults.writer_cache = true);
    for (name, in_order) in [("good", true), ("bad", false)] {
        let path = rel(name);
        write(&storage, &path, b"content").unwrap();
        if in_order {
            sync(&storage, &path).unwrap();
        }
        storage
            .commit(&path, &temp_of(&path), Replace::Never)
            .unwrap();
        storage.sync_directories(&[RelPath::root()]).unwrap();
    }
    storage.crash();
    assert_eq!(inner.content(&rel("good")).unwrap(), b"content");
    assert_eq!(inner.content(&rel("bad")).unwrap(), b"");
    assert!(storage.crashed() && storage.stat(&rel("good")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A program loses no data if it syncs contents before it renames, and directories before it relies on
    /// names.
    #[test]
    fn in_the_right_order_every_crash_is_survived(seed in any::<u64>(), crash_after in 0..60_u64) {
        let (inner, storage) = hostile(|faults| {
            faults.seed = seed;
            faults.writer_cache = true;
            faults.crash_after = Some(crash_after);
        });
        let mut vouched = Vec::new();
        let one = |number: usize| -> Result<RelPath, godwit_store::StoreError> {
            let path = rel(&format!("d{}/f{number}", number % 3));
            storage.make_directory(&path.parent().unwrap(), 0o755)?;
            let file = storage.create(&path, &temp_of(&path), Create::Fresh, None)?;
            file.write_at(3, b"second")?;
            file.write_at(0, b"one")?;
            file.finish(9, &meta(0o644, 1, 0))?;
            sync(&storage, &path)?;
            storage.commit(&path, &temp_of(&path), Replace::Never)?;
            storage.sync_directories(&[path.parent().unwrap()])?;
            Ok(path)
        };
        for number in 0..10 {
            match one(number) {
                Ok(path) => vouched.push(path),
                Err(_) => break,
            }
        }
        prop_assert_eq!(storage.crashed(), vouched.len() < 10);
        storage.crash();
        for path in &vouched {
            prop_assert_eq!(inner.content(path), Some(b"onesecond".to_vec()));
        }
        for path in inner.paths() {
            let temporary = path.file_name().is_some_and(godwit_store::TempName::is_temp);
            if let Some(content) = inner.content(&path).filter(|_| !temporary) {
                prop_assert_eq!(content, b"onesecond", "{} has its final name", path);
            }
        }
    }
}
