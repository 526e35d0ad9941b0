//! Owns the index of the buffer: which generations of which files have extents, and where. Knows nothing about states of extents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::extent::{FileKey, Generation, Keep, Place, SourceId};

/// Names a file within the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileNumber(u32);

impl FileNumber {
    pub(super) fn raw(self) -> u32 {
        self.0
    }
}

/// One generation of one file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) key: Arc<FileKey>,
    pub(super) keep: Keep,
    /// Another generation is known to be the present one.
    pub(super) is_superseded: bool,
    /// The extents that can be found, by offset.
    pub(super) extents: BTreeMap<u64, Place>,
    /// Slots that name this file, found or not.
    slots: u32,
}

/// All files with extents.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: Vec<Option<File>>,
    unused: Vec<u32>,
    by_key: BTreeMap<Arc<FileKey>, FileNumber>,
    ends: BTreeSet<(Duration, FileNumber)>,
}

impl Files {
    pub(super) fn get(&self, number: FileNumber) -> Option<&File> {
        self.files.get(number.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: FileNumber) -> Option<&mut File> {
        self.files.get_mut(number.0 as usize)?.as_mut()
    }

    pub(super) fn find(&self, key: &FileKey) -> Option<FileNumber> {
        self.by_key.get(key).copied()
    }

    /// The number of a file, which gets one if it has none. One more slot names the file.
    pub(super) fn hold(&mut self, key: &Arc<FileKey>) -> FileNumber {
        let number = self.find(key).unwrap_or_else(|| self.add(key));
        if let Some(file) = self.get_mut(number) {
            file.slots += 1;
        }
        number
    }

    fn add(&mut self, key: &Arc<FileKey>) -> FileNumber {
        let file = File {
            key: Arc::clone(key),
            keep: Keep::No,
            is_superseded: false,
            extents: BTreeMap::new(),
            slots: 0,
        };
        let number = if let Some(unused) = self.unused.pop() {
            self.files[unused as usize] = Some(file);
            FileNumber(unused)
        } else {
            self.files.push(Some(file));
            // There are fewer files than slots.
            FileNumber(u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX))
        };
        self.by_key.insert(Arc::clone(key), number);
        number
    }

    /// One slot less names the file. It can no longer be found at `place`.
    pub(super) fn let_go(&mut self, number: FileNumber, offset: u64, place: Place) {
        self.hide(number, offset, place);
        let Some(file) = self.get_mut(number) else {
            return;
        };
        file.slots -= 1;
        if file.slots == 0 {
            self.set_keep(number, Keep::No);
            if let Some(file) = self.files[number.0 as usize].take() {
                self.by_key.remove(&file.key);
                self.unused.push(number.0);
            }
        }
    }

    /// The file can no longer be found at `place`.
    pub(super) fn hide(&mut self, number: FileNumber, offset: u64, place: Place) {
        if let Some(file) = self.get_mut(number)
            && file.extents.get(&offset) == Some(&place)
        {
            file.extents.remove(&offset);
        }
    }

    /// All known generations of a file.
    pub(super) fn generations(&self, source: SourceId, path: &[u8]) -> Vec<FileNumber> {
        let bound = |bytes, stamp| FileKey {
            source,
            path: path.to_vec(),
            generation: Generation { bytes, stamp },
        };
        let range = bound(0, 0)..=bound(u64::MAX, u64::MAX);
        self.by_key
            .range(range)
            .map(|(_, number)| *number)
            .collect()
    }

    /// Sets how long the file stays. Returns whether that changed.
    pub(super) fn set_keep(&mut self, number: FileNumber, keep: Keep) -> bool {
        let Some(file) = self.get_mut(number) else {
            return false;
        };
        let before = std::mem::replace(&mut file.keep, keep);
        if let Keep::Until(end) = before {
            self.ends.remove(&(end, number));
        }
        if let Keep::Until(end) = keep {
            self.ends.insert((end, number));
        }
        before != keep
    }

    /// A file that need not stay any longer.
    pub(super) fn ended(&self, now: Duration) -> Option<FileNumber> {
        let (end, number) = *self.ends.first()?;
        (end <= now).then_some(number)
    }

    /// When the next file need not stay any longer.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The files in the order of their keys, from one on.
    pub(super) fn from(&self, from: Bound<&FileKey>) -> impl Iterator<Item = &File> {
        let numbers = self.by_key.range::<FileKey, _>((from, Bound::Unbounded));
        numbers.filter_map(|(_, number)| self.get(*number))
    }

    /// All files.
    pub(super) fn iter(&self) -> impl Iterator<Item = &File> {
        self.files.iter().flatten()
    }
}
