//! Owns the calls that add and remove names: directories, links, renames, removals, attributes of directories.
//! Does not write contents and does not sync.

use super::apply::{Birth, Target, apply};
use super::attributes::{Allowed, SET_ID_BITS, meta_of, mode_of};
use super::directories::{Directories, Directory, Trouble};
use super::write::{handle_path, unlink};
use crate::error::{StoreError, StoreErrorKind};
use crate::extended::Lost;
use crate::handles::with_room;
use crate::meta::{FinalMeta, Kind};
use crate::path::{RelPath, TempName};
use crate::storage::Replace;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Creates a directory and its missing parents.
pub(super) fn make_directory(
    directories: &Directories,
    path: &RelPath,
    mode: Mode,
) -> Result<bool, StoreError> {
    let make = |path: &RelPath| {
        directories.within("make the directory", path, |parent, name| {
            mkdir(parent, name, mode)
        })
    };
    // Lengths alone: together, the paths of a deep directory take far more memory than the longest one.
    let mut missing = Vec::new();
    let mut at = path.clone();
    let made = loop {
        match make(&at) {
            Err(error) if error.kind == StoreErrorKind::NotFound => {
                let parent = at
                    .parent()
                    .filter(|parent| !parent.is_root())
                    .ok_or(error)?;
                missing.push(at.as_bytes().len());
                at = parent;
            }
            result => break result?,
        }
    };
    // Each path was tried before its parent, so the last one in the list is the highest.
    missing
        .iter()
        .rev()
        .try_fold(made, |_, length| make(&path.start(*length)))
}

fn mkdir(parent: &Directory, name: &[u8], mode: Mode) -> Result<bool, Trouble> {
    match parent.gate().make_directory(parent, name, mode) {
        Ok(()) => Ok(true),
        Err(Trouble::Errno(Errno::EXIST)) => {
            let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if meta_of(&stat).kind == Kind::Directory {
                Ok(false)
            } else {
                Err(StoreErrorKind::TypeConflict.into())
            }
        }
        Err(error) => Err(error),
    }
}

/// Creates a symbolic link under its temporary name, then renames it.
pub(super) fn make_symlink(
    parent: &Directory,
    name: &[u8],
    target: &[u8],
    meta: &FinalMeta,
    temp: &TempName,
    finish: (Allowed, Replace, bool),
) -> Result<Lost, Trouble> {
    let (allowed, replace, noreplace) = finish;
    let birth = |is_new| Birth {
        has_mode: true,
        is_new,
        inherits: false,
        keeps: Some(parent.keeps()),
    };
    let is_there = || {
        let there = rustix::fs::readlinkat(parent, name, Vec::new());
        // A link with several names is not changed; a new link is created under this name.
        let meta = || rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| there.as_bytes() == target)
            && meta().is_ok_and(|meta| meta.st_nlink == 1)
    };
    parent.gate().hold()?;
    // A link that a late call may change is created again, so that the late call finds no link with a name.
    if replace == Replace::Atomically && !parent.gate().is_set() && is_there() {
        return apply(&Target::link(parent, name), meta, allowed, birth(false));
    }
    unlink(parent, temp)?;
    rustix::fs::symlinkat(target, parent, temp.as_bytes())?;
    let made = Target::link(parent, temp.as_bytes());
    let result = apply(&made, meta, allowed, birth(true)).and_then(|lost| {
        commit(parent, name, temp, replace, noreplace)?;
        Ok(lost)
    });
    if result.is_err() {
        // Only the first error is reported; a leftover is swept later.
        let _ = unlink(parent, temp);
    }
    result
}

/// Makes `path` another name of `first`.
pub(super) fn make_link(
    directories: &Directories,
    path: &RelPath,
    first: &RelPath,
    temp: &TempName,
    replace: Replace,
) -> Result<(), StoreError> {
    directories.within("link", first, |first_parent, first_name| {
        let result = directories.renaming("link", path, |parent, name| {
            link((first_parent, first_name), (parent, name), temp, replace)
        });
        match result {
            // A retry helps if the directory of `first` was removed.
            Err(error) if error.kind == StoreErrorKind::NotFound && first_parent.is_gone() => {
                Err(Errno::NOENT.into())
            }
            result => Ok(result),
        }
    })?
}

fn link(
    (first_parent, first_name): (&Directory, &[u8]),
    (parent, name): (&Directory, &[u8]),
    temp: &TempName,
    replace: Replace,
) -> Result<(), Trouble> {
    parent.gate().hold()?;
    let is_free = || {
        let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        there.is_err_and(|error| error == Errno::NOENT)
    };
    if !parent.gate().is_set() {
        match rustix::fs::linkat(first_parent, first_name, parent, name, AtFlags::empty()) {
            Err(Errno::EXIST) => {}
            result => return Ok(result?),
        }
    } else if is_free() {
        // If this call takes effect late, it creates only a temporary name.
        unlink(parent, temp)?;
        let flags = AtFlags::empty();
        rustix::fs::linkat(first_parent, first_name, parent, temp.as_bytes(), flags)?;
        return commit(parent, name, temp, Replace::Never, true).inspect_err(|_| {
            let _ = unlink(parent, temp);
        });
    }
    let first = meta_of(&rustix::fs::statat(
        first_parent,
        first_name,
        AtFlags::SYMLINK_NOFOLLOW,
    )?);
    let there = meta_of(&rustix::fs::statat(
        parent,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
    )?);
    if first.kind == Kind::Directory {
        return Err(Errno::PERM.into());
    }
    if (first.device, first.inode) == (there.device, there.inode) {
        return Ok(());
    }
    if replace == Replace::Never {
        return Err(StoreErrorKind::Exists.into());
    }
    unlink(parent, temp)?;
    rustix::fs::linkat(
        first_parent,
        first_name,
        parent,
        temp.as_bytes(),
        AtFlags::empty(),
    )?;
    let result = parent.gate().hold().and_then(|()| {
        let renamed = rustix::fs::renameat(parent, temp.as_bytes(), parent, name);
        Ok(renamed?)
    });
    // Needed after success too: a rename between two names of one file leaves both.
    unlink(parent, temp)?;
    result
}

/// Renames a temporary file to its final name, unless the gate is shut.
pub(super) fn commit(
    parent: &Directory,
    name: &[u8],
    temp: &TempName,
    replace: Replace,
    noreplace: bool,
) -> Result<(), Trouble> {
    parent.gate().hold()?;
    rename_ungated(parent, name, temp, replace, noreplace)
}

/// Like [`commit`], without asking the gate.
pub(super) fn rename_ungated(
    parent: &Directory,
    name: &[u8],
    temp: &TempName,
    replace: Replace,
    noreplace: bool,
) -> Result<(), Trouble> {
    if replace == Replace::Atomically {
        return Ok(rustix::fs::renameat(parent, temp.as_bytes(), parent, name)?);
    }
    if noreplace {
        match rustix::fs::renameat_with(
            parent,
            temp.as_bytes(),
            parent,
            name,
            RenameFlags::NOREPLACE,
        ) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            result => return Ok(result?),
        }
    }
    match rustix::fs::linkat(parent, temp.as_bytes(), parent, name, AtFlags::empty()) {
        Ok(()) => return Ok(unlink(parent, temp)?),
        // The file system supports neither this kind of rename nor links, so only a check beforehand remains.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {}
        Err(error) => return Err(error.into()),
    }
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(StoreErrorKind::Exists.into()),
        Err(Errno::NOENT) => Ok(rustix::fs::renameat(parent, temp.as_bytes(), parent, name)?),
        Err(error) => Err(error.into()),
    }
}

/// Renames an entry, perhaps to another directory.
pub(super) fn rename(
    directories: &Directories,
    from: &RelPath,
    to: &RelPath,
    replace: Replace,
) -> Result<(), StoreError> {
    let renamed = directories.renaming("rename", from, |from_parent, from_name| {
        let result = directories.renaming("rename to", to, |parent, name| {
            rename_entry((from_parent, from_name), (parent, name), replace)
        });
        match result {
            // A retry helps if the directory of `from` was removed.
            Err(error) if error.kind == StoreErrorKind::NotFound && from_parent.is_gone() => {
                Err(Errno::NOENT.into())
            }
            result => Ok(result),
        }
    });
    // Kept handles of directories below either name are now stale.
    directories.forget_all();
    renamed?
}

fn rename_entry(
    (from_parent, from_name): (&Directory, &[u8]),
    (parent, name): (&Directory, &[u8]),
    replace: Replace,
) -> Result<(), Trouble> {
    parent.gate().hold()?;
    let flags = match replace {
        Replace::Never => RenameFlags::NOREPLACE,
        Replace::Atomically => RenameFlags::empty(),
    };
    match rustix::fs::renameat_with(from_parent, from_name, parent, name, flags) {
        // Moving a directory into itself is invalid too, and fails again below.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(Errno::XDEV) => return Err(StoreErrorKind::Unsupported.into()),
        result => return Ok(result?),
    }
    if replace == Replace::Never
        && rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    {
        return Err(StoreErrorKind::Exists.into());
    }
    Ok(rustix::fs::renameat(from_parent, from_name, parent, name)?)
}

/// Sets the attributes of a directory. Set-id bits that may not be applied stay as they are. A directory mostly inherits
/// them from its parent, for a group that works there together.
pub(super) fn set_directory_meta(
    parent: &Directory,
    name: &[u8],
    meta: &FinalMeta,
    allowed: Allowed,
) -> Result<Lost, Trouble> {
    parent.gate().hold()?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (fd, readable) =
        match with_room(|| rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty()))
        {
            Ok(fd) => (fd, true),
            Err(Errno::ACCESS) => (
                with_room(|| {
                    rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())
                })?,
                false,
            ),
            Err(error) => return Err(error.into()),
        };
    let target = if readable {
        Target::open(fd.as_fd())
    } else {
        Target::handle(&fd)
    };
    let target = target.held_by(parent.gate());
    let mut meta = meta.clone();
    let mut allowed = allowed;
    let mut withheld = Lost::NOTHING;
    if !allowed.set_id {
        let there = meta_of(&target.stat()?).mode & SET_ID_BITS;
        if meta.mode & SET_ID_BITS & !there != 0 {
            withheld = Lost::SET_ID;
        }
        meta.mode = (meta.mode & !SET_ID_BITS) | there;
        allowed.set_id = true;
    }
    if meta.strict && !withheld.is_nothing() {
        return Err(Trouble::Lost(withheld));
    }
    let birth = Birth {
        has_mode: false,
        is_new: false,
        inherits: true,
        keeps: None,
    };
    let set = parent.gate().shut_or(apply(&target, &meta, allowed, birth));
    Ok(set? | withheld)
}

/// Adds the owner's permissions to a directory if we own it and the mode denies us access. Returns whether that was
/// necessary.
pub(super) fn open_directory(parent: &Directory, name: &[u8]) -> Result<bool, Trouble> {
    let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let meta = meta_of(&there);
    let closed = meta.mode & OWNER_BITS != OWNER_BITS;
    if meta.kind != Kind::Directory || !closed || meta.uid != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
    let handle = with_room(|| rustix::fs::openat(parent, name, flags, Mode::empty()))?;
    parent.gate().hold()?;
    rustix::fs::chmodat(
        CWD,
        handle_path(&handle).as_str(),
        mode_of(meta.mode | OWNER_BITS),
        AtFlags::empty(),
    )?;
    Ok(true)
}

/// The mode bits that an owner needs to work in a directory.
const OWNER_BITS: u32 = 0o700;
