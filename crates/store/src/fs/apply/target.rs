//! Owns the calls that read and change the attributes of one entry, by handle or by name. Does not decide which calls are made.

use crate::extended::XattrClass;
use crate::fs::attributes::{meta_of, mode_of, times_of};
use crate::fs::directories::Directory;
use crate::fs::gate::Gate;
use crate::fs::write::handle_path;
use crate::fs::xattr::entry_path;
use crate::meta::FinalMeta;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Stat, StatVfs, Uid, XattrFlags};
use rustix::io::Errno;

/// A file system with less room than this counts as full.
const ROOM_BYTES: u64 = 1 << 20;

/// The entry, and the gate to ask before each call that changes it.
pub(in crate::fs) struct Target<'a> {
    at: At<'a>,
    gate: Option<&'a Gate>,
}

/// How to reach an entry.
enum At<'a> {
    /// An entry opened for reading or writing.
    Open(BorrowedFd<'a>),
    /// A handle without rights.
    Handle(&'a OwnedFd),
    /// A symbolic link by its name.
    Link(&'a Directory, &'a [u8]),
}

impl<'a> Target<'a> {
    /// An entry that is open for reading or writing.
    pub(in crate::fs) fn open(fd: BorrowedFd<'a>) -> Self {
        let (at, gate) = (At::Open(fd), None);
        Self { at, gate }
    }

    /// An entry by a handle without rights.
    pub(in crate::fs) fn handle(fd: &'a OwnedFd) -> Self {
        let (at, gate) = (At::Handle(fd), None);
        Self { at, gate }
    }

    /// A symbolic link by its name.
    pub(in crate::fs) fn link(parent: &'a Directory, name: &'a [u8]) -> Self {
        let (at, gate) = (At::Link(parent, name), None);
        Self { at, gate }
    }

    /// The same for an entry that others already use: the gate is asked before each call, and calls that would change nothing are skipped.
    /// If a call hangs, other nodes can therefore see that its change is missing.
    pub(in crate::fs) fn held_by(self, gate: &'a Gate) -> Self {
        let gate = Some(gate).filter(|gate| gate.is_set());
        Self { gate, ..self }
    }

    pub(super) fn is_link(&self) -> bool {
        matches!(self.at, At::Link(..))
    }

    /// Whether a call is needed: false if the entry already has the wanted value. `CANCELED` if the gate is shut; callers do not mistake
    /// it for a refusal by the file system.
    fn may_change(&self, is_so: impl FnOnce(&Stat) -> bool) -> Result<bool, Errno> {
        let Some(gate) = self.gate else {
            return Ok(true);
        };
        if is_so(&self.stat()?) {
            return Ok(false);
        }
        gate.hold().map(|()| true).map_err(|_shut| Errno::CANCELED)
    }

    pub(super) fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        let is_so = |there: &Stat| {
            uid.is_none_or(|uid| uid == there.st_uid) && gid.is_none_or(|gid| gid == there.st_gid)
        };
        if !self.may_change(is_so)? {
            return Ok(());
        }
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        match &self.at {
            At::Open(fd) => rustix::fs::fchown(fd, uid, gid),
            At::Handle(fd) => rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH),
            At::Link(parent, name) => {
                rustix::fs::chownat(parent, *name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    pub(super) fn chmod(&self, mode: u32) -> Result<(), Errno> {
        if !self.may_change(|there| there.st_mode & 0o7777 == mode)? {
            return Ok(());
        }
        match &self.at {
            At::Open(fd) => rustix::fs::fchmod(fd, mode_of(mode)),
            At::Handle(fd) => rustix::fs::chmodat(
                CWD,
                handle_path(fd).as_str(),
                mode_of(mode),
                AtFlags::empty(),
            ),
            At::Link(..) => Ok(()),
        }
    }

    pub(super) fn set_times(&self, meta: &FinalMeta) -> Result<(), Errno> {
        if !self.may_change(|there| meta_of(there).mtime == meta.mtime)? {
            return Ok(());
        }
        let times = times_of(meta.mtime);
        match &self.at {
            At::Open(fd) => rustix::fs::futimens(fd, &times),
            At::Handle(fd) => {
                rustix::fs::utimensat(CWD, handle_path(fd).as_str(), &times, AtFlags::empty())
            }
            At::Link(parent, name) => {
                rustix::fs::utimensat(parent, *name, &times, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    pub(in crate::fs) fn stat(&self) -> Result<Stat, Errno> {
        match &self.at {
            At::Open(fd) => rustix::fs::fstat(fd),
            At::Handle(fd) => rustix::fs::fstat(fd),
            At::Link(parent, name) => rustix::fs::statat(parent, *name, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        if !self.may_change(|_| self.has_value(name, value))? {
            return Ok(());
        }
        let flags = XattrFlags::empty();
        match &self.at {
            At::Open(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            At::Handle(fd) => rustix::fs::setxattr(handle_path(fd).as_str(), name, value, flags),
            At::Link(parent, link) => {
                rustix::fs::lsetxattr(entry_path(parent, link), name, value, flags)
            }
        }
    }

    pub(super) fn remove_xattr(&self, name: &[u8]) -> Result<(), Errno> {
        if !self.may_change(|_| false)? {
            return Ok(());
        }
        match &self.at {
            At::Open(fd) => rustix::fs::fremovexattr(fd, name),
            At::Handle(fd) => rustix::fs::removexattr(handle_path(fd).as_str(), name),
            At::Link(parent, link) => rustix::fs::lremovexattr(entry_path(parent, link), name),
        }
    }

    pub(super) fn has_xattr(&self, name: &[u8]) -> bool {
        self.xattr(name, &mut []).is_ok()
    }

    fn has_value(&self, name: &[u8], value: &[u8]) -> bool {
        // A longer value does not fit, and differs anyway.
        let mut found = vec![0; value.len()];
        self.xattr(name, &mut found) == Ok(value.len()) && found == value
    }

    fn xattr(&self, name: &[u8], value: &mut [u8]) -> Result<usize, Errno> {
        match &self.at {
            At::Open(fd) => rustix::fs::fgetxattr(fd, name, value),
            At::Handle(fd) => rustix::fs::getxattr(handle_path(fd).as_str(), name, value),
            At::Link(parent, link) => rustix::fs::lgetxattr(entry_path(parent, link), name, value),
        }
    }

    pub(super) fn list_xattrs(&self, list: &mut [u8]) -> Result<usize, Errno> {
        match &self.at {
            At::Open(fd) => rustix::fs::flistxattr(fd, list),
            At::Handle(fd) => rustix::fs::listxattr(handle_path(fd).as_str(), list),
            At::Link(parent, link) => rustix::fs::llistxattr(entry_path(parent, link), list),
        }
    }

    /// Whether the file system refuses this kind of attribute; false if the storage fails or is full.
    pub(super) fn cannot_hold(&self, name: &[u8], error: Errno) -> bool {
        match error {
            // The cause is a security module or a missing capability. For other attributes this error means that we lack permission, not
            // that the file system lacks support.
            Errno::ACCESS => XattrClass::of(name) == XattrClass::Privileged,
            // Some file systems return this for attributes that are too long for them.
            Errno::NOSPC => self.room().is_ok_and(|room| room >= ROOM_BYTES),
            Errno::TOOBIG | Errno::RANGE | Errno::NAMETOOLONG => true,
            error => is_refused(error),
        }
    }

    fn room(&self) -> Result<u64, Errno> {
        let of: StatVfs = match &self.at {
            At::Open(fd) => rustix::fs::fstatvfs(fd),
            At::Handle(fd) => rustix::fs::fstatvfs(fd),
            At::Link(parent, _) => rustix::fs::fstatvfs(parent),
        }?;
        Ok(of.f_bavail.saturating_mul(of.f_frsize))
    }
}

/// The call is not permitted, or this file system does not support it.
pub(super) fn is_refused(error: Errno) -> bool {
    [
        Errno::PERM,
        Errno::ACCESS,
        Errno::INVAL,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::OVERFLOW,
    ]
    .contains(&error)
}
