//! Tests that all storages behave like a file system: the same calls return the same results, including
//! errors. Other tests check the results themselves.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{TAG, Tree, drain, meta, rel, temp_of};
use godwit_store::{Create, Kind, RelPath, Replace, ScanItem, Storage, StoreError};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
enum Call {
    Stat,
    ReadLink,
    Read,
    OpenTemp,
    MakeDirectory,
    MakeSymlink(u8, Replace),
    MakeLink(Replace),
    WriteSlices {
        how: Create,
        offset: u16,
        bytes: u16,
    },
    WriteWhole(u8),
    Commit(Replace),
    Sync,
    SyncDirectory,
    Discard,
    SetDirectory(u16),
    Scan,
    Names,
    Sweep,
}

const PATHS: [&str; 8] = ["", "a", "a-b", "a/x", "a/y", "a/x/z", "l", "l/m"];

fn call() -> impl Strategy<Value = Call> {
    let replace = prop_oneof![Just(Replace::Never), Just(Replace::Atomically)];
    let how = prop_oneof![
        Just(Create::Fresh),
        Just(Create::Resume),
        Just(Create::Shared)
    ];
    prop_oneof![
        1 => Just(Call::Stat),
        1 => Just(Call::ReadLink),
        2 => Just(Call::Read),
        1 => Just(Call::OpenTemp),
        3 => Just(Call::MakeDirectory),
        2 => (0..3_u8, replace.clone()).prop_map(|(target, replace)| Call::MakeSymlink(target, replace)),
        2 => replace.clone().prop_map(Call::MakeLink),
        2 => (how, 0..5000_u16, 0..5000_u16)
            .prop_map(|(how, offset, bytes)| Call::WriteSlices { how, offset, bytes }),
        2 => any::<u8>().prop_map(Call::WriteWhole),
        4 => replace.prop_map(Call::Commit),
        1 => Just(Call::Sync),
        1 => Just(Call::SyncDirectory),
        1 => Just(Call::Discard),
        1 => (0o700..=0o777_u16).prop_map(Call::SetDirectory),
        1 => Just(Call::Scan),
        1 => Just(Call::Names),
        1 => Just(Call::Sweep),
    ]
}

/// Makes a call and describes its result in words that are equal for all storages.
fn perform(storage: &dyn Storage, call: Call, path: &RelPath, other: &RelPath) -> String {
    let temp = temp_of(path);
    let result = match call {
        Call::Stat => storage
            .stat(path)
            .map(|found| format!("{:?}", found.map(|meta| (meta.kind, meta.links_of_file())))),
        Call::ReadLink => storage.read_link(path).map(|target| format!("{target:?}")),
        Call::Read => read(storage, path),
        Call::OpenTemp => storage
            .open_temp(path, &temp)
            .and_then(|file| Ok(format!("{}", file.meta()?.bytes))),
        Call::MakeDirectory => storage
            .make_directory(path, 0o700)
            .map(|made| made.to_string()),
        Call::MakeSymlink(target, replace) => storage
            .make_symlink(path, &[b't' + target], &meta(0o777, 7, 7), &temp, replace)
            .map(|_| String::new()),
        Call::MakeLink(replace) => storage
            .make_link(path, other, &temp, replace)
            .map(|_| String::new()),
        Call::WriteSlices { how, offset, bytes } => {
            write_slices(storage, path, how, (offset, bytes))
        }
        Call::WriteWhole(bytes) => storage
            .write_whole(
                path,
                &temp,
                &meta(0o640, 3, bytes.into()),
                &vec![bytes; bytes.into()],
            )
            .map(|_| String::new()),
        Call::Commit(replace) => storage.commit(path, &temp, replace).map(|_| String::new()),
        Call::Sync => storage
            .sync_batch(&[(path, temp)], 1)
            .map(|_| String::new()),
        Call::SyncDirectory => storage
            .sync_directories(std::slice::from_ref(path))
            .map(|_| String::new()),
        Call::Discard => storage.discard(path, &temp).map(|_| String::new()),
        Call::SetDirectory(mode) => storage
            .set_directory_meta(path, &meta(mode.into(), -5, 5))
            .map(|_| String::new()),
        Call::Scan => storage
            .scan(path)
            .map(|scan| format!("{:?}", summary(drain(scan)))),
        Call::Names => {
            let mut names = Vec::new();
            let listed = storage.names_in(path, &mut |name| names.push(name.to_vec()));
            names.sort();
            listed.map(|()| format!("{names:?}"))
        }
        Call::Sweep => storage
            .sweep(path, TAG, &|_| false)
            .map(|removed| removed.to_string()),
    };
    result.unwrap_or_else(|error| format!("{:?}", error.kind))
}

fn read(storage: &dyn Storage, path: &RelPath) -> Result<String, StoreError> {
    let mut buffer = vec![0; 20_000];
    let (meta, bytes) = storage.read_whole(path, &mut buffer)?;
    let file = storage.open(path)?;
    let mut again = vec![0; 20_000];
    assert_eq!(file.read_at(0, &mut again)?, bytes);
    assert_eq!(again[..bytes], buffer[..bytes]);
    Ok(format!(
        "{:o} {:?} {:?}",
        meta.mode,
        meta.mtime,
        &buffer[..bytes]
    ))
}

fn write_slices(
    storage: &dyn Storage,
    path: &RelPath,
    how: Create,
    slice: (u16, u16),
) -> Result<String, StoreError> {
    let (offset, bytes) = (u64::from(slice.0), u64::from(slice.1));
    let file = storage.create(path, &temp_of(path), how, Some(7000))?;
    let at_first = storage.open_temp(path, &temp_of(path))?.meta()?.bytes;
    file.preallocate(offset..offset + bytes)?;
    file.write_at(offset, &vec![1; slice.1.into()])?;
    file.finish(offset + bytes / 2, &meta(0o600, 4, slice.0.into()))?;
    Ok(at_first.to_string())
}

/// The results of a scan, in the order of paths.
fn summary(items: Vec<ScanItem>) -> Vec<String> {
    let mut lines: Vec<_> = items
        .into_iter()
        .map(|item| match item {
            ScanItem::Entry(entry) => {
                format!("{} {:?} {:?}", entry.path, entry.meta.kind, entry.target)
            }
            ScanItem::Link { entry, first } => format!("{} is {first}", entry.path),
            ScanItem::Fault(error) => error.to_string(),
        })
        .collect();
    lines.sort();
    lines
}

trait LinksOfFile {
    fn links_of_file(&self) -> Option<u64>;
}

impl LinksOfFile for godwit_store::Meta {
    /// The link count of a file. For directories the count differs between file systems.
    fn links_of_file(&self) -> Option<u64> {
        (self.kind == Kind::File).then_some(self.links)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_calls_give_the_same_results(
        calls in proptest::collection::vec((call(), 0..PATHS.len(), 0..PATHS.len()), 1..60),
    ) {
        let tree = Tree::new();
        let memory = MemoryStorage::new();
        let wrapped = HostileStorage::new(Arc::new(MemoryStorage::new()), Faults::new(1));
        let cached = Faults { writer_cache: true, ..Faults::new(1) };
        let cached = HostileStorage::new(Arc::new(MemoryStorage::new()), cached);
        for (call, path, other) in calls {
            // Replacing the root is invalid, and systems report different errors for it.
            let about_root = PATHS[path].is_empty();
            let meaningful = matches!(call, Call::Stat | Call::MakeDirectory | Call::SyncDirectory | Call::SetDirectory(_) | Call::Scan | Call::Names | Call::Sweep);
            if about_root && !meaningful {
                continue;
            }
            let (path, other) = (rel(PATHS[path]), rel(PATHS[other]));
            let on_disk = perform(&tree.storage, call, &path, &other);
            let others: [&dyn Storage; 3] = [&memory, &wrapped, &cached];
            for (number, storage) in others.into_iter().enumerate() {
                let result = perform(storage, call, &path, &other);
                prop_assert_eq!(&on_disk, &result, "{} {:?} {} {}", number, call, path, other);
            }
        }
    }
}
