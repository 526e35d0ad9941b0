//! Owns an unbounded set of names: the newest in memory, the older ones on disk. Keeps a hash of each name instead of
//! the name, and forgets none.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::spill::{SpillRoom, Taken, unnamed_file};

/// Names in memory before they are written to disk: about 9 MiB including the table.
const MEMORY_KEYS: usize = 256 * 1024;

/// Bytes of a key: half of a BLAKE3 hash, so collisions are too unlikely to matter.
const KEY_BYTES: usize = 16;

/// Keys read from disk at a time.
const PAGE_KEYS: usize = 256;

/// Bits of a run's filter for each key. Four of them are checked, so a new name causes a needless disk access 2 times
/// in 100.
const FILTER_BITS: usize = 8;

/// Records which names were inserted before. Memory grows by little more than a byte for each name.
#[derive(Debug)]
pub struct SeenSet {
    taken: Taken,
    memory_keys: usize,
    memory: HashSet<u128>,
    file: Option<File>,
    runs: Vec<Run>,
}

/// Sorted keys on disk.
#[derive(Debug)]
struct Run {
    offset: u64,
    keys: usize,
    /// The first key of each page.
    firsts: Vec<u128>,
    filter: Vec<u64>,
}

impl SeenSet {
    /// An empty set; keys that do not fit in memory go to a nameless file in `room`.
    pub fn new(room: impl Into<SpillRoom>) -> Self {
        Self::with_memory(room, MEMORY_KEYS)
    }

    /// Like [`SeenSet::new`], with at most this many names in memory, at some 36 bytes each.
    pub fn with_memory(room: impl Into<SpillRoom>, memory_keys: usize) -> Self {
        Self {
            taken: Taken::new(room),
            memory_keys,
            memory: HashSet::new(),
            file: None,
            runs: Vec::new(),
        }
    }

    /// Adds a name; returns whether it is new.
    ///
    /// # Errors
    /// The disk failed, or the set has its share of the free space: the name is not added now, and may be new.
    pub fn insert(&mut self, name: &[u8]) -> io::Result<bool> {
        let key = key_of(name);
        if self.holds(key)? {
            return Ok(false);
        }
        if self.memory.len() >= self.memory_keys {
            self.write_run()?;
        }
        self.memory.insert(key);
        Ok(true)
    }

    /// Whether the set contains a name.
    ///
    /// # Errors
    /// The disk failed.
    pub fn contains(&self, name: &[u8]) -> io::Result<bool> {
        self.holds(key_of(name))
    }

    fn holds(&self, key: u128) -> io::Result<bool> {
        if self.memory.contains(&key) {
            return Ok(true);
        }
        let Some(file) = &self.file else {
            return Ok(false);
        };
        for run in &self.runs {
            if run.contains(file, key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write_run(&mut self) -> io::Result<()> {
        let offset = self.runs.last().map_or(0, Run::end);
        let more = self.memory.len() * KEY_BYTES;
        self.taken.reach(offset + more as u64)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed_file(self.taken.directory())?),
        };
        let mut keys: Vec<u128> = self.memory.iter().copied().collect();
        keys.sort_unstable();
        let mut filter = vec![0_u64; (keys.len() * FILTER_BITS).div_ceil(64).max(1)];
        for key in &keys {
            for (word, bit) in filter_bits(*key, filter.len()) {
                filter[word] |= bit;
            }
        }
        let mut at = offset;
        for page in keys.chunks(PAGE_KEYS) {
            let bytes: Vec<u8> = page.iter().flat_map(|key| key.to_be_bytes()).collect();
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        self.runs.push(Run {
            offset,
            keys: keys.len(),
            firsts: keys.iter().step_by(PAGE_KEYS).copied().collect(),
            filter,
        });
        self.memory.clear();
        Ok(())
    }
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + (self.keys * KEY_BYTES) as u64
    }

    fn contains(&self, file: &File, key: u128) -> io::Result<bool> {
        let may_be = filter_bits(key, self.filter.len())
            .into_iter()
            .all(|(word, bit)| self.filter[word] & bit != 0);
        let page = self.firsts.partition_point(|first| *first <= key);
        if !may_be || page == 0 {
            return Ok(false);
        }
        let first = (page - 1) * PAGE_KEYS;
        let keys = PAGE_KEYS.min(self.keys - first);
        let mut bytes = [0; PAGE_KEYS * KEY_BYTES];
        let bytes = &mut bytes[..keys * KEY_BYTES];
        file.read_exact_at(bytes, self.offset + (first * KEY_BYTES) as u64)?;
        let (keys, _) = bytes.as_chunks::<KEY_BYTES>();
        let found = keys.binary_search_by(|held| u128::from_be_bytes(*held).cmp(&key));
        Ok(found.is_ok())
    }
}

fn key_of(name: &[u8]) -> u128 {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&blake3::hash(name).as_bytes()[..KEY_BYTES]);
    u128::from_be_bytes(key)
}

/// Four bits of a filter of `words` words, each taken from another quarter of the key.
fn filter_bits(key: u128, words: usize) -> [(usize, u64); 4] {
    let bits = words as u128 * 64;
    [0, 32, 64, 96].map(|shift| {
        // A quarter of the key has 32 bits, which suffice for each filter.
        let bit = (((key >> shift) & u128::from(u32::MAX)) * bits) >> 32;
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_set_knows_what_it_has_seen_wherever_that_is() {
        let directory = tempfile::tempdir().unwrap();
        let mut set = SeenSet::with_memory(directory.path(), 1000);
        let mut state = 1_u64;
        let mut model = HashSet::new();
        for _ in 0..30_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let name = (state >> 50).to_le_bytes();
            assert_eq!(set.contains(&name).unwrap(), model.contains(&name));
            assert_eq!(set.insert(&name).unwrap(), model.insert(name));
        }
        assert!(set.runs.len() >= 10 && model.len() > 10_000);
        for name in &model {
            assert!(!set.insert(name).unwrap());
        }
        assert!(set.memory.len() <= 1000);
    }

    #[test]
    fn a_set_takes_a_quarter_of_the_room() {
        let directory = tempfile::tempdir().unwrap();
        let room = SpillRoom::with_free(directory.path(), |_| Some(9_000));
        let mut set = SeenSet::with_memory(&room, 10);
        let insert = |set: &mut SeenSet, number: u32| set.insert(&number.to_le_bytes());
        let held = (0..1000)
            .take_while(|number| insert(&mut set, *number).is_ok())
            .count();
        assert!((100..=200).contains(&held), "{held}");
        let full = insert(&mut set, 5000).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        // It knows all that it has.
        for number in (0..1000).take(held) {
            assert!(!insert(&mut set, number).unwrap());
        }
        assert!(set.memory.len() <= 10);
    }

    #[test]
    fn a_disk_that_fails_is_an_error() {
        let mut set = SeenSet::with_memory(Path::new("/nonexistent/spill"), 2);
        assert!(set.insert(b"a").unwrap() && set.insert(b"b").unwrap());
        assert!(set.insert(b"c").is_err());
        assert!(!set.insert(b"a").unwrap());
    }
}
