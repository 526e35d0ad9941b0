//! Offers parts of files, and files that are assembled from parts, as a controller has divided them. Does not divide or read files.
//!
//! Each item becomes exactly one record, in order, even if its file cannot be read: reading the file reports the error. Therefore a
//! listener knows the items by the order of their numbers.

use std::collections::VecDeque;
use std::time::Duration;

use godwit_engine::names::{Names, Supply};
use godwit_engine::{Offers, entry};
use godwit_proto::{EntryKind, Generation, Part, Portion, Record, WireError, parts};
use godwit_store::{Kind, RelPath};

use crate::files::read::list::{ListWork, bare};

/// A part of a file to send, or a file to assemble from parts.
#[derive(Clone, Debug)]
pub struct WorkItem {
    /// Path below the source.
    path: Vec<u8>,
    /// Generation of the file when it was divided. If the file has another generation, the item fails.
    generation: u64,
    /// Minimum size of the file.
    reach: u64,
    extension: Vec<u8>,
    assembles: bool,
}

impl WorkItem {
    /// The item of this portion of the file at `path` below the source.
    ///
    /// # Errors
    /// The portion cannot be encoded.
    pub fn new(path: Vec<u8>, generation: u64, portion: &Portion) -> Result<Self, WireError> {
        let mut extension = Vec::new();
        let reach = match portion {
            Portion::Whole => 0,
            Portion::Part(part) => {
                part.push(&mut extension)?;
                part.end()
            }
            Portion::Assemble(ranges) => {
                parts::push_held_elsewhere(ranges, &mut extension)?;
                ranges
                    .last()
                    .map_or(0, |range| range.offset.saturating_add(range.bytes))
            }
        };
        Ok(Self {
            path,
            generation,
            reach,
            extension,
            assembles: matches!(portion, Portion::Assemble(_)),
        })
    }

    /// The range of the item, if it is a part.
    pub fn part(&self) -> Option<Part> {
        Part::find(&self.extension).ok().flatten()
    }

    /// A record of a file of which nothing else is known; reading the file reports the reason.
    fn unseen(&self) -> Record {
        Record {
            kind: EntryKind::FILE,
            generation: Generation(self.generation),
            bytes: self.reach,
            path: self.path.clone(),
            ..Record::default()
        }
    }
}

/// A list without names, for a job that only has items.
pub struct NoNames;

impl Names for NoNames {
    fn next(&mut self, _out: &mut Vec<u8>, _wait: Duration) -> Supply {
        Supply::End
    }
}

impl ListWork {
    /// Offers these items before the names of the list.
    #[must_use]
    pub fn with_items(mut self, items: Vec<WorkItem>) -> Self {
        self.portions = VecDeque::from(items);
        self
    }

    /// Offers a batch of items; false if there are none.
    pub(crate) fn give_items(&mut self, out: &mut Offers) -> bool {
        if self.portions.is_empty() {
            return false;
        }
        while !self.filled.is_full(out)
            && let Some(item) = self.portions.pop_front()
        {
            // The reader of the file reports parents that cannot be offered.
            if let Ok(false) = self.offer_parents(&item.path, out) {
                self.portions.push_front(item);
                break;
            }
            let mut record = self.seen_now(&item).unwrap_or_else(|| item.unseen());
            record.extensions.extend_from_slice(&item.extension);
            out.entries.push(record);
        }
        true
    }

    /// The record of the item's file in its present state, if the file is unchanged since it was divided.
    fn seen_now(&self, item: &WorkItem) -> Option<Record> {
        RelPath::parse(&item.path).ok()?;
        let (path, meta) = self.look(&item.path).ok().flatten()?;
        if meta.kind != Kind::File
            || meta.generation() != item.generation
            || meta.bytes < item.reach
        {
            return None;
        }
        let mut record = entry::record(0, &meta, Vec::new());
        record.path.clone_from(&item.path);
        if item.assembles {
            let found = bare(&path, meta);
            let (extended, _) = self.offering.extended(&self.root, &found).ok()?;
            let (extensions, lost) = self.offering.keeper.extensions(&meta, &extended);
            self.offering.selecting.counters.count_lost(lost);
            record.extensions = extensions;
        }
        Some(record)
    }
}
