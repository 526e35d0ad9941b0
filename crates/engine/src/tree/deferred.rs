//! Names that cannot be given before the end, because a directory that is to be deleted has them still.
//! Deletes nothing (`delete`).

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use godwit_proto::{EntryId, Fault, FaultCode, Record, Seq, Side};
use godwit_store::seen::SeenSet;
use godwit_store::{RelPath, Replace, StoreError, TempName};

use super::delete::Deletion;
use super::delete::below;
use super::later::{Later, decode_directory};
use super::plan::unreadable;
use super::sink::{TreeSink, destination_fault};
use super::undelivered::Undelivered;
use crate::{entry, lock};

/// Entries whose names wait.
pub(super) struct Deferred {
    /// Files that are wanted and not yet whole.
    files: Mutex<HashSet<EntryId>>,
    later: Mutex<Later>,
    /// The directories that have to go first, in a dry run too.
    in_the_way: Mutex<SeenSet>,
}

/// An entry that waits, but for its path.
struct Waiting {
    id: EntryId,
    root: u16,
    /// Its content that is counted as durable, in bytes.
    counted: u64,
}

/// What comes first in an item: a file is there under its temporary name, of anything else the record follows.
const FILE: u8 = 0;
const RECORD: u8 = 1;

impl Deferred {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            files: Mutex::default(),
            later: Mutex::new(Later::new(directory)),
            in_the_way: Mutex::new(SeenSet::new(directory)),
        }
    }

    /// Something else is to have the name of the directory at `path`.
    pub(super) fn expect_way(&self, path: &RelPath) -> io::Result<()> {
        lock(&self.in_the_way).insert(path.as_bytes()).map(|_| ())
    }

    /// Whether the directory at `path` has to go for something else.
    pub(super) fn waits_for(&self, path: &RelPath) -> io::Result<bool> {
        lock(&self.in_the_way).contains(path.as_bytes())
    }

    /// This file will have to wait.
    pub(super) fn expect(&self, id: EntryId) {
        lock(&self.files).insert(id);
    }

    /// Whether this file will have to wait.
    pub(super) fn expects(&self, id: EntryId) -> bool {
        lock(&self.files).contains(&id)
    }

    /// A whole file is about to get its name: `true` if it waits instead.
    /// `counted` bytes of it are counted as durable.
    pub(super) fn take(
        &self,
        id: EntryId,
        root: u16,
        path: &RelPath,
        counted: u64,
    ) -> io::Result<bool> {
        if !lock(&self.files).remove(&id) {
            return Ok(false);
        }
        let mut item = vec![FILE];
        item.extend(id.0.to_le_bytes());
        item.extend(root.to_le_bytes());
        item.extend(counted.to_le_bytes());
        item.extend_from_slice(path.as_bytes());
        lock(&self.later).push(&item)?;
        Ok(true)
    }

    /// What needs no contents waits: a record by itself.
    pub(super) fn push_record(&self, record: &[u8]) -> io::Result<()> {
        let mut item = vec![RECORD];
        item.extend_from_slice(record);
        lock(&self.later).push(&item)
    }
}

impl TreeSink {
    /// Gives the names that waited, now that the directories are gone, or gives up. Returns what prevents all of them.
    pub(super) fn name_deferred(&self, deletion: Deletion) -> Option<String> {
        let result = lock(&self.deferred.later).forward(|item| {
            let Some((waiting, path, record)) = self.decode(item) else {
                return;
            };
            let temp = TempName::new(self.config.tag, &path);
            let storage = &self.config.storage;
            let fault = |error: StoreError| entry::fault(waiting.id, Side::DESTINATION, &error);
            let named = if deletion == Deletion::Refused {
                Err(destination_fault(
                    waiting.id,
                    FaultCode::TYPE_CONFLICT,
                    format!("{path}: a directory is in its place, and nothing is deleted"),
                ))
            } else {
                match &record {
                    Some(record) => self.make_at_once(record, &path, Replace::Never),
                    None => storage.commit(&path, &temp, Replace::Never).map_err(fault),
                }
                .and_then(|()| self.sync_parent(&path).map_err(fault))
            };
            match named {
                Ok(()) => self.counters.files_done.add(1),
                Err(fault) => self.give_up_deferred(&waiting, &path, &temp, fault),
            }
        });
        result.err().map(unreadable)
    }

    fn sync_parent(&self, path: &RelPath) -> Result<(), StoreError> {
        if self.config.no_sync {
            return Ok(());
        }
        let parent = path.parent().unwrap_or_default();
        self.config.storage.sync_directories(&[parent])
    }

    fn give_up_deferred(&self, waiting: &Waiting, path: &RelPath, temp: &TempName, fault: Fault) {
        self.counters.bytes_durable.take_back(waiting.counted);
        // What cannot be removed now is swept by the next complete run.
        let _ = self.config.storage.discard(path, temp);
        let root = waiting.root;
        let base = self.config.mapping.get(usize::from(root)).cloned();
        let base = base.unwrap_or_default();
        let below = below(&base, path);
        self.undelivered.note(root, below, Undelivered::Failed);
        self.acks
            .fault(Seq(0), fault, root, below, &self.shown(path));
    }

    fn decode(&self, item: &[u8]) -> Option<(Waiting, RelPath, Option<Record>)> {
        let (kind, rest) = item.split_first()?;
        if *kind == RECORD {
            let record = decode_directory(rest)?;
            let path = self.mapped(record.root, &record.path).ok()?;
            let waiting = Waiting {
                id: record.id,
                root: record.root,
                counted: 0,
            };
            return Some((waiting, path, Some(record)));
        }
        let (id, rest) = rest.split_first_chunk()?;
        let (root, rest) = rest.split_first_chunk()?;
        let (counted, path) = rest.split_first_chunk()?;
        let waiting = Waiting {
            id: EntryId(u64::from_le_bytes(*id)),
            root: u16::from_le_bytes(*root),
            counted: u64::from_le_bytes(*counted),
        };
        Some((waiting, RelPath::parse(path).ok()?, None))
    }
}
