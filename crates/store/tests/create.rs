//! Tests the guarantees of `create` in a file system, in memory, and in a storage that caches everything until a sync. Other
//! tests check how each storage fails.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, meta, rel, temp_of};
use godwit_store::{Create, Replace, Storage, StoreErrorKind};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::{Arc, Barrier};
use std::thread;

/// All storages, each with its name.
fn each(check: impl Fn(&str, &dyn Storage)) {
    let cached = Faults {
        writer_cache: true,
        ..Faults::new(1)
    };
    let inner = || Arc::new(MemoryStorage::new());
    check("file system", &Tree::new().storage);
    check(
        "past the page cache",
        &Tree::with(|options| options.direct = true).storage,
    );
    check("memory", &MemoryStorage::new());
    check("hostile", &HostileStorage::new(inner(), Faults::new(1)));
    check(
        "hostile, with a cache",
        &HostileStorage::new(inner(), cached),
    );
}

/// Commits the temporary file of `big` and reads the file that then has the name.
fn committed(storage: &dyn Storage) -> Vec<u8> {
    let (path, temp) = (rel("big"), temp_of(&rel("big")));
    storage.sync_batch(&[(&path, temp)], 1).unwrap();
    storage.commit(&path, &temp, Replace::Atomically).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let (_, bytes) = storage.read_whole(&path, &mut buffer).unwrap();
    buffer.truncate(bytes);
    buffer
}

#[test]
fn a_shared_file_has_the_bytes_of_all_its_writers() {
    each(|name, storage| {
        let (path, temp) = (rel("big"), temp_of(&rel("big")));
        let share = || {
            storage
                .create(&path, &temp, Create::Shared, Some(9))
                .unwrap()
        };
        let length = || {
            storage
                .open_temp(&path, &temp)
                .unwrap()
                .meta()
                .unwrap()
                .bytes
        };
        let first = share();
        assert_eq!(length(), 9, "{name}: it is as long as it will be");
        first.write_at(6, b"789").unwrap();
        let second = share();
        second.write_at(0, b"123").unwrap();
        share().write_at(3, b"456").unwrap();
        assert_eq!(length(), 9, "{name}");
        second.finish(9, &meta(0o644, 1, 0)).unwrap();
        assert_eq!(committed(storage), b"123456789", "{name}");
    });
}

#[test]
fn a_shared_file_is_never_made_shorter_when_it_is_opened() {
    each(|name, storage| {
        let (path, temp) = (rel("big"), temp_of(&rel("big")));
        let file = storage.create(&path, &temp, Create::Fresh, None).unwrap();
        file.write_at(0, b"longer").unwrap();
        for bytes in [None, Some(2)] {
            storage.create(&path, &temp, Create::Shared, bytes).unwrap();
            let there = storage.open_temp(&path, &temp).unwrap().meta().unwrap();
            assert_eq!(there.bytes, 6, "{name}");
        }
    });
}

#[test]
fn writers_that_share_a_file_at_the_same_moment_get_the_same_one() {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 200;
    each(|name, storage| {
        let (path, temp) = (rel("big"), temp_of(&rel("big")));
        for round in 0..ROUNDS {
            let barrier = Barrier::new(WRITERS);
            thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let (path, temp, barrier) = (&path, &temp, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let bytes = Some(WRITERS as u64);
                        let file = storage.create(path, temp, Create::Shared, bytes).unwrap();
                        file.write_at(writer as u64, b"x").unwrap();
                    });
                }
            });
            assert_eq!(committed(storage), [b'x'; WRITERS], "{name}, round {round}");
        }
    });
}

#[test]
fn a_resumed_file_has_what_was_written_and_is_made_where_there_is_none() {
    each(|name, storage| {
        let (path, temp) = (rel("big"), temp_of(&rel("big")));
        let resume = || {
            storage
                .create(&path, &temp, Create::Resume, Some(9))
                .unwrap()
        };
        resume().write_at(0, b"123").unwrap();
        let file = resume();
        file.write_at(3, b"456").unwrap();
        file.finish(6, &meta(0o644, 1, 0)).unwrap();
        assert_eq!(committed(storage), b"123456", "{name}");
    });
}

#[test]
fn a_fresh_file_has_nothing_of_what_was_there() {
    each(|name, storage| {
        let (path, temp) = (rel("big"), temp_of(&rel("big")));
        let fresh = || {
            storage
                .create(&path, &temp, Create::Fresh, Some(9))
                .unwrap()
        };
        fresh().write_at(0, b"123456").unwrap();
        let file = fresh();
        file.write_at(0, b"ab").unwrap();
        file.finish(4, &meta(0o644, 1, 0)).unwrap();
        assert_eq!(committed(storage), b"ab\0\0", "{name}");
    });
}

#[test]
fn resuming_keeps_what_is_there_even_after_its_mode_was_set() {
    let tree = Tree::new();
    let path = rel("big");
    let temp = temp_of(&path);
    let file = tree
        .storage
        .create(&path, &temp, Create::Fresh, None)
        .unwrap();
    file.write_at(4, b"later").unwrap();
    file.finish(9, &meta(0o000, 7, 0)).unwrap();
    drop(file);
    let mut buffer = [0; 16];
    let reader = tree.storage.open_temp(&path, &temp).unwrap();
    assert_eq!(reader.read_at(0, &mut buffer).unwrap(), 9);
    assert_eq!(
        fs::metadata(tree.at(&temp.to_string())).unwrap().mode() & 0o7777,
        0,
        "verifying leaves the mode alone"
    );
    tree.storage.sync_batch(&[(&path, temp)], 9).unwrap();
    let file = tree
        .storage
        .create(&path, &temp, Create::Resume, None)
        .unwrap();
    file.write_at(0, b"soon").unwrap();
    file.finish(9, &meta(0o640, 7, 0)).unwrap();
    tree.storage.sync_batch(&[(&path, temp)], 9).unwrap();
    tree.storage.commit(&path, &temp, Replace::Never).unwrap();
    assert_eq!(fs::read(tree.at("big")).unwrap(), b"soonlater");
    assert_eq!(fs::metadata(tree.at("big")).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn a_file_that_a_writer_has_finished_can_still_be_shared() {
    let tree = Tree::new();
    let (path, temp) = (rel("big"), temp_of(&rel("big")));
    let share = || tree.storage.create(&path, &temp, Create::Shared, Some(4));
    share().unwrap().finish(4, &meta(0o444, 1, 0)).unwrap();
    share().unwrap().write_at(0, b"late").unwrap();
    assert_eq!(committed(&tree.storage), b"late");
    assert!(
        fs::metadata(tree.at("big"))
            .unwrap()
            .permissions()
            .readonly()
    );
}

#[test]
fn sharing_neither_follows_nor_removes_what_is_not_ours() {
    let tree = Tree::new();
    let outside = tree.directory.path().join("outside");
    fs::write(&outside, "untouched").unwrap();
    let (path, temp) = (rel("big"), temp_of(&rel("big")));
    let raw = tree.at(&temp.to_string());
    let plants: [&dyn Fn(); 4] = [
        &|| symlink("../outside", &raw).unwrap(),
        &|| symlink("nowhere", &raw).unwrap(),
        &|| fs::hard_link(&outside, &raw).unwrap(),
        &|| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
            rustix::fs::mknodat(rustix::fs::CWD, &raw, kind, mode, 0).unwrap();
        },
    ];
    for (number, plant) in plants.iter().enumerate() {
        plant();
        let shared = tree.storage.create(&path, &temp, Create::Shared, Some(99));
        let error = shared.map(drop).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::TypeConflict, "{number}");
        assert!(fs::symlink_metadata(&raw).is_ok(), "{number}: it stays");
        fs::remove_file(&raw).unwrap();
    }
    assert_eq!(fs::read(&outside).unwrap(), b"untouched");
    assert!(!tree.at("nowhere").exists());
}
