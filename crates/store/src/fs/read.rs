//! Reads regular files: small ones whole in the fewest calls, large ones by position; and finds their holes.
//! Does not decide which files are read, or when.

use super::attributes::meta_of;
use super::direct::Direct;
use super::directories::{Directory, Trouble};
use crate::error::{StoreError, StoreErrorKind};
use crate::handles::with_room;
use crate::meta::{Kind, Meta};
use crate::path::RelPath;
use crate::storage::{Known, ReadFile};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ops::Range;

/// Flags for opening any entry: a link is an error, and a FIFO or device never blocks.
pub(super) const ENTRY: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// An open regular file.
#[derive(Debug)]
pub(super) struct FsReadFile {
    fd: OwnedFd,
    direct: Option<Direct>,
    path: RelPath,
}

impl FsReadFile {
    /// Reads past the page cache if `direct` is set.
    pub(super) fn new(fd: OwnedFd, path: &RelPath, direct: bool) -> Result<Self, StoreError> {
        let open = || match Direct::open(&fd, OFlags::RDONLY) {
            // The final mode of this file of ours denies even us access; the caller opens it in another way.
            Err(Errno::ACCESS) => Ok(None),
            opened => opened.map(Some),
        };
        let direct = if direct { open() } else { Ok(None) };
        Ok(Self {
            direct: direct.map_err(|error| no_direct(path, error))?,
            fd,
            path: path.clone(),
        })
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> StoreError {
        StoreError::from_errno(operation, &self.path, errno)
    }
}

impl ReadFile for FsReadFile {
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn meta(&self) -> Result<Meta, StoreError> {
        rustix::fs::fstat(&self.fd)
            .map(|stat| meta_of(&stat))
            .map_err(|error| self.failed("look at", error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let mut filled = match &self.direct {
            Some(direct) => direct
                .read_at(offset, buffer)
                .map_err(|error| self.failed("read past the page cache (--direct)", error))?,
            None => 0,
        };
        while filled < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("read", error)),
            }
        }
        Ok(filled)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, StoreError> {
        let start = match rustix::fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // The file system does not support holes, so the whole file is data.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                let bytes = self.meta()?.bytes;
                return Ok((offset < bytes).then_some(offset..bytes));
            }
            Err(error) => return Err(self.failed("find the data of", error)),
        };
        match rustix::fs::seek(&self.fd, SeekFrom::Hole(start)) {
            Ok(end) => Ok(Some(start..end)),
            // The file was cut off between the two calls.
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(self.failed("find the holes of", error)),
        }
    }

    fn drop_cache(&self) {
        // This is only advice: if the kernel ignores it, reads come from the cache.
        let _ = rustix::fs::fadvise(&self.fd, 0, None, Advice::DontNeed);
    }
}

/// The error if no direct handle can be opened; there is no fallback to the cache.
pub(super) fn no_direct(path: &RelPath, errno: Errno) -> StoreError {
    const OPERATION: &str = "open past the page cache (--direct)";
    match errno {
        Errno::INVAL => StoreError::new(OPERATION, path, StoreErrorKind::Unsupported),
        other => StoreError::from_errno(OPERATION, path, other),
    }
}

/// Opens a regular file for reading.
pub(super) fn open_regular(directory: &Directory, name: &[u8]) -> Result<(OwnedFd, Meta), Trouble> {
    let flags = OFlags::RDONLY | ENTRY;
    let fd = with_room(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
    let meta = meta_of(&rustix::fs::fstat(&fd)?);
    if meta.kind != Kind::File {
        return Err(StoreErrorKind::NotRegular.into());
    }
    Ok((fd, meta))
}

/// Reads a file that fits into `buffer`, and checks that the file did not change during the read.
pub(super) fn read_whole(
    directory: &Directory,
    name: &[u8],
    buffer: &mut [u8],
) -> Result<(Meta, usize), Trouble> {
    let (fd, before) = open_regular(directory, name)?;
    let before = Known {
        bytes: before.bytes,
        generation: before.generation(),
    };
    read_state(&fd, before, buffer, |fd, into, _| {
        rustix::io::read(fd, into)
    })
}

/// Reads a file whose metadata is known: the metadata is compared once, after the read.
pub(super) fn read_known(
    directory: &Directory,
    name: &[u8],
    known: Known,
    buffer: &mut [u8],
) -> Result<usize, Trouble> {
    let flags = OFlags::RDONLY | ENTRY;
    let fd = with_room(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
    // Reads by position, so that no data is taken from a pipe that has replaced the file.
    let read = read_state(&fd, known, buffer, |fd, into, at| {
        rustix::io::pread(fd, into, at)
    });
    match read {
        Ok((_, bytes)) => Ok(bytes),
        Err(_) if meta_of(&rustix::fs::fstat(&fd)?).kind != Kind::File => {
            Err(StoreErrorKind::NotRegular.into())
        }
        // Some file systems in user space do not support reads by position.
        Err(Trouble::Errno(Errno::SPIPE)) => {
            let read = |fd: &OwnedFd, into: &mut [u8], _| rustix::io::read(fd, into);
            read_state(&fd, known, buffer, read).map(|(_, bytes)| bytes)
        }
        Err(trouble) => Err(trouble),
    }
}

/// Reads a whole open file by calls of `read`, which receives the position.
fn read_state(
    fd: &OwnedFd,
    known: Known,
    buffer: &mut [u8],
    read: impl Fn(&OwnedFd, &mut [u8], u64) -> Result<usize, Errno>,
) -> Result<(Meta, usize), Trouble> {
    let bytes = usize::try_from(known.bytes)
        .ok()
        .filter(|bytes| *bytes <= buffer.len());
    let bytes = bytes.ok_or(StoreErrorKind::Changed)?;
    let mut filled = 0;
    let mut beyond = [0];
    loop {
        // Asks for one byte more than expected: a short read proves the end without another call.
        let into = match buffer.get_mut(filled..=bytes) {
            Some(rest) => rest,
            None if filled < bytes => &mut buffer[filled..bytes],
            None => &mut beyond[..],
        };
        let wanted = into.len();
        match read(fd, into, filled as u64) {
            Ok(0) => break,
            Ok(got) => {
                filled += got;
                if filled > bytes {
                    return Err(StoreErrorKind::Changed.into());
                }
                if filled == bytes && got < wanted {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let after = meta_of(&rustix::fs::fstat(fd)?);
    if filled != bytes || after.generation() != known.generation {
        return Err(StoreErrorKind::Changed.into());
    }
    Ok((after, bytes))
}
