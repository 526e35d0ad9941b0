//! Owns the shared parts of the tests of the file system storage: a root, a spill directory, short functions for common
//! steps. Tests nothing itself.

#![allow(dead_code, reason = "each test binary uses its own part")]

use godwit_store::{
    Confine, FinalMeta, FsOptions, FsStorage, RelPath, Replace, Scan, ScanEntry, ScanItem, Storage,
    TempName, Timestamp,
};
use std::path::PathBuf;

/// The tag of all temporary names in these tests.
pub(crate) const TAG: u64 = 0x0123_4567_89ab_cdef;

/// A storage in its own directory, which is removed at the end.
pub(crate) struct Tree {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) storage: FsStorage,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut FsOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("root")).unwrap();
        let mut options = FsOptions::new(Confine::Export);
        change(&mut options);
        let storage =
            FsStorage::open_with(&directory.path().join("root"), directory.path(), options)
                .unwrap();
        Self { directory, storage }
    }

    /// The path of `path` outside of the storage.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join("root").join(path)
    }

    /// Writes, syncs and commits a small file.
    pub(crate) fn put(&self, path: &str, content: &[u8], meta: &FinalMeta) {
        let path = rel(path);
        let temp = TempName::new(TAG, &path);
        self.storage
            .write_whole(&path, &temp, meta, content)
            .unwrap();
        self.storage
            .sync_batch(&[(&path, temp)], content.len() as u64)
            .unwrap();
        self.storage.commit(&path, &temp, Replace::Never).unwrap();
    }

    /// Everything that a scan from `start` returns.
    pub(crate) fn scan(&self, start: &str) -> Vec<ScanItem> {
        drain(self.storage.scan(&rel(start)).unwrap())
    }

    /// The paths of all entries and additional names that a scan returns, in order.
    pub(crate) fn scan_paths(&self, start: &str) -> Vec<String> {
        self.scan(start)
            .iter()
            .map(|item| entry_of(item).path.to_string())
            .collect()
    }
}

/// Everything that a scan returns; the memory of earlier paths is reused.
pub(crate) fn drain(mut scan: Box<dyn Scan>) -> Vec<ScanItem> {
    let mut items = Vec::new();
    loop {
        scan.reuse(&mut vec![b"used/before".to_vec(); 700]);
        if !scan.next_batch(&mut items) {
            return items;
        }
    }
}

pub(crate) fn entry_of(item: &ScanItem) -> &ScanEntry {
    match item {
        ScanItem::Entry(entry) | ScanItem::Link { entry, .. } => entry,
        ScanItem::Fault(error) => panic!("{error}"),
    }
}

pub(crate) fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

pub(crate) fn temp_of(path: &RelPath) -> TempName {
    TempName::new(TAG, path)
}

pub(crate) fn meta(mode: u32, seconds: i64, nanoseconds: u32) -> FinalMeta {
    FinalMeta {
        mode,
        mtime: Timestamp {
            seconds,
            nanoseconds,
        },
        ..FinalMeta::default()
    }
}

/// Whether permissions do not restrict this process.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
