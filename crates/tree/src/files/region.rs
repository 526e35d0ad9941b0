//! The region of a tree that a closer finishes: all of it, or some directories.
//! Finishes nothing.

use godwit_store::{PathError, RelPath};

/// Directories that get their attributes, and lose the temporary files of their claim.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Region {
    /// Below the root, sorted; none is the whole tree.
    within: Vec<RelPath>,
    /// Without the contents of the directories in them.
    flat: bool,
}

impl Region {
    /// The region of these directories below the root; without any, it is the whole tree.
    ///
    /// # Errors
    /// One of them is no path.
    pub fn of(within: &[Vec<u8>], flat: bool) -> Result<Self, PathError> {
        let mut within = within
            .iter()
            .map(|path| RelPath::parse(path))
            .collect::<Result<Vec<_>, _>>()?;
        within.sort_unstable();
        Ok(Self { within, flat })
    }

    /// The directories, if the region is not the whole tree; and whether it leaves out the directories in them.
    pub(crate) fn directories(&self) -> Option<(&[RelPath], bool)> {
        (!self.within.is_empty()).then_some((self.within.as_slice(), self.flat))
    }

    /// Whether the root is finished here, which comes last.
    pub(crate) fn has_root(&self) -> bool {
        self.within.first().is_none_or(RelPath::is_root)
    }

    /// Whether the directory at this path below the root is finished here.
    pub(crate) fn has(&self, below: &[u8]) -> bool {
        let is_named = |path: &[u8]| {
            let found = self.within.binary_search_by(|one| one.as_bytes().cmp(path));
            found.is_ok()
        };
        let around = |below: &[u8]| {
            let slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let mut ends = slashes.map(|(at, _)| at).chain([0]);
            ends.any(|end| is_named(&below[..end]))
        };
        self.within.is_empty() || is_named(below) || !self.flat && around(below)
    }
}

impl Region {
    /// Whether this directory lies directly in one of the region, which leaves it to other closers.
    pub(crate) fn leaves(&self, below: &[u8]) -> bool {
        let around = below.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.flat && !below.is_empty() && !self.has(below) && self.has(&below[..around])
    }
}

/// Where a directory below the root is at the destination; None if its path is too long there.
pub(crate) fn place(base: &RelPath, below: &RelPath) -> Option<RelPath> {
    match below.is_root() {
        true => Some(base.clone()),
        false => base.join(below.as_bytes()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(within: &[&str], flat: bool) -> Region {
        let within: Vec<Vec<u8>> = within.iter().map(|path| path.as_bytes().to_vec()).collect();
        Region::of(&within, flat).unwrap()
    }

    #[test]
    fn a_region_has_its_directories_and_what_is_in_them() {
        let deep = region(&["a/b", "a-b"], false);
        for (path, is_in) in [
            ("", false),
            ("a", false),
            ("a/b", true),
            ("a/b/c/d", true),
            ("a/bc", false),
            ("a-b", true),
            ("a-b/c", true),
        ] {
            assert_eq!(deep.has(path.as_bytes()), is_in, "{path}");
        }
        let flat = region(&["a"], true);
        assert!(flat.has(b"a") && !flat.has(b"a/b") && !flat.has_root());
        let root = region(&[""], true);
        assert!(root.has(b"") && !root.has(b"a") && root.has_root());
        let whole = Region::default();
        assert!(whole.has(b"") && whole.has(b"a/b") && whole.has_root());
        assert!(region(&[""], false).has(b"a/b"));
    }

    #[test]
    fn a_flat_region_leaves_the_directories_in_its_own() {
        let flat = region(&["a"], true);
        assert!(flat.leaves(b"a/b"));
        for path in ["", "a", "b", "a/b/c", "ab"] {
            assert!(!flat.leaves(path.as_bytes()), "{path}");
        }
        let root = region(&[""], true);
        assert!(root.leaves(b"a") && !root.leaves(b"") && !root.leaves(b"a/b"));
        assert!(!region(&["a"], false).leaves(b"a/b") && !Region::default().leaves(b"a"));
    }

    #[test]
    fn a_region_is_made_of_paths_alone() {
        assert!(Region::of(&[b"../a".to_vec()], false).is_err());
    }
}
