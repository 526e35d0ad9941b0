//! Owns the work on existing entries: lists names and kinds, compares and sets attributes, removes entries.
//! Does not decide which entries are wanted, and creates nothing.

use super::apply::{Birth, Target, apply};
use super::attributes::{Allowed, SET_ID_BITS, meta_of};
use super::directories::{Directories, Directory, Trouble};
use super::mount::is_mount_in;
use super::walk::{Found, ListingBuffer, Names, Step, Walk};
use crate::error::{StoreError, StoreErrorKind};
use crate::extended::Lost;
use crate::handles::with_room;
use crate::meta::{FinalMeta, Kind, Meta, Timestamp};
use crate::path::RelPath;
use crate::storage::SurveyItem;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

/// Lists the entries below `start`, a directory before its contents.
pub(super) fn survey(
    walk: &mut Walk,
    directories: &Directories,
    start: &RelPath,
    each: &mut dyn FnMut(SurveyItem) -> bool,
) -> Result<(), StoreError> {
    let kind = directories.within("list", start, |directory, name| {
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(meta_of(&stat).kind)),
            Err(Errno::NOENT) if !directory.is_gone() => Ok(None),
            Err(error) => Err(error.into()),
        }
    });
    match kind {
        Ok(Some(Kind::Directory)) => walk.enter(start)?,
        Ok(_) => return Ok(()),
        Err(error) if error.kind == StoreErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    loop {
        let item = match walk.next() {
            Step::End => return Ok(()),
            Step::Fault(error) => SurveyItem::Fault(error),
            Step::Name(found) => surveyed(found).unwrap_or_else(SurveyItem::Fault),
        };
        if let SurveyItem::Entry {
            path,
            kind: Kind::Directory,
            ..
        } = &item
        {
            walk.enter(path)?;
        }
        if !each(item) {
            return Ok(());
        }
    }
}

fn surveyed(found: Found<'_>) -> Result<SurveyItem, StoreError> {
    let path = found.path()?;
    let kind = match found.kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::RegularFile => Kind::File,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => rustix::fs::statat(
            found.directory.as_fd(),
            found.name,
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .map(|stat| meta_of(&stat).kind)
        .map_err(|errno| StoreError::from_errno("look at", &path, errno))?,
    };
    let is_mount = kind == Kind::Directory && is_mount_in(found.directory, found.name);
    Ok(SurveyItem::Entry {
        path,
        kind,
        is_mount,
    })
}

/// Whether a file system is mounted at this path.
pub(super) fn is_mount_at(directories: &Directories, path: &RelPath) -> bool {
    let found = directories.within("look at", path, |directory, name| {
        Ok(is_mount_in(directory, name))
    });
    found.unwrap_or(false)
}

/// Lists the names in one directory; an absent directory has no names.
pub(super) fn names_in(
    directories: &Directories,
    path: &RelPath,
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), StoreError> {
    let failed = |errno| StoreError::from_errno("list", path, errno);
    let fd = match directories.open_listing(path.as_bytes()) {
        Err(Errno::NOENT) => return Ok(()),
        fd => fd.map_err(failed)?,
    };
    let mut buffer = ListingBuffer::default();
    let mut at_end = false;
    while !at_end {
        let mut names = Names::default();
        at_end = names.fill_to(1, &fd, &mut buffer).map_err(failed)?;
        (0..names.len()).for_each(|index| each(names.get(index).0));
    }
    Ok(())
}

/// The time of a directory, read from its file system.
pub(super) fn time_of(
    directories: &Directories,
    path: &RelPath,
) -> Result<Option<Timestamp>, StoreError> {
    let failed = |errno| StoreError::from_errno("look at", path, errno);
    let fd = match directories.open_listing(path.as_bytes()) {
        Err(Errno::NOENT) => return Ok(None),
        fd => fd.map_err(failed)?,
    };
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let seen = rustix::fs::statx(&fd, "", flags, StatxFlags::MTIME).map_err(failed)?;
    Ok(Some(Timestamp {
        seconds: seen.stx_mtime.tv_sec,
        nanoseconds: seen.stx_mtime.tv_nsec,
    }))
}

/// Sets only the time of a directory, which may be the storage's own directory.
pub(super) fn restore_mtime(
    directories: &Directories,
    path: &RelPath,
    mtime: Timestamp,
) -> Result<(), StoreError> {
    let failed = |errno| StoreError::from_errno("set the time of", path, errno);
    let fd = directories.open_listing(path.as_bytes()).map_err(failed)?;
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: mtime.nanoseconds.into(),
        },
    };
    rustix::fs::futimens(&fd, &times).map_err(failed)
}

/// Removes an entry; an absent one is fine.
pub(super) fn remove_entry(
    directories: &Directories,
    path: &RelPath,
    is_directory: bool,
) -> Result<(), StoreError> {
    if is_directory {
        directories.forget(path.as_bytes());
    }
    let removed = directories.renaming("remove", path, |directory, name| {
        remove(directories, path, (directory, name), is_directory)
    });
    match removed {
        Err(error) if error.kind == StoreErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a name; an absent one is fine.
fn remove(
    directories: &Directories,
    path: &RelPath,
    (parent, name): (&Directory, &[u8]),
    is_directory: bool,
) -> Result<(), Trouble> {
    let gate = directories.gate();
    if let Some(removed) = gate.remove(directories, path, (parent, name), is_directory) {
        return removed;
    }
    let flags = if is_directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    match rustix::fs::unlinkat(parent, name, flags) {
        Err(Errno::NOENT) if !parent.is_gone() => Ok(()),
        result => Ok(result?),
    }
}

/// Whether the existing entry already has the wanted attributes.
pub(super) fn agrees(there: &Meta, wanted: &FinalMeta, allowed: Allowed) -> bool {
    let owner = !allowed.owner
        || wanted.uid.is_none_or(|uid| uid == there.uid)
            && wanted.gid.is_none_or(|gid| gid == there.gid);
    // A directory's set-id bits stay unchanged if they may not be set.
    let unset = if there.kind == Kind::Directory && !allowed.set_id {
        SET_ID_BITS
    } else {
        0
    };
    let mode = there.kind == Kind::Symlink || there.mode & !unset == allowed.mode(wanted) & !unset;
    owner && mode && there.mtime == wanted.mtime
}

/// Sets the metadata of an existing entry that is not a directory.
pub(super) fn set_meta(
    parent: &Directory,
    name: &[u8],
    meta: &FinalMeta,
    allowed: Allowed,
) -> Result<Lost, Trouble> {
    parent.gate().hold()?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A handle is used because the name may belong to another entry by now.
    let handle = with_room(|| rustix::fs::openat(parent, name, flags, Mode::empty()))?;
    let target = match meta_of(&rustix::fs::fstat(&handle)?).kind {
        Kind::Directory => return Err(StoreErrorKind::TypeConflict.into()),
        Kind::Symlink => Target::link(parent, name),
        _ => Target::handle(&handle),
    };
    let target = target.held_by(parent.gate());
    let birth = Birth {
        has_mode: false,
        is_new: false,
        inherits: false,
        keeps: None,
    };
    parent.gate().shut_or(apply(&target, meta, allowed, birth))
}
