//! Remembers facts about directories by their paths, in bounded memory. Finds out no facts.
//!
//! A path may have 64 KiB, and 32,000 directories above it, so the number of paths alone bounds little.

use std::collections::HashMap;

/// Usual bytes of a path.
const PATH_BYTES_USUAL: usize = 256;

/// Facts by path.
pub(crate) struct Remembered<V> {
    facts: HashMap<Box<[u8]>, V>,
    /// Bytes of the paths.
    bytes: usize,
    most: usize,
}

impl<V: Copy> Remembered<V> {
    /// Remembers at most this many paths, and fewer if they are long.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            facts: HashMap::new(),
            bytes: 0,
            most,
        }
    }

    pub(crate) fn get(&self, path: &[u8]) -> Option<V> {
        self.facts.get(path).copied()
    }

    /// Remembers a fact. Without room for it, all others are forgotten.
    pub(crate) fn put(&mut self, path: &[u8], fact: V) {
        let bytes = self.bytes + path.len();
        if self.facts.len() >= self.most || bytes > self.most * PATH_BYTES_USUAL {
            self.facts.clear();
            self.bytes = 0;
        }
        if self.facts.insert(path.into(), fact).is_none() {
            self.bytes += path.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bounded_in_number_and_in_bytes() {
        for (begin, most) in [(1, 1_000), (60_000, 4)] {
            let mut remembered = Remembered::new(1_000);
            for number in 0..2_000_u32 {
                let path = format!("{}{number}", "1/".repeat(begin / 2)).into_bytes();
                remembered.put(&path, number);
                remembered.put(&path, number);
                assert_eq!(remembered.get(&path), Some(number));
                assert!(remembered.facts.len() <= most, "{begin}");
                let bytes: usize = remembered.facts.keys().map(|path| path.len()).sum();
                assert_eq!(remembered.bytes, bytes);
            }
        }
    }
}
