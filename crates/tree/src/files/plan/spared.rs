//! Directories of the destination that stay with all their contents, because the source skipped the entry with their name.
//! Looks at no storage and removes nothing.

use std::collections::HashSet;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_store::journal::PathKey;

/// More of them than this is no accident of names; then nothing is deleted at all, rather than memory taken without end.
const SPARED_MAX: usize = 256 << 10;

/// The directories, by the keys of their paths below the counterpart.
#[derive(Default)]
pub(crate) struct Spared(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    keys: HashSet<PathKey>,
    overflowed: bool,
}

impl Spared {
    /// This one stays. One that comes twice does no harm.
    pub(crate) fn add(&self, below: &[u8]) {
        let mut inner = lock(&self.0);
        let key = PathKey::new(0, below);
        if inner.keys.len() < SPARED_MAX || inner.keys.contains(&key) {
            inner.keys.insert(key);
        } else {
            inner.overflowed = true;
        }
    }

    /// Whether the entry is one of them, or in one.
    pub(crate) fn has(&self, below: &[u8]) -> bool {
        let inner = lock(&self.0);
        if inner.keys.is_empty() {
            return false;
        }
        let slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends = [0]
            .into_iter()
            .chain(slashes.map(|(at, _)| at))
            .chain([below.len()]);
        ends.map(|end| PathKey::new(0, &below[..end]))
            .any(|key| inner.keys.contains(&key))
    }

    /// There were too many to remember all.
    pub(crate) fn overflowed(&self) -> bool {
        lock(&self.0).overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_spared_directory_is_spared_and_nothing_beside_it() {
        let spared = Spared::default();
        assert!(!spared.has(b"a"));
        spared.add(b"a/b");
        for (path, is) in [
            ("a/b", true),
            ("a/b/c", true),
            ("a/b/c/d", true),
            ("a", false),
            ("a/bc", false),
            ("b", false),
            ("", false),
        ] {
            assert_eq!(spared.has(path.as_bytes()), is, "{path}");
        }
        // The source itself was passed over.
        spared.add(b"");
        assert!(spared.has(b"b") && spared.has(b"") && spared.has(b"c/d"));
    }

    #[test]
    fn too_many_are_noticed() {
        let spared = Spared::default();
        for number in 0..SPARED_MAX {
            spared.add(number.to_string().as_bytes());
        }
        spared.add(b"0");
        assert!(!spared.overflowed());
        spared.add(b"one more");
        assert!(spared.overflowed());
    }
}
