//! Owns the location of a place to which others may write, and whether two of them overlap.
//! Follows no link: a writer can make one at any moment, and would learn where it leads.

use std::collections::HashMap;
use std::os::fd::AsFd as _;

use godwit_proto::Ground;
use godwit_store::{DirectoryId, RootDirectory};
use rustix::fs::{AtFlags, statat};

use super::ground::{Finder, ground_by, meeting, os, parent_of};
use super::is_inside;

/// A place of this machine, and its location.
#[derive(Debug)]
pub struct Located {
    path: Vec<u8>,
    ground: Ground,
}

/// How two places of this machine overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// They are one directory.
    Same,
    /// One of them, or a part of it, is inside the other.
    Inside,
}

impl Located {
    /// Looks at a real path, which need not exist. An entry behind a link does not exist for it.
    pub fn at(path: Vec<u8>) -> Self {
        let ground = Finder::new().map(|finder| ground(&finder, &path));
        Self {
            ground: ground.unwrap_or_default(),
            path,
        }
    }

    /// Whether and how two destinations overlap, by path, mount and inode. File systems mounted in them belong to them.
    pub fn overlap(&self, other: &Self) -> Option<Overlap> {
        if self.has(other) && other.has(self) {
            return Some(Overlap::Same);
        }
        let by_path = is_inside(&self.path, &other.path) || is_inside(&other.path, &self.path);
        let is_met = by_path || meeting(&self.ground, &other.ground, true).is_some();
        is_met.then_some(Overlap::Inside)
    }

    fn has(&self, inner: &Self) -> bool {
        self.path == inner.path || meeting(&self.ground, &inner.ground, false).is_some()
    }
}

/// The location of this path, by the nearest directory that exists. It is opened once, without links, and all ids come from there.
fn ground(finder: &Finder, path: &[u8]) -> Ground {
    let mut levels = std::iter::successors(Some(path), |path| parent_of(path));
    let opened = levels.find_map(|level| Some((level, RootDirectory::real(os(level)).ok()?)));
    let Some((nearest, directory)) = opened else {
        return Ground::default();
    };
    let above = std::iter::successors(Some(nearest), |path| parent_of(path));
    let mut ids: HashMap<&[u8], DirectoryId> =
        above.zip(directory.lineage().unwrap_or_default()).collect();
    // A file is in the directory.
    if parent_of(path) == Some(nearest)
        && let Some(name) = os(path).file_name()
        && let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
    {
        ids.insert(path, (stat.st_dev, stat.st_ino));
    }
    let mount = finder.mount_at(directory.as_fd(), nearest);
    ground_by(finder, path, mount, &|level| ids.get(level).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn places_overlap_whether_they_exist_or_not_and_no_link_is_followed() {
        let directory = tempfile::tempdir().expect("made");
        let real = directory.path().canonicalize().expect("there");
        std::fs::create_dir_all(real.join("a/b")).expect("made");
        std::fs::write(real.join("a/file"), "").expect("written");
        symlink("a", real.join("link")).expect("made");
        symlink("a/b", real.join("inner")).expect("made");
        let at = |name: &str| Located::at(real.join(name).into_os_string().into_encoded_bytes());
        for (one, other, overlap) in [
            ("a", "a", Some(Overlap::Same)),
            ("new", "new", Some(Overlap::Same)),
            ("a", "a/b", Some(Overlap::Inside)),
            ("a", "a/file", Some(Overlap::Inside)),
            ("a", "a/b/new", Some(Overlap::Inside)),
            ("new/deep", "new", Some(Overlap::Inside)),
            ("a", "new", None),
            ("new", "newer", None),
            ("a/b", "link/b", None),
            ("link", "inner", None),
            ("link/b/new", "inner/new", None),
        ] {
            assert_eq!(at(one).overlap(&at(other)), overlap, "{one} {other}");
            assert_eq!(at(other).overlap(&at(one)), overlap, "{other} {one}");
        }
    }

    #[test]
    fn a_directory_that_is_found_without_links_has_its_usual_numbers() {
        let directory = tempfile::tempdir().expect("made");
        let real = directory.path().canonicalize().expect("there");
        std::fs::create_dir_all(real.join("a/b")).expect("made");
        std::fs::write(real.join("a/file"), "").expect("written");
        for name in ["a", "a/b", "a/file", "a/b/new/deep"] {
            let path = real.join(name).into_os_string().into_encoded_bytes();
            let usual = super::super::ground(std::slice::from_ref(&path));
            let found = Located::at(path).ground;
            assert_eq!(found.tops, usual.tops, "{name}");
            assert_eq!(found.around, usual.around, "{name}");
            assert_eq!(found.mounts, usual.mounts, "{name}");
        }
    }
}
