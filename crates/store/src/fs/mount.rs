//! Decides whether a file system is mounted at a directory, which the kernel says since Linux 5.8.
//! Does not follow links, and waits for no automount.

use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, FileType, Stat, Statx, StatxAttributes, StatxFlags, fstat, statat, statx,
};
use rustix::io::Errno;

/// Whether a file system is mounted at the entry of this directory.
pub(super) fn is_mount_in(directory: impl AsFd, name: &[u8]) -> bool {
    let directory = directory.as_fd();
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let seen = statx(directory, name, flags, StatxFlags::empty());
    decided(seen, || {
        Some((statat(directory, name, flags).ok()?, fstat(directory).ok()?))
    })
}

/// Whether a file system is mounted at the open directory.
pub(super) fn is_mount(directory: impl AsFd) -> bool {
    let directory = directory.as_fd();
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let seen = statx(directory, "", flags, StatxFlags::empty());
    decided(seen, || {
        let above = statat(directory, "..", AtFlags::empty()).ok()?;
        Some((fstat(directory).ok()?, above))
    })
}

/// The kernel's answer. An older kernel gives none: then the devices of the entry and of the directory above it differ, or both are one
/// directory, the root. Two mounts of one device then look the same.
fn decided(
    seen: Result<Statx, Errno>,
    entry_and_above: impl FnOnce() -> Option<(Stat, Stat)>,
) -> bool {
    let root = StatxAttributes::MOUNT_ROOT;
    match seen {
        Ok(seen) if seen.stx_attributes_mask.contains(root) => seen.stx_attributes.contains(root),
        _ => entry_and_above().is_some_and(|(entry, above)| {
            let is_directory = FileType::from_raw_mode(entry.st_mode) == FileType::Directory;
            is_directory && (entry.st_dev != above.st_dev || entry.st_ino == above.st_ino)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// An answer as of a kernel before 5.8, or of a container that forbids the call.
    fn without_answer(directory: &File, name: &str) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let both = || Some((statat(directory, name, flags).ok()?, fstat(directory).ok()?));
        let mut seen = statx(directory, name, flags, StatxFlags::empty()).expect("it exists");
        seen.stx_attributes_mask = StatxAttributes::empty();
        let is = decided(Ok(seen), both);
        assert_eq!(decided(Err(Errno::NOSYS), both), is);
        is
    }

    #[test]
    fn a_mount_is_found_with_the_answer_of_the_kernel_and_without_it() {
        let root = File::open("/").expect("there");
        for (name, is) in [("proc", true), ("usr", false)] {
            assert_eq!(is_mount_in(&root, name.as_bytes()), is, "{name}");
            assert_eq!(without_answer(&root, name), is, "{name}");
        }
        assert!(is_mount(&root));
        assert!(is_mount(File::open("/proc").expect("there")));
        assert!(!is_mount(File::open("/proc/self").expect("there")));
        let link = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("/proc", link.path().join("to")).expect("made");
        let directory = File::open(link.path()).expect("there");
        assert!(!without_answer(&directory, "to"));
    }
}
