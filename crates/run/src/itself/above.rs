//! Finds paths to the parent directories of a directory in its file system, independent of mount points. Does not search them.

use std::os::unix::fs::MetadataExt as _;

use super::ground::{Finder, os, parent_of, place_in};
use super::is_inside;

/// Most returned parent directories.
const ABOVE_MAX: usize = 256;

/// The parent directories of this real path in its file system, nearest first. Each has an absolute path, and the relative path from
/// it to the given directory. Parents that are visible through no mount of this system are left out.
pub(super) fn above(directory: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let device = |path: &[u8]| std::fs::symlink_metadata(os(path)).ok().map(|it| it.dev());
    let Some(of) = device(directory) else {
        return Vec::new();
    };
    let finder = Finder::new();
    let mount = finder.as_ref().and_then(|it| it.mount_of(directory));
    let (Some(finder), Some(mount)) = (&finder, mount) else {
        let levels = std::iter::successors(parent_of(directory), |path| parent_of(path));
        let levels = levels.take_while(|level| device(level) == Some(of));
        let pairs = levels.map(|level| (level.to_vec(), rest_of(level, directory)));
        return pairs.take(ABOVE_MAX).collect();
    };
    let place = place_in(mount, directory);
    let levels = std::iter::successors(parent_of(&place), |path| parent_of(path));
    let shown = levels.take(ABOVE_MAX).filter_map(|level| {
        let others = finder.mounts.iter().filter(|it| it.device == mount.device);
        let mut ways = std::iter::once(mount).chain(others).filter_map(|mount| {
            let is_shown = level == mount.root || is_inside(&mount.root, level);
            let rest = is_shown.then(|| rest_of(&mount.root, level))?;
            Some(match (mount.point.as_slice(), rest.as_slice()) {
                (point, b"") => point.to_vec(),
                (b"/", rest) => [b"/", rest].concat(),
                (point, rest) => [point, b"/", rest].concat(),
            })
        });
        // Another file system may be mounted over the place.
        let way = ways.find(|way| device(way) == Some(of))?;
        Some((way, rest_of(level, &place)))
    });
    shown.collect()
}

/// The inner path, relative to the outer one.
fn rest_of(outer: &[u8], inner: &[u8]) -> Vec<u8> {
    let rest = inner.strip_prefix(outer).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_directory_above_comes_first() {
        let directory = tempfile::tempdir().expect("made");
        let real = directory.path().canonicalize().expect("there");
        std::fs::create_dir_all(real.join("a/b")).expect("made");
        let path = |name: &str| real.join(name).into_os_string().into_encoded_bytes();
        let found = above(&path("a/b"));
        assert_eq!(found[0], (path("a"), b"b".to_vec()));
        assert_eq!(found[1].1, b"a/b");
        assert!(above(&path("none")).is_empty());
    }
}
