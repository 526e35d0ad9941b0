//! Remembers directories of the destination that stay with all their contents: the source skipped their names, or other closers
//! finish them. Reads no storage and removes nothing.

use std::collections::HashSet;
use std::io;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_store::journal::PathKey;
use godwit_store::seen::SeenSet;
use godwit_store::spill::SpillRoom;

/// Most skipped directories; beyond that, nothing is deleted, so that memory stays bounded.
const SPARED_MAX: usize = 256 << 10;

/// The directories, by the keys of their paths below the counterpart.
pub(crate) struct Spared {
    skipped: Mutex<Skipped>,
    left: Mutex<Left>,
}

/// Directories with the names of skipped entries.
#[derive(Default)]
struct Skipped {
    keys: HashSet<PathKey>,
    overflowed: bool,
}

/// An unbounded set of directories that other closers finish.
struct Left {
    paths: SeenSet,
    /// The error because of which not all directories are recorded.
    failure: Option<io::Error>,
}

impl Spared {
    /// An empty set. Directories that do not fit in memory go to a nameless file in `room`.
    pub(crate) fn new(room: impl Into<SpillRoom>) -> Self {
        Self {
            skipped: Mutex::default(),
            left: Mutex::new(Left {
                paths: SeenSet::new(room),
                failure: None,
            }),
        }
    }

    /// Records that another closer finishes this directory.
    pub(crate) fn leave(&self, below: &[u8]) {
        let mut left = lock(&self.left);
        if left.failure.is_none() {
            left.failure = left.paths.insert(below).err();
        }
    }

    /// Whether another closer finishes this directory.
    ///
    /// # Errors
    /// The record of these directories is lost. Nothing may be deleted then.
    pub(crate) fn is_left(&self, below: &[u8]) -> io::Result<bool> {
        let left = lock(&self.left);
        match &left.failure {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => left.paths.contains(below),
        }
    }

    /// Records a directory that stays. Repeating this does no harm.
    pub(crate) fn add(&self, below: &[u8]) {
        let mut inner = lock(&self.skipped);
        let key = PathKey::new(0, below);
        if inner.keys.len() < SPARED_MAX || inner.keys.contains(&key) {
            inner.keys.insert(key);
        } else {
            inner.overflowed = true;
        }
    }

    /// Whether the entry is such a directory, or below one.
    pub(crate) fn has(&self, below: &[u8]) -> bool {
        let inner = lock(&self.skipped);
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

    /// Whether there were too many to remember.
    pub(crate) fn overflowed(&self) -> bool {
        lock(&self.skipped).overflowed
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_spared_directory_spares_its_contents_and_no_sibling() {
        let spared = Spared::new(Path::new("/"));
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
        // The source itself was skipped.
        spared.add(b"");
        assert!(spared.has(b"b") && spared.has(b"") && spared.has(b"c/d"));
    }

    #[test]
    fn too_many_are_noticed() {
        let spared = Spared::new(Path::new("/"));
        for number in 0..SPARED_MAX {
            spared.add(number.to_string().as_bytes());
        }
        spared.add(b"0");
        assert!(!spared.overflowed());
        spared.add(b"one more");
        assert!(spared.overflowed());
    }
    #[test]
    fn any_number_of_directories_is_left_to_other_closers() {
        let spill = tempfile::tempdir().unwrap();
        let spared = Spared::new(spill.path());
        let name = |number: usize| number.to_string().into_bytes();
        for number in 0..SPARED_MAX + 2 {
            spared.leave(&name(number));
        }
        assert!(!spared.overflowed());
        for number in [0, SPARED_MAX - 1, SPARED_MAX + 1] {
            assert!(spared.is_left(&name(number)).unwrap(), "{number}");
        }
        assert!(!spared.is_left(&name(SPARED_MAX + 2)).unwrap());
    }

    #[test]
    fn without_their_record_no_directory_passes_for_an_extra_one() {
        let spill = tempfile::tempdir().unwrap();
        let spared = Spared::new(&spill.path().join("gone"));
        for number in 0..=SPARED_MAX {
            spared.leave(number.to_string().as_bytes());
        }
        assert!(spared.is_left(b"another").is_err());
    }
}
