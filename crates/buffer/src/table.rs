//! Owns what a log says at its end: the content of each slot, and the files that the slots name. Reads and writes no log.
//! The log may be forged. So the memory depends on the records that the log really has, never on a number in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::extent::{Content, FileKey, Generation, Keep, Record, Recovered, SlotIndex, SourceId};
use crate::frame::{Entry, Held};
use crate::superblock::millis;

#[derive(Clone, Debug)]
struct Named {
    key: Arc<FileKey>,
    keep: Keep,
    slots: u32,
    /// Where the file goes, if it has arrived and is not at slow storage yet.
    what: Option<Arc<[u8]>>,
}

/// The state of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    count: u32,
    slots: BTreeMap<u32, Held>,
    files: BTreeMap<u32, Named>,
    numbers: HashMap<Arc<FileKey>, u32>,
    unused: Unused,
}

impl Table {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            count: slots,
            slots: BTreeMap::new(),
            files: BTreeMap::new(),
            numbers: HashMap::new(),
            unused: Unused::default(),
        }
    }

    /// Applies an entry of the log. Returns whether it makes sense; a log that does not is damaged.
    pub(crate) fn apply(&mut self, entry: &Entry) -> bool {
        match entry {
            Entry::File { number, key, keep } => self.name(*number, key, *keep),
            Entry::Holds { slot, held } => {
                let is_known = self.named(held.file).is_some();
                let is_slot = slot.0 < self.count;
                if is_known && is_slot {
                    // The file may be the one that the slot names already.
                    if let Some(named) = self.named_mut(held.file) {
                        named.slots += 1;
                    }
                    self.clear(*slot);
                    self.slots.insert(slot.0, *held);
                }
                is_known && is_slot
            }
            Entry::Clean(slot) => match self.slots.get_mut(&slot.0) {
                Some(held) => {
                    held.is_dirty = false;
                    true
                }
                None => false,
            },
            Entry::Free(slot) => {
                self.clear(*slot);
                slot.0 < self.count
            }
            Entry::Arrived { number, what } => match self.named_mut(*number) {
                Some(named) => {
                    named.what = (!what.is_empty()).then(|| Arc::clone(what));
                    true
                }
                None => false,
            },
            Entry::Placed {
                number,
                source,
                stamp,
            } => self.place(*number, *source, *stamp),
        }
    }

    /// The file has another key from now on, unless another file has that key.
    fn place(&mut self, number: u32, source: SourceId, stamp: u64) -> bool {
        let Some(named) = self.files.get_mut(&number) else {
            return false;
        };
        let key = Arc::new(FileKey {
            source,
            path: named.key.path.clone(),
            generation: Generation {
                bytes: named.key.generation.bytes,
                stamp,
            },
        });
        if self.numbers.contains_key(&key) {
            return false;
        }
        self.numbers.remove(&named.key);
        self.numbers.insert(Arc::clone(&key), number);
        named.key = key;
        named.what = None;
        true
    }

    fn name(&mut self, number: u32, key: &Arc<FileKey>, keep: Keep) -> bool {
        let keep = logged(keep);
        // There are no more files than slots, except those that are about to get their first slot.
        if u64::from(number) > u64::from(self.count) * 2 {
            return false;
        }
        self.unused.take(number);
        match self.files.get_mut(&number) {
            Some(named) if named.key == *key => named.keep = keep,
            Some(named) if named.slots > 0 => return false,
            _ => {
                let named = Named {
                    key: Arc::clone(key),
                    keep,
                    slots: 0,
                    what: None,
                };
                self.files.insert(number, named);
                self.numbers.insert(Arc::clone(key), number);
            }
        }
        true
    }

    fn named(&self, number: u32) -> Option<&Named> {
        self.files.get(&number)
    }

    fn named_mut(&mut self, number: u32) -> Option<&mut Named> {
        self.files.get_mut(&number)
    }

    fn clear(&mut self, slot: SlotIndex) {
        let Some(held) = self.slots.remove(&slot.0) else {
            return;
        };
        let Some(named) = self.named_mut(held.file) else {
            return;
        };
        named.slots -= 1;
        if named.slots == 0 {
            if let Some(named) = self.files.remove(&held.file) {
                self.numbers.remove(&named.key);
            }
            self.unused.give(held.file);
        }
    }

    /// Applies a change, and returns the entries that record it.
    pub(crate) fn change(&mut self, record: &Record) -> Vec<Entry> {
        let mut entries = Vec::new();
        match record {
            Record::Holds {
                slot,
                content,
                is_dirty,
                since,
                keep,
            } => {
                let known = self.numbers.get(&content.file).copied();
                let kept = known
                    .and_then(|number| self.named(number))
                    .map(|one| one.keep);
                let number = known.unwrap_or_else(|| self.unused.first());
                if kept != Some(logged(*keep)) {
                    entries.push(Entry::File {
                        number,
                        key: Arc::clone(&content.file),
                        keep: *keep,
                    });
                }
                entries.push(Entry::Holds {
                    slot: *slot,
                    held: Held {
                        file: number,
                        offset: content.offset,
                        bytes: content.bytes,
                        is_dirty: *is_dirty,
                        digest: content.digest,
                        since: whole(*since),
                    },
                });
            }
            Record::Clean(slot) => entries.push(Entry::Clean(*slot)),
            Record::Free(slot) => entries.push(Entry::Free(*slot)),
            Record::Keep(file, keep) => {
                if let Some(number) = self.numbers.get(file) {
                    entries.push(Entry::File {
                        number: *number,
                        key: Arc::clone(file),
                        keep: *keep,
                    });
                }
            }
            Record::Arrived(file, what) => {
                if let Some(number) = self.numbers.get(file) {
                    entries.push(Entry::Arrived {
                        number: *number,
                        what: Arc::clone(what),
                    });
                }
            }
            Record::Placed(file, to) => {
                if let Some(number) = self.numbers.get(file) {
                    entries.push(Entry::Placed {
                        number: *number,
                        source: to.source,
                        stamp: to.generation.stamp,
                    });
                }
            }
        }
        entries.retain(|entry| self.apply(entry));
        entries
    }

    /// The entries of a checkpoint, all files first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let files = self.files.iter().map(|(number, named)| Entry::File {
            number: *number,
            key: Arc::clone(&named.key),
            keep: named.keep,
        });
        let slots = self.slots.iter().map(|(slot, held)| Entry::Holds {
            slot: SlotIndex(*slot),
            held: *held,
        });
        let arrived = self.files.iter().filter_map(|(number, named)| {
            Some(Entry::Arrived {
                number: *number,
                what: Arc::clone(named.what.as_ref()?),
            })
        });
        files.chain(arrived).chain(slots)
    }

    /// The files that have arrived, and where each goes.
    pub(crate) fn arrived(&self) -> Vec<(Arc<FileKey>, Arc<[u8]>)> {
        let named = self.files.values().filter_map(|named| {
            let what = named.what.as_ref()?;
            Some((Arc::clone(&named.key), Arc::clone(what)))
        });
        named.collect()
    }

    /// All extents.
    pub(crate) fn extents(&self) -> Vec<Recovered> {
        let extents = self.slots.iter().filter_map(|(slot, held)| {
            let named = self.named(held.file)?;
            Some(Recovered {
                slot: SlotIndex(*slot),
                content: Content {
                    file: Arc::clone(&named.key),
                    offset: held.offset,
                    bytes: held.bytes,
                    digest: held.digest,
                },
                is_dirty: held.is_dirty,
                since: held.since,
                keep: named.keep,
            })
        });
        extents.collect()
    }
}

/// A time in whole milliseconds, as in the log. A checkpoint is compared with the table after it was written.
fn whole(time: Duration) -> Duration {
    Duration::from_millis(millis(time))
}

fn logged(keep: Keep) -> Keep {
    match keep {
        Keep::Until(until) => Keep::Until(whole(until)),
        keep => keep,
    }
}

/// The numbers that no file has: ranges below `next`, and all from `next` on.
#[derive(Clone, Debug, Default)]
struct Unused {
    /// The end of each range by its beginning.
    ranges: BTreeMap<u32, u32>,
    next: u32,
}

impl Unused {
    /// The lowest number.
    fn first(&self) -> u32 {
        let first = self.ranges.first_key_value();
        first.map_or(self.next, |(number, _)| *number)
    }

    fn take(&mut self, number: u32) {
        if number >= self.next {
            self.insert(self.next, number);
            self.next = number.saturating_add(1);
            return;
        }
        let found = self.ranges.range(..=number).next_back();
        if let Some((&from, &to)) = found.filter(|(_, to)| number < **to) {
            self.ranges.remove(&from);
            self.insert(from, number);
            self.insert(number + 1, to);
        }
    }

    fn give(&mut self, number: u32) {
        self.insert(number, number.saturating_add(1));
    }

    fn insert(&mut self, from: u32, to: u32) {
        if from < to {
            self.ranges.insert(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_store::digest::DigestKind;

    fn holds(slot: u32, path: &str) -> Record {
        let file = Arc::new(FileKey {
            source: SourceId([0; 16]),
            path: path.into(),
            generation: Generation { bytes: 4, stamp: 0 },
        });
        Record::Holds {
            slot: SlotIndex(slot),
            content: Content::of(&file, 0, b"data", DigestKind::Crc64Nvme),
            is_dirty: true,
            since: Duration::from_millis(5),
            keep: Keep::No,
        }
    }

    #[test]
    fn a_file_that_was_pinned_before_its_first_extent_is_pinned_in_the_log() {
        let pinned = |slot| match holds(slot, "a") {
            Record::Holds {
                slot,
                content,
                is_dirty,
                since,
                ..
            } => Record::Holds {
                slot,
                content,
                is_dirty,
                since,
                keep: Keep::Pinned,
            },
            other => other,
        };
        let keeps = |table: &Table| {
            let extents = table.extents().into_iter();
            extents.map(|extent| extent.keep).collect::<Vec<_>>()
        };
        let mut table = Table::new(8);
        let mut log = table.change(&pinned(0));
        assert_eq!(keeps(&table), [Keep::Pinned]);
        // The same file before and after a user unpins it.
        log.extend(table.change(&holds(1, "a")));
        assert_eq!(keeps(&table), [Keep::No; 2]);
        log.extend(table.change(&pinned(2)));
        let mut replayed = Table::new(8);
        assert!(log.iter().all(|entry| replayed.apply(entry)));
        assert_eq!(keeps(&replayed), [Keep::Pinned; 3]);
    }

    #[test]
    fn a_replay_of_all_entries_gives_the_same_table() {
        let mut table = Table::new(8);
        let mut log = Vec::new();
        let records = [
            holds(0, "a"),
            holds(1, "a"),
            holds(2, "b"),
            Record::Free(SlotIndex(0)),
            Record::Clean(SlotIndex(1)),
            Record::Free(SlotIndex(1)),
            holds(3, "c"),
            holds(3, "c"),
            holds(4, "a"),
            Record::Free(SlotIndex(7)),
        ];
        for record in &records {
            log.extend(table.change(record));
        }
        let mut replayed = Table::new(8);
        assert!(log.iter().all(|entry| replayed.apply(entry)));
        assert_eq!(replayed.extents(), table.extents());
        let mut checkpoint = Table::new(8);
        assert!(table.entries().all(|entry| checkpoint.apply(&entry)));
        assert_eq!(checkpoint.extents(), table.extents());
        assert_eq!(table.extents().len(), 3);
        assert!(table.files.len() <= 3, "numbers are used again");
    }

    #[test]
    fn a_file_that_arrived_is_known_until_it_is_placed() {
        let key_of = |record: &Record| match record {
            Record::Holds { content, .. } => Arc::clone(&content.file),
            other => panic!("{other:?}"),
        };
        let mut table = Table::new(8);
        let mut log = Vec::new();
        let records = [holds(0, "a"), holds(1, "b"), holds(2, "c")];
        let keys: Vec<Arc<FileKey>> = records.iter().map(key_of).collect();
        for record in &records {
            log.extend(table.change(record));
        }
        for key in &keys {
            log.extend(table.change(&Record::Arrived(Arc::clone(key), [1, 2].into())));
        }
        assert_eq!(table.arrived().len(), 3);
        let to = Arc::new(FileKey {
            source: SourceId([9; 16]),
            generation: Generation { bytes: 4, stamp: 7 },
            ..(*keys[0]).clone()
        });
        log.extend(table.change(&Record::Placed(Arc::clone(&keys[0]), Arc::clone(&to))));
        log.extend(table.change(&Record::Clean(SlotIndex(0))));
        log.extend(table.change(&Record::Arrived(Arc::clone(&keys[1]), [].into())));
        let mut replayed = Table::new(8);
        assert!(log.iter().all(|entry| replayed.apply(entry)));
        let mut checkpoint = Table::new(8);
        assert!(table.entries().all(|entry| checkpoint.apply(&entry)));
        for table in [&table, &replayed, &checkpoint] {
            let arrived: Vec<_> = table.arrived().into_iter().map(|(key, _)| key).collect();
            assert_eq!(arrived, keys[2..]);
            let extents = table.extents();
            assert_eq!(extents[0].content.file, to);
            assert!(!extents[0].is_dirty && extents[1].is_dirty);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let mut table = Table::new(8);
        let held = table.change(&holds(0, "a"));
        let Some(Entry::Holds { held, .. }) = held.last() else {
            panic!("{held:?}");
        };
        let nonsense = [
            Entry::Holds {
                slot: SlotIndex(8),
                held: *held,
            },
            Entry::Holds {
                slot: SlotIndex(1),
                held: Held { file: 9, ..*held },
            },
            Entry::Clean(SlotIndex(5)),
            Entry::Free(SlotIndex(8)),
        ];
        for entry in nonsense {
            assert!(!table.apply(&entry), "{entry:?}");
        }
        assert_eq!(table.extents().len(), 1);
    }

    #[test]
    fn a_forged_log_costs_memory_for_its_records_only() {
        let mut table = Table::new(u32::MAX);
        let name = |number, path: &str| Entry::File {
            number,
            key: Arc::new(FileKey {
                source: SourceId([0; 16]),
                path: path.into(),
                generation: Generation { bytes: 4, stamp: 0 },
            }),
            keep: Keep::No,
        };
        assert!(table.apply(&name(u32::MAX, "last")));
        assert!(table.apply(&name(7, "seven")));
        assert_eq!(table.unused.ranges.len(), 2);
        let taken: Vec<Entry> = (0..9)
            .flat_map(|slot| table.change(&holds(slot, &format!("{slot}"))))
            .collect();
        let numbers = taken.iter().filter_map(|entry| match entry {
            Entry::File { number, .. } => Some(*number),
            _ => None,
        });
        assert_eq!(
            numbers.collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 8, 9],
            "gaps are used, and no number twice"
        );
    }
}
