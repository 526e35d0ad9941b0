//! Defines the region of a tree that a closer finishes: the whole tree, or some directories. Does not finish
//! anything.

use godwit_store::{PathError, RelPath};

/// Directories in which the closer sets attributes and removes the temporary files of the claim.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Region {
    /// Paths below the root, sorted; empty for the whole tree.
    within: Vec<RelPath>,
    /// Whether subdirectories of these directories are not included.
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

    /// The directories, if the region is not the whole tree; and whether their subdirectories are excluded.
    pub(crate) fn directories(&self) -> Option<(&[RelPath], bool)> {
        (!self.within.is_empty()).then_some((self.within.as_slice(), self.flat))
    }

    /// Whether the region includes the root, which is finished last.
    pub(crate) fn has_root(&self) -> bool {
        self.within.first().is_none_or(RelPath::is_root)
    }

    /// Whether the region includes the directory at this path below the root.
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
    /// Whether this directory lies directly in one of the region, and other closers finish it.
    pub(crate) fn leaves(&self, below: &[u8]) -> bool {
        let around = below.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.flat && !below.is_empty() && !self.has(below) && self.has(&below[..around])
    }
}

/// The destination path of a directory below the root; `None` if that path is too long.
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
