//! A directory on the path to a place. Follows no links: a link below an export may lead out of it, and a peer may learn by its claims
//! what is there. Opens only directories, and makes nothing.

use std::io;
use std::os::fd::OwnedFd;

use godwit_store::open_with_room;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};

/// Entries of a directory that are examined for one with letters.
const ENTRIES_MAX: usize = 256;

/// `None` if there is no such directory, or a link has its name.
pub(super) struct Directory(Option<OwnedFd>);

impl Directory {
    /// The directory above all others.
    pub(super) fn top() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            open_with_room(|| rustix::fs::open("/", flags, Mode::empty()).map_err(io::Error::from));
        Self(opened.ok())
    }

    /// The directory of this name in this directory.
    pub(super) fn below(&self, name: &[u8]) -> Self {
        Self(self.open(name, OFlags::PATH | OFlags::NOFOLLOW))
    }

    /// Device and inode; `None` if no file has the name.
    pub(super) fn file(&self, name: &[u8]) -> Option<(u64, u64)> {
        let above = self.0.as_ref()?;
        let there = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((there.st_dev, there.st_ino))
    }

    /// The names of its first entries.
    pub(super) fn names(&self) -> impl Iterator<Item = Vec<u8>> {
        let listing = self.open(b".", OFlags::RDONLY);
        let entries = listing.and_then(|listing| Dir::new(listing).ok());
        // Two of them are the directory and the one above it.
        let entries = entries.into_iter().flatten().take(ENTRIES_MAX + 2);
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_bytes().to_vec());
        names.filter(|name| ![&b"."[..], b".."].contains(&name.as_slice()))
    }

    fn open(&self, name: &[u8], how: OFlags) -> Option<OwnedFd> {
        let above = self.0.as_ref()?;
        let flags = how | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open_with_room(|| {
            rustix::fs::openat(above, name, flags, Mode::empty()).map_err(io::Error::from)
        });
        opened.ok()
    }
}
