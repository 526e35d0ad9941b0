//! Owns the selection of kept handles: the recently used ones, found by their paths. Opens no files, and does not know whether a kept value
//! is still valid.
//!
//! The limit of open files bounds the kept handles, 1,024 at most. They cover the directories of a batch, from writing its files to their
//! final names.

use std::collections::HashMap;

/// Most young values while the process has too many kept handles elsewhere, whatever its handle limit.
const CROWDED_HALF: usize = 128;

/// Usual bytes of a path. Longer paths take the room of others.
const PATH_BYTES: usize = 1_024;

/// Values by path, never more than a capacity.
///
/// There are two generations. A value that is added or found is young. When the young values fill half of the capacity, they become the old
/// generation and the previous old generation is dropped. This saves a search for the least recently used value. A walk of a tree in order
/// uses two steps for each directory.
#[derive(Debug)]
pub(super) struct Kept<T> {
    young: HashMap<Box<[u8]>, T>,
    /// Bytes of the young paths.
    young_bytes: usize,
    old: HashMap<Box<[u8]>, T>,
    /// The value found last, with its path; the next request is most often for the same.
    last: Option<(Vec<u8>, T)>,
    /// Most young values.
    half: usize,
    /// Most young values while too many are kept elsewhere.
    crowded_half: usize,
}

impl<T: Clone> Kept<T> {
    /// Keeps at most `capacity` values (none if below two), and at most `crowded` while too many are kept elsewhere.
    pub(super) fn new(capacity: usize, crowded: usize) -> Self {
        Self {
            young: HashMap::new(),
            young_bytes: 0,
            old: HashMap::new(),
            last: None,
            half: capacity / 2,
            crowded_half: (crowded / 2).clamp(1, CROWDED_HALF),
        }
    }

    /// The kept value of `path`.
    pub(super) fn find(&mut self, path: &[u8]) -> Option<T> {
        if let Some((last, value)) = &self.last
            && last == path
        {
            return Some(value.clone());
        }
        let value = match self.young.get(path) {
            Some(value) => value.clone(),
            None => {
                let (path, value) = self.old.remove_entry(path)?;
                self.insert(path, value.clone());
                value
            }
        };
        // Reuses the memory of the previous path.
        let (mut last, _) = self
            .last
            .take()
            .unwrap_or_else(|| (Vec::new(), value.clone()));
        last.clear();
        last.extend_from_slice(path);
        self.last = Some((last, value.clone()));
        Some(value)
    }

    /// Keeps a value for `path`, and drops most other values if too many are kept elsewhere.
    pub(super) fn keep(&mut self, path: &[u8], value: &T, crowded: bool) {
        if self.half > 0 {
            self.forget(path);
            if crowded && self.young.len() >= self.crowded_half {
                self.age();
            }
            self.insert(path.into(), value.clone());
        }
    }

    /// Drops the value of `path`.
    pub(super) fn forget(&mut self, path: &[u8]) {
        self.last = None;
        if self.young.remove(path).is_some() {
            self.young_bytes -= path.len();
        }
        self.old.remove(path);
    }

    /// Drops all values.
    pub(super) fn clear(&mut self) {
        self.last = None;
        self.young.clear();
        self.young_bytes = 0;
        self.old.clear();
    }

    fn insert(&mut self, path: Box<[u8]>, value: T) {
        let bytes = self.young_bytes + path.len();
        if self.young.len() >= self.half || bytes > self.half * PATH_BYTES {
            self.age();
        }
        self.young_bytes += path.len();
        self.young.insert(path, value);
    }

    /// Makes the young values the old ones.
    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.young_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn count(kept: &Kept<u32>) -> usize {
        kept.young.len() + kept.old.len()
    }

    #[test]
    fn recently_used_values_are_kept() {
        let mut kept = Kept::new(8, 8);
        for number in 0..100_u32 {
            kept.keep(&number.to_be_bytes(), &number, false);
            // The first value is used all the time.
            assert_eq!(kept.find(&0_u32.to_be_bytes()), Some(0));
            for late in number.saturating_sub(2)..=number {
                assert_eq!(kept.find(&late.to_be_bytes()), Some(late), "at {number}");
            }
        }
        assert_eq!(kept.find(&50_u32.to_be_bytes()), None);
    }

    #[test]
    fn few_are_kept_where_there_are_too_many_elsewhere() {
        let mut kept = Kept::new(1024, 8);
        for number in 0..1000_u32 {
            kept.keep(&number.to_be_bytes(), &number, number >= 500);
        }
        assert!(count(&kept) <= 8);
        assert_eq!(kept.find(&999_u32.to_be_bytes()), Some(999));
    }

    #[test]
    fn long_paths_leave_room_for_few() {
        let mut kept = Kept::new(1024, 1024);
        for number in 0..200_u32 {
            let path = format!("{number}/{}", "long/".repeat(12_000)).into_bytes();
            kept.keep(&path, &number, false);
            assert_eq!(kept.find(&path), Some(number));
        }
        assert!(
            count(&kept) <= 2 * 512 * super::PATH_BYTES / 60_000,
            "{}",
            count(&kept)
        );
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let mut kept = Kept::new(1, 1);
        kept.keep(b"a", &1, false);
        assert_eq!(kept.find(b"a"), None);
    }

    proptest! {
        /// Each step is an operation and the number of one of a few paths.
        #[test]
        fn a_found_value_is_the_last_kept_one_and_the_count_is_bounded(
            capacity in 0_usize..10,
            steps in proptest::collection::vec((0..24_u8, 0..12_u8), 0..200),
        ) {
            let mut kept = Kept::new(capacity, capacity);
            let mut model = HashMap::new();
            for (value, (what, path)) in (0_u32..).zip(steps) {
                match what {
                    0..6 => {
                        kept.keep(&[path], &value, value % 2 == 0);
                        model.insert(path, value);
                    }
                    6..12 => {
                        kept.forget(&[path]);
                        model.remove(&path);
                        prop_assert_eq!(kept.find(&[path]), None);
                    }
                    12 => {
                        kept.clear();
                        prop_assert_eq!(kept.find(&[path]), None);
                    }
                    _ => {
                        if let Some(found) = kept.find(&[path]) {
                            prop_assert_eq!(Some(&found), model.get(&path));
                        }
                    }
                }
                prop_assert!(count(&kept) <= capacity);
            }
        }
    }
}
