//! Owns temporary files: creates them so that no foreign file is ever opened instead, writes, finishes and reopens them. Does not sync or
//! rename them.
//!
//! Except with `--no-sync`, the storage asks the kernel to write each new slice of a large file from the page cache to disk
//! (`sync_file_range`). Otherwise the disk would be idle until the batch is synced, and the network would be idle during the
//! sync. Durability does not depend on that call; only the sync makes data durable. Small files need no such call, because one sync covers
//! a batch of them.

use super::apply::{Birth, Target, apply};
use super::attributes::{Allowed, meta_of, mode_of};
use super::direct::Direct;
use super::directories::{Directories, Directory, Trouble};
use super::read::{ENTRY, no_direct};
use crate::error::{StoreError, StoreErrorKind};
use crate::extended::Lost;
use crate::handles::with_room;
use crate::meta::{FinalMeta, Kind};
use crate::path::{RelPath, TempName};
use crate::storage::{Create, ReadFile, WriteFile};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Readable by the owner only.
const PRIVATE: u32 = 0o600;
/// How often a taken temporary name is freed and tried again; more than one try is needed only if another program keeps taking the name.
const ATTEMPTS_MAX: u32 = 8;

/// A temporary file being written.
#[derive(Debug)]
pub(super) struct FsWriteFile {
    fd: OwnedFd,
    direct: Option<Direct>,
    path: RelPath,
    allowed: Allowed,
    /// Whether the file system of the file keeps all data in memory.
    in_memory: bool,
    /// Where the file ends, if it was empty when opened.
    end: Option<AtomicU64>,
}

/// A temporary file that was just opened.
pub(super) struct Opened {
    fd: OwnedFd,
    in_memory: bool,
    is_new: bool,
}

impl FsWriteFile {
    /// Writes past the page cache if `direct` is set.
    pub(super) fn new(
        opened: Opened,
        path: &RelPath,
        allowed: Allowed,
        direct: bool,
    ) -> Result<Self, StoreError> {
        let Opened {
            fd,
            in_memory,
            is_new,
        } = opened;
        let open = || match Direct::open(&fd, OFlags::RDWR) {
            // The file got its final mode before the transfer was interrupted; it gets that mode again when it is finished.
            Err(Errno::ACCESS) => {
                rustix::fs::fchmod(&fd, Mode::from_raw_mode(PRIVATE))?;
                Direct::open(&fd, OFlags::RDWR)
            }
            opened => opened,
        };
        let direct = direct.then(open).transpose();
        Ok(Self {
            direct: direct.map_err(|error| no_direct(path, error))?,
            fd,
            path: path.clone(),
            allowed,
            in_memory,
            end: is_new.then(AtomicU64::default),
        })
    }

    fn reaches(&self, end: u64) {
        if let Some(reached) = &self.end {
            reached.fetch_max(end, Ordering::Relaxed);
        }
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> StoreError {
        StoreError::from_errno(operation, &self.path, errno)
    }
}

impl WriteFile for FsWriteFile {
    fn preallocate(&self, range: Range<u64>) -> Result<(), StoreError> {
        // Preallocation does not help a file system in memory: it would fill the pages with zeros first, in one thread.
        if range.is_empty() || self.in_memory {
            return Ok(());
        }
        loop {
            match rustix::fs::fallocate(
                &self.fd,
                FallocateFlags::empty(),
                range.start,
                range.end - range.start,
            ) {
                Err(Errno::INTR) => {}
                Ok(()) => {
                    self.reaches(range.end);
                    return Ok(());
                }
                // Not every file system supports this; space is then allocated as the data arrives.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(error) => return Err(self.failed("take room for", error)),
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let mut written = match &self.direct {
            Some(direct) => direct
                .write_at(offset, data)
                .map_err(|error| self.failed("write past the page cache (--direct)", error))?,
            None => 0,
        };
        while written < data.len() {
            match rustix::io::pwrite(&self.fd, &data[written..], offset + written as u64) {
                Ok(0) => return Err(self.failed("write", Errno::IO)),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("write", error)),
            }
        }
        self.reaches(offset + data.len() as u64);
        Ok(())
    }

    fn copy_from(&self, from: &dyn ReadFile, range: Range<u64>) -> Result<u64, StoreError> {
        let Some(from) = from.handle() else {
            return Ok(0);
        };
        let mut at = range.start;
        while at < range.end {
            let (mut read, mut written) = (at, at);
            let bytes = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let copied = rustix::fs::copy_file_range(
                from,
                Some(&mut read),
                &self.fd,
                Some(&mut written),
                bytes,
            );
            match copied {
                Ok(0) => break,
                Ok(bytes) => at += bytes as u64,
                Err(Errno::INTR) => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT)) => {
                    return Err(self.failed("copy to", error));
                }
                // If there is an error, reading and writing report it.
                Err(_) => break,
            }
        }
        self.reaches(at);
        Ok(at - range.start)
    }

    fn write_out(&self, range: Range<u64>) {
        if !self.in_memory {
            // The sync writes the rest, and reports any error.
            let _ = godwit_sys::write_back::begin(&self.fd, &range);
        }
    }

    fn finish(&self, bytes: u64, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let end = self.end.as_ref();
        if end.is_none_or(|end| end.load(Ordering::Relaxed) != bytes) {
            rustix::fs::ftruncate(&self.fd, bytes)
                .map_err(|error| self.failed("set the length of", error))?;
            if let Some(end) = end {
                end.store(bytes, Ordering::Relaxed);
            }
        }
        // An earlier try may have set attributes, perhaps of an earlier state of the source.
        let birth = Birth {
            has_mode: false,
            is_new: false,
            inherits: true,
            keeps: None,
        };
        apply(&Target::open(self.fd.as_fd()), meta, self.allowed, birth)
            .map_err(|trouble| trouble.at("set the attributes of", &self.path))
    }
}

/// Creates a new temporary file; an old one is removed.
fn create_new(
    directory: &Directory,
    temp: &TempName,
    flags: OFlags,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS_MAX {
        let open = || rustix::fs::openat(directory, temp.as_bytes(), flags, mode_of(mode));
        match with_room(open) {
            Err(Errno::EXIST) => unlink(directory, temp)?,
            result => return result,
        }
    }
    Err(Errno::EXIST)
}

/// A new file in the directory at `path`, without a name.
pub(super) fn scratch(
    directories: &Directories,
    path: &RelPath,
) -> Result<std::fs::File, StoreError> {
    let failed = |errno| StoreError::from_errno("make a file in", path, errno);
    let (directory, _) = directories.get(path.as_bytes()).map_err(failed)?;
    // The name has the form of a temporary name, because only such names may be removed.
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    let tag = u64::from(std::process::id()) << 32 | u64::from(nanos);
    let temp = TempName::new(tag, path);
    let fd = create_new(&directory, &temp, OFlags::RDWR, PRIVATE).map_err(failed)?;
    unlink(&directory, &temp).map_err(failed)?;
    Ok(fd.into())
}

/// Removes a temporary name; an absent one is fine.
pub(super) fn unlink(directory: &Directory, temp: &TempName) -> Result<(), Errno> {
    match rustix::fs::unlinkat(directory, temp.as_bytes(), AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Creates a temporary file for writing, or opens the existing one.
pub(super) fn create(
    directory: &Directory,
    temp: &TempName,
    how: Create,
    bytes: Option<u64>,
) -> Result<Opened, Trouble> {
    let (fd, is_new) = match how {
        Create::Fresh => (create_new(directory, temp, OFlags::RDWR, PRIVATE)?, true),
        Create::Resume => resume(directory, temp)?,
        // Other writers may change the length, so no writer may assume that it created the file.
        Create::Shared => (share(directory, temp, bytes)?, false),
    };
    Ok(Opened {
        fd,
        in_memory: directory.is_in_memory(),
        is_new,
    })
}

/// Opens the existing temporary file or creates one; returns whether it was created.
fn resume(directory: &Directory, temp: &TempName) -> Result<(OwnedFd, bool), Trouble> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | ENTRY;
    for _ in 0..ATTEMPTS_MAX {
        match open_temp(directory, temp, OFlags::RDWR) {
            Err(Trouble::Errno(Errno::NOENT)) => {}
            result => return Ok((result?, false)),
        }
        match rustix::fs::openat(directory, temp.as_bytes(), flags, mode_of(PRIVATE)) {
            // A file that another writer has created since is opened, not removed.
            Err(Errno::EXIST) => {}
            result => return Ok((result?, true)),
        }
    }
    Err(Errno::EXIST.into())
}

/// Opens the temporary file that another writer has created, or creates it; removes nothing, and never shortens the file.
fn share(directory: &Directory, temp: &TempName, bytes: Option<u64>) -> Result<OwnedFd, Trouble> {
    let flags = OFlags::RDWR | OFlags::CREATE | ENTRY;
    let found = match rustix::fs::openat(directory, temp.as_bytes(), flags, mode_of(PRIVATE)) {
        Err(Errno::ACCESS) => match open_forbidden(directory, temp, OFlags::RDWR) {
            // The directory is not writable.
            Err(Errno::NOENT) => return Err(Errno::ACCESS.into()),
            result => result?,
        },
        Err(Errno::LOOP | Errno::NXIO) => None,
        result => Some(result?),
    };
    let foreign = || Trouble::from(StoreErrorKind::TypeConflict);
    let fd = found.ok_or_else(foreign)?;
    let stat = rustix::fs::fstat(&fd)?;
    if !is_ours(&stat) {
        return Err(foreign());
    }
    // Two writers that do this at the same moment set the same length.
    if let Some(bytes) = bytes
        && meta_of(&stat).bytes < bytes
    {
        rustix::fs::ftruncate(&fd, bytes)?;
    }
    Ok(fd)
}

/// Opens an existing temporary file with any mode. An entry that is not plainly ours, such as a link to another file, is removed and
/// reported as `NotFound`.
pub(super) fn open_temp(
    directory: &Directory,
    temp: &TempName,
    flags: OFlags,
) -> Result<OwnedFd, Trouble> {
    let open = || rustix::fs::openat(directory, temp.as_bytes(), flags | ENTRY, Mode::empty());
    let found = match with_room(open) {
        Err(Errno::ACCESS) => open_forbidden(directory, temp, flags)?,
        Err(Errno::LOOP | Errno::NXIO) => None,
        result => Some(result?),
    };
    if let Some(fd) = found
        && is_ours(&rustix::fs::fstat(&fd)?)
    {
        return Ok(fd);
    }
    match unlink(directory, temp) {
        Ok(()) => Err(StoreErrorKind::NotFound.into()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the entry is a regular file with only one name.
fn is_ours(stat: &Stat) -> bool {
    meta_of(stat).kind == Kind::File && stat.st_nlink == 1
}

/// Opens a file of ours whose final mode forbids even us to open it, by changing the mode for that moment. `None` for a file that is not
/// plainly ours.
fn open_forbidden(
    directory: &Directory,
    temp: &TempName,
    flags: OFlags,
) -> Result<Option<OwnedFd>, Errno> {
    let path_only = OFlags::PATH | ENTRY;
    let handle =
        with_room(|| rustix::fs::openat(directory, temp.as_bytes(), path_only, Mode::empty()))?;
    let stat = rustix::fs::fstat(&handle)?;
    if !is_ours(&stat) {
        return Ok(None);
    }
    let path = handle_path(&handle);
    rustix::fs::chmodat(CWD, path.as_str(), mode_of(PRIVATE), AtFlags::empty())?;
    let fd = with_room(|| rustix::fs::open(path.as_str(), flags | OFlags::CLOEXEC, Mode::empty()));
    let mode = mode_of(meta_of(&stat).mode);
    rustix::fs::chmodat(CWD, path.as_str(), mode, AtFlags::empty())?;
    fd.map(Some)
}

/// A path to the file behind an open handle, for calls that do not take handles without access rights.
pub(super) fn handle_path(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Writes a temporary file as a whole. After an error no file is left.
pub(super) fn write_whole(
    directory: &Directory,
    temp: &TempName,
    meta: &FinalMeta,
    content: &[u8],
    allowed: Allowed,
    exact_modes: bool,
) -> Result<Lost, Trouble> {
    let mode = allowed.mode(meta);
    let extended = &meta.extended;
    let inherits = directory.has_default_acl();
    // Writing clears set-id bits, so they are always set afterwards. Setting attributes needs write permission.
    let bare = extended.xattrs.as_ref().is_none_or(Vec::is_empty);
    let direct = exact_modes && bare && mode & !0o777 == 0 && !inherits;
    let fd = create_new(
        directory,
        temp,
        OFlags::WRONLY,
        if direct { mode } else { PRIVATE },
    )?;
    let birth = Birth {
        has_mode: direct,
        is_new: true,
        inherits,
        keeps: Some(directory.keeps()),
    };
    let result = write_all(&fd, content)
        .map_err(Trouble::from)
        .and_then(|()| apply(&Target::open(fd.as_fd()), meta, allowed, birth));
    if result.is_err() {
        // Only the first error is reported; a leftover is swept later.
        let _ = unlink(directory, temp);
    }
    result
}

fn write_all(fd: &OwnedFd, content: &[u8]) -> Result<(), Errno> {
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::write(fd, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(bytes) => rest = &rest[bytes..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
