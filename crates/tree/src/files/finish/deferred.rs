//! Holds names that must wait for the end, because directories that will be deleted still have them. Deletes nothing (`delete`) and
//! assigns no names (`finisher`).

use std::io;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::{EntryId, Record};
use godwit_store::RelPath;
use godwit_store::seen::SeenSet;
use godwit_store::spill::{SpillList, SpillRoom};

use crate::files::finish::spill_list::{DIRECTORY_OWN_BYTES, decode_directory};
use crate::files::plan::awaited::Awaited;
use crate::files::target::Target;

/// Entries whose names are deferred.
pub(crate) struct Deferred {
    /// Files that are requested and not complete yet.
    pub(crate) files: Awaited,
    records: Mutex<SpillList>,
    /// The directories that must be removed first, in a dry run too.
    in_the_way: Mutex<SeenSet>,
}

/// A deferred entry, without its path.
pub(crate) struct Waiting {
    pub(crate) id: EntryId,
    pub(crate) root: u16,
    /// The content of the entry that counted as durable, in bytes.
    pub(crate) counted: u64,
}

/// First byte of an item: `FILE` for a file that exists under its temporary name, `RECORD` for any other entry, whose record follows.
const FILE: u8 = 0;
const RECORD: u8 = 1;

impl Deferred {
    pub(crate) fn new(room: &SpillRoom, files_max: usize) -> Self {
        Self {
            files: Awaited::new(files_max),
            records: Mutex::new(SpillList::new(room, 1 + DIRECTORY_OWN_BYTES)),
            in_the_way: Mutex::new(SeenSet::new(room)),
        }
    }

    /// Records that another entry will get the name of the directory at `path`.
    pub(crate) fn expect_way(&self, path: &RelPath) -> io::Result<()> {
        lock(&self.in_the_way).insert(path.as_bytes()).map(|_| ())
    }

    /// Whether the directory at `path` must be removed for another entry.
    pub(crate) fn waits_for(&self, path: &RelPath) -> io::Result<bool> {
        lock(&self.in_the_way).contains(path.as_bytes())
    }

    /// Called when a complete file is about to get its name: `true` if the name is deferred. `counted` is its content counted as
    /// durable, in bytes.
    pub(crate) fn take(
        &self,
        id: EntryId,
        root: u16,
        path: &RelPath,
        counted: u64,
    ) -> io::Result<bool> {
        if !self.files.take(id) {
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

    /// Calls `each` with every deferred entry, in the order in which they were added.
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

    /// Defers an entry without contents; stores only its record.
    pub(crate) fn push_record(&self, record: &[u8]) -> io::Result<()> {
        let mut item = vec![RECORD];
        item.extend_from_slice(record);
        lock(&self.records).push(&item)
    }
}

impl Waiting {
    /// The entry, the path that it waits for, and its record if it is not a file.
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
