//! Remembers every announced entry in 16 bytes, beyond a bound in sorted runs on disk, and finds entries that only the destination has.
//! Removes nothing, and does not know how names are mapped.
//!
//! A key is 127 bits of a hash, and whether the entry is a directory. The keys of all announced entries are sorted on disk. A survey of
//! the destination (names and kinds only) spills its paths in the order found, and sorts their keys with their numbers. Merging both
//! produces one bit for each entry found. Therefore 10⁷ entries need some 10 MB of memory and 1 GB of disk. If keys collide, an extra
//! entry stays; a wanted one is never deleted.

use std::io;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::{EntryKind, Record};
use godwit_store::journal::PathKey;
use godwit_store::spill::{SpillMerge, SpillRoom, SpillSorter};

use crate::files::error::{ExtrasError, KeysError};

/// Memory of each of two sorters before it writes to disk: some 80,000 keys.
const SORTER_BYTES: usize = 4 << 20;

const KEY_BYTES: usize = 16;

/// The key of an entry, including whether it is a directory: a directory with the name of an announced file is a different entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u8; KEY_BYTES]);

impl Key {
    /// 127 bits of a hash. Two of 10⁷ entries share a key with a probability of one in 10²⁴; then an extra entry stays.
    pub(crate) fn new(root: u16, path: &[u8], is_directory: bool) -> Self {
        let mut key = PathKey::new(root, path).0;
        key[KEY_BYTES - 1] = key[KEY_BYTES - 1] & !1 | u8::from(is_directory);
        Self(key)
    }
}

/// The keys of the entries announced so far.
pub(crate) struct Announced {
    room: SpillRoom,
    state: Mutex<State>,
}

struct State {
    sorter: SpillSorter,
    /// An entry was announced that is not the top directory of a source.
    has_contents: bool,
    /// The error because of which not all keys are stored; nothing is known of any entry then.
    failure: Option<KeysError>,
}

impl Announced {
    pub(crate) fn new(room: impl Into<SpillRoom>) -> Self {
        let room = room.into();
        Self {
            state: Mutex::new(State {
                sorter: SpillSorter::new(&room, SORTER_BYTES),
                has_contents: false,
                failure: None,
            }),
            room,
        }
    }

    /// Adds the entries of a manifest. A repeated manifest does no harm.
    pub(crate) fn note(&self, records: &[Record]) {
        let keys: Vec<Key> = records
            .iter()
            .map(|record| {
                Key::new(
                    record.root,
                    &record.path,
                    record.kind == EntryKind::DIRECTORY,
                )
            })
            .collect();
        if records.iter().any(is_contents) {
            lock(&self.state).has_contents = true;
        }
        self.add(&keys);
    }

    /// Whether the source has only its own directory.
    pub(crate) fn is_bare(&self) -> bool {
        !lock(&self.state).has_contents
    }

    /// Adds keys of announced entries.
    pub(crate) fn add(&self, keys: &[Key]) {
        let mut state = lock(&self.state);
        // Skipped after an error: a sorter that cannot write a run would try again with each key, and sort its keys each time.
        if state.failure.is_none() {
            let pushed = keys.iter().try_for_each(|key| state.sorter.push(&key.0));
            state.failure = pushed.err().map(KeysError::from);
        }
    }

    /// The entries of `there` that were not announced. Called once, at the end.
    pub(crate) fn extras(&self, there: There) -> Result<Extras, ExtrasError> {
        let mut state = lock(&self.state);
        if let Some(failure) = &state.failure {
            return Err(failure.clone().into());
        }
        let empty = SpillSorter::new(&self.room, SORTER_BYTES);
        let announced = std::mem::replace(&mut state.sorter, empty);
        drop(state);
        Ok(Extras::find(announced.finish()?, there)?)
    }
}

fn is_contents(record: &Record) -> bool {
    !record.path.is_empty() || record.kind != EntryKind::DIRECTORY
}

/// The keys of the entries at the destination, in the order in which they were found.
pub(crate) struct There {
    sorter: SpillSorter,
    count: u64,
}

impl There {
    pub(crate) fn new(room: impl Into<SpillRoom>) -> Self {
        Self {
            sorter: SpillSorter::new(room, SORTER_BYTES),
            count: 0,
        }
    }

    /// Adds the next key.
    pub(crate) fn push(&mut self, key: Key) -> io::Result<()> {
        let mut item = [0; KEY_BYTES + 8];
        item[..KEY_BYTES].copy_from_slice(&key.0);
        item[KEY_BYTES..].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        self.sorter.push(&item)
    }
}

/// One bit for each existing entry: set if the entry was not announced.
pub(crate) struct Extras {
    bits: Vec<u64>,
    pub(crate) count: u64,
}

impl Extras {
    fn find(mut announced: SpillMerge, there: There) -> io::Result<Self> {
        let words = usize::try_from(there.count.div_ceil(64)).map_err(io::Error::other)?;
        let mut extras = Self {
            bits: vec![0; words],
            count: 0,
        };
        let mut wanted = announced.next_record()?;
        let mut merge = there.sorter.finish()?;
        while let Some(item) = merge.next_record()? {
            let Some((key, number)) = item.split_first_chunk::<KEY_BYTES>() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            while wanted.as_ref().is_some_and(|wanted| wanted[..] < key[..]) {
                wanted = announced.next_record()?;
            }
            if wanted.as_ref().is_none_or(|wanted| wanted[..] != key[..]) {
                let number = u64::from_be_bytes(number.try_into().map_err(io::Error::other)?);
                extras.set(number)?;
            }
        }
        Ok(extras)
    }

    fn set(&mut self, number: u64) -> io::Result<()> {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|at| self.bits.get_mut(at))
            .ok_or(io::ErrorKind::InvalidData)?;
        *word |= 1 << (number % 64);
        self.count += 1;
        Ok(())
    }

    /// Whether the entry with this number was not announced. Entries are numbered from 0 as they were found.
    pub(crate) fn has(&self, number: u64) -> bool {
        usize::try_from(number / 64)
            .ok()
            .and_then(|at| self.bits.get(at))
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn announced(directory: &Path, names: impl Iterator<Item = String>) -> Announced {
        let announced = Announced::new(directory);
        for name in names {
            announced.note(&[Record {
                kind: EntryKind::FILE,
                path: name.into_bytes(),
                ..Record::default()
            }]);
        }
        announced
    }

    #[test]
    fn unannounced_entries_are_found_among_more_names_than_memory_holds() {
        let directory = tempfile::tempdir().unwrap();
        let odd = |number: &u32| number % 1000 == 7;
        let all = 0..200_000_u32;
        let names = all.clone().filter(|number| !odd(number));
        let announced = announced(directory.path(), names.map(|number| format!("f{number}")));
        let mut there = There::new(directory.path());
        for number in all.clone() {
            let path = format!("f{number}");
            there.push(Key::new(0, path.as_bytes(), false)).unwrap();
        }
        let extras = announced.extras(there).unwrap();
        assert_eq!(extras.count, 200);
        assert!(
            all.into_iter()
                .all(|number| extras.has(number.into()) == odd(&number))
        );
    }

    #[test]
    fn a_directory_in_place_of_a_file_and_another_root_are_other_entries() {
        let directory = tempfile::tempdir().unwrap();
        let announced = announced(directory.path(), ["a".to_owned()].into_iter());
        let mut there = There::new(directory.path());
        for (root, is_directory) in [(0, false), (0, true), (1, false)] {
            there.push(Key::new(root, b"a", is_directory)).unwrap();
        }
        let extras = announced.extras(there).unwrap();
        assert_eq!([0, 1, 2].map(|at| extras.has(at)), [false, true, true]);
    }

    #[test]
    fn without_room_for_the_keys_nothing_is_called_extra() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        let announced = announced(&gone, (0..200_000).map(|number| format!("f{number}")));
        assert!(announced.extras(There::new(directory.path())).is_err());
    }
}
