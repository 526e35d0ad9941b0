//! Creates FIFOs, sockets and device nodes under a temporary name, and renames them. Does not
//! decide whether they are wanted.

use super::apply::{Birth, Target, apply};
use super::attributes::{Allowed, kind_of, mode_of};
use super::directories::{Directory, Trouble};
use super::names::commit;
use super::write::unlink;
use crate::error::StoreErrorKind;
use crate::extended::Lost;
use crate::handles::with_room;
use crate::meta::{FinalMeta, Kind};
use crate::path::TempName;
use crate::storage::Replace;
use rustix::fs::{FileType, Mode, OFlags};

/// The special file to make.
pub(super) struct Special {
    pub(super) kind: Kind,
    /// The device of a device node.
    pub(super) rdev: u64,
    /// Whether device nodes may be created.
    pub(super) devices_allowed: bool,
}

/// Mode until the file is complete: no other user has access.
const PRIVATE: u32 = 0o600;

impl Special {
    /// Name of the operation in messages.
    pub(super) fn operation(&self) -> &'static str {
        match self.kind {
            Kind::Fifo => "make the FIFO",
            Kind::Socket => "make the socket",
            _ => "make the device node",
        }
    }

    /// The kernel's file type and device number; an error if the entry is not special, or not
    /// allowed.
    fn node(&self) -> Result<(FileType, u64), Trouble> {
        Ok(match self.kind {
            Kind::Fifo => (FileType::Fifo, 0),
            Kind::Socket => (FileType::Socket, 0),
            Kind::CharDevice | Kind::BlockDevice if !self.devices_allowed => {
                return Err(StoreErrorKind::Permission.into());
            }
            Kind::CharDevice => (FileType::CharacterDevice, self.rdev),
            Kind::BlockDevice => (FileType::BlockDevice, self.rdev),
            Kind::File | Kind::Directory | Kind::Symlink => {
                return Err(StoreErrorKind::Unsupported.into());
            }
        })
    }
}

/// Creates the special file under its temporary name, then renames it. After an error no file is
/// left.
pub(super) fn make(
    parent: &Directory,
    name: &[u8],
    what: &Special,
    meta: &FinalMeta,
    temp: &TempName,
    finish: (Allowed, Replace, bool),
) -> Result<Lost, Trouble> {
    let (allowed, replace, noreplace) = finish;
    let (kind, device) = what.node()?;
    parent.gate().hold()?;
    unlink(parent, temp)?;
    rustix::fs::mknodat(parent, temp.as_bytes(), kind, mode_of(PRIVATE), device)?;
    let result = complete(parent, kind, meta, temp, allowed).and_then(|lost| {
        commit(parent, name, temp, replace, noreplace)?;
        Ok(lost)
    });
    if result.is_err() {
        // Only the first error is reported; a leftover is swept later.
        let _ = unlink(parent, temp);
    }
    result
}

/// Sets the metadata by a handle without rights, because opening a device for reading could trigger
/// an action.
fn complete(
    parent: &Directory,
    kind: FileType,
    meta: &FinalMeta,
    temp: &TempName,
    allowed: Allowed,
) -> Result<Lost, Trouble> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = with_room(|| rustix::fs::openat(parent, temp.as_bytes(), flags, Mode::empty()))?;
    let target = Target::handle(&handle);
    if kind_of(FileType::from_raw_mode(target.stat()?.st_mode)) != kind_of(kind) {
        // Another program has replaced the entry.
        return Err(StoreErrorKind::Exists.into());
    }
    let birth = Birth {
        has_mode: false,
        is_new: true,
        inherits: parent.has_default_acl(),
        keeps: Some(parent.keeps()),
    };
    apply(&target, meta, allowed, birth)
}
