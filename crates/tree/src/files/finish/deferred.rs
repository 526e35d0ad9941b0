//! Names that cannot be given before the end, because a directory that is to be deleted has them still.
//! Deletes nothing (`delete`) and gives none of the names (`finisher`).

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::{EntryId, Record};
use godwit_store::RelPath;
use godwit_store::seen::SeenSet;

use crate::files::finish::spill_list::{SpillList, decode_directory};
use crate::files::target::Target;

/// Entries whose names wait.
pub(crate) struct Deferred {
    /// Files that are wanted and not yet whole.
    files: Mutex<HashSet<EntryId>>,
    records: Mutex<SpillList>,
    /// The directories that have to go first, in a dry run too.
    in_the_way: Mutex<SeenSet>,
}

/// An entry that waits, but for its path.
pub(crate) struct Waiting {
    pub(crate) id: EntryId,
    pub(crate) root: u16,
    /// Its content that is counted as durable, in bytes.
    pub(crate) counted: u64,
}

/// First byte of an item: `FILE` for a file that exists under its temporary name; `RECORD` for any other entry, whose record follows.
const FILE: u8 = 0;
const RECORD: u8 = 1;

impl Deferred {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            files: Mutex::default(),
            records: Mutex::new(SpillList::new(directory)),
            in_the_way: Mutex::new(SeenSet::new(directory)),
        }
    }

    /// Something else is to have the name of the directory at `path`.
    pub(crate) fn expect_way(&self, path: &RelPath) -> io::Result<()> {
        lock(&self.in_the_way).insert(path.as_bytes()).map(|_| ())
    }

    /// Whether the directory at `path` has to go for something else.
    pub(crate) fn waits_for(&self, path: &RelPath) -> io::Result<bool> {
        lock(&self.in_the_way).contains(path.as_bytes())
    }

    /// This file will have to wait.
    pub(crate) fn expect(&self, id: EntryId) {
        lock(&self.files).insert(id);
    }

    /// Whether this file will have to wait.
    pub(crate) fn expects(&self, id: EntryId) -> bool {
        lock(&self.files).contains(&id)
    }

    /// A whole file is about to get its name: `true` if it waits instead.
    /// `counted` bytes of it are counted as durable.
    pub(crate) fn take(
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
        lock(&self.records).push(&item)?;
        Ok(true)
    }

    /// Calls `each` with every entry that waits, in the order in which they were noted.
    pub(crate) fn forward(
        &self,
        target: &Target,
        mut each: impl FnMut(&Waiting, &RelPath, Option<&Record>),
    ) -> io::Result<()> {
        lock(&self.records).forward(|item| {
            if let Some((waiting, path, record)) = Waiting::decode(target, item) {
                each(&waiting, &path, record.as_ref());
            }
        })
    }

    /// Defers an entry without contents: only its record.
    pub(crate) fn push_record(&self, record: &[u8]) -> io::Result<()> {
        let mut item = vec![RECORD];
        item.extend_from_slice(record);
        lock(&self.records).push(&item)
    }
}

impl Waiting {
    /// The entry, the path that it waits for, and its record if it is no file.
    fn decode(target: &Target, item: &[u8]) -> Option<(Self, RelPath, Option<Record>)> {
        let (kind, rest) = item.split_first()?;
        if *kind == RECORD {
            let record = decode_directory(rest)?;
            let path = target.mapped(record.root, &record.path).ok()?;
            let waiting = Self {
                id: record.id,
                root: record.root,
                counted: 0,
            };
            return Some((waiting, path, Some(record)));
        }
        let (id, rest) = rest.split_first_chunk()?;
        let (root, rest) = rest.split_first_chunk()?;
        let (counted, path) = rest.split_first_chunk()?;
        let waiting = Self {
            id: EntryId(u64::from_le_bytes(*id)),
            root: u16::from_le_bytes(*root),
            counted: u64::from_le_bytes(*counted),
        };
        Some((waiting, RelPath::parse(path).ok()?, None))
    }
}
