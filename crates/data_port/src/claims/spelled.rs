//! Owns whether two places are one, or one of them lies below the other, also where a file system takes several spellings for one name.
//! Opens nothing, follows no link, and looks at the file system only when a place is made: never while places are compared.

mod folded;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use folded::Folded;

/// Destinations that are looked at one by one. Of more, the directories count.
const PLACES_MAX: usize = 64;

/// A name on the way to a place: how it is written, how it counts where a file system folds names, and which file had it.
#[derive(Clone, Debug)]
struct Step {
    name: Vec<u8>,
    folded: Folded,
    /// Device and inode; `None` while nothing has the name.
    file: Option<(u64, u64)>,
}

impl Step {
    fn look(at: &Path, name: &[u8]) -> Self {
        let there = fs::symlink_metadata(at).ok();
        Self {
            name: name.to_vec(),
            folded: Folded::of(name),
            file: there.map(|there| (there.dev(), there.ino())),
        }
    }

    /// Whether both are one name of one directory. Files tell spellings apart. While one of the names is free, neither letter case nor the
    /// form of composed letters does.
    fn meets(&self, other: &Self) -> bool {
        self.name == other.name
            || match (self.file, other.file) {
                (Some(one), Some(other)) => one == other,
                _ => self.folded.meets(&other.folded),
            }
    }
}

/// An absolute path, as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Spot(Vec<Step>);

impl Spot {
    /// Looks at each component of the path.
    pub(crate) fn look(path: &[u8]) -> Self {
        let mut at = PathBuf::new();
        let mut steps = Vec::new();
        for component in Path::new(OsStr::from_bytes(path)).components() {
            at.push(component);
            if let Component::Normal(name) = component {
                steps.push(Step::look(&at, name.as_bytes()));
            }
        }
        Self(steps)
    }

    /// Whether one of the places is the other, or lies below it.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let mut steps = self.0.iter().zip(&other.0);
        steps.all(|(one, other)| one.meets(other))
    }
}

/// Absolute paths that a transfer writes to, and where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spots {
    paths: Vec<Vec<u8>>,
    spots: Vec<Spot>,
}

impl Spots {
    /// Looks at each path. Of more than [`PLACES_MAX`] paths, the directories that they lie in count.
    pub(crate) fn look(paths: &[Vec<u8>]) -> Self {
        let spots = if paths.len() <= PLACES_MAX {
            paths.iter().map(|path| Spot::look(path)).collect()
        } else {
            let above = |path: &Vec<u8>| {
                let above = Path::new(OsStr::from_bytes(path)).parent();
                above.map_or_else(Vec::new, |above| above.as_os_str().as_bytes().to_vec())
            };
            let directories: HashSet<Vec<u8>> = paths.iter().map(above).collect();
            directories.iter().map(|path| Spot::look(path)).collect()
        };
        Self {
            paths: paths.to_vec(),
            spots,
        }
    }

    /// The paths as they were given.
    pub(crate) fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    /// Whether any of the places overlaps.
    pub(crate) fn overlap(&self, other: &Spot) -> bool {
        self.spots.iter().any(|spot| spot.overlaps(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_a_file_system_may_take_for_one_name_meet_until_it_shows_two() {
        let directory = tempfile::tempdir().expect("made");
        let path = |below: &str| {
            let path = directory.path().join(below);
            path.into_os_string().into_encoded_bytes()
        };
        let meet =
            |one: &str, other: &str| Spot::look(&path(one)).overlaps(&Spot::look(&path(other)));
        assert!(meet("a", "a/b") && meet("a/b", "a") && meet("a", "a"));
        assert!(!meet("a", "b") && !meet("a/x", "a/y") && !meet("ab", "a"));
        // Neither exists, so they may be one.
        assert!(meet("Data", "data/run"));
        assert!(meet("caf\u{c9}", "caf\u{e9}"));
        assert!(meet("caf\u{e9}/x", "cafe\u{301}"));
        assert!(!meet("caf\u{e9}", "cafe\u{301}s"));
        fs::create_dir(directory.path().join("Data")).expect("made");
        fs::create_dir_all(directory.path().join("data")).expect("made");
        let entries = fs::read_dir(directory.path()).expect("read").count();
        assert_eq!(meet("Data", "data/run"), entries == 1);
    }

    #[test]
    fn of_many_destinations_the_directories_count() {
        let paths = |count: usize| -> Vec<Vec<u8>> {
            let path = |n| format!("/no/such/set/{n}").into_bytes();
            (0..count).map(path).collect()
        };
        let other = Spot::look(b"/no/such/set/other");
        assert!(!Spots::look(&paths(PLACES_MAX)).overlap(&other));
        let many = Spots::look(&paths(PLACES_MAX + 1));
        assert!(many.overlap(&other) && many.spots.len() == 1);
        assert!(!many.overlap(&Spot::look(b"/no/such/copy")));
    }
}
