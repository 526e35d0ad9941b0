//! Gives files that root wrote into a home to the owner of the home, because a service must be able to read its files.
//! Follows no link, so that users of the home cannot lead root astray.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, openat};
use rustix::process::geteuid;

/// Deepest level of directories in a home; deeper directories do not belong to the home.
const DEPTH_MAX: u32 = 8;

/// Gives all files in the home to its owner, except under names that others may have put there.
pub(super) fn give(home: &Path, names: &[&str]) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let home = directory(CWD, home)?;
    let owner = fstat(&home)?;
    let owner = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
    for entry in Dir::read_from(&home)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .is_ok_and(|name| names.iter().any(|ours| name.starts_with(ours)));
        if is_ours {
            give_entry(home.as_fd(), name, entry.file_type(), owner, DEPTH_MAX)?;
        }
    }
    Ok(())
}

fn give_entry(
    parent: BorrowedFd<'_>,
    name: &CStr,
    kind: FileType,
    owner: (Uid, Gid),
    depth: u32,
) -> io::Result<()> {
    chownat(
        parent,
        name,
        Some(owner.0),
        Some(owner.1),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    if kind != FileType::Directory || depth == 0 {
        return Ok(());
    }
    let own = directory(parent, name)?;
    for entry in Dir::read_from(&own)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            give_entry(own.as_fd(), name, entry.file_type(), owner, depth - 1)?;
        }
    }
    Ok(())
}

fn directory<P: rustix::path::Arg>(parent: BorrowedFd<'_>, name: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}
