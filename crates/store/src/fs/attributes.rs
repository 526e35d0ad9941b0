//! Owns the translation between the kernel's metadata and our own types, and decides which attributes may be applied. Opens no files.

use crate::meta::{FinalMeta, Kind, Meta, Timestamp};
use rustix::fs::{FileType, Mode, Stat, Timespec, Timestamps, UTIME_OMIT};

/// The owner of the tree: a node or the user of this process. Both kinds stay beneath the root and follow no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Confine {
    /// A tree that a node exports to peers. Set-id bits, ownership and other attributes that concern the whole machine are applied only if
    /// granted.
    Export,
    /// A tree that the user of this process named: attributes are applied as given.
    Local,
}

/// Permission and sticky bits.
const PERMISSION_BITS: u32 = 0o1777;
/// Setuid and setgid.
pub(super) const SET_ID_BITS: u32 = 0o6000;

/// Which attributes of a peer are applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    pub(super) set_id: bool,
    pub(super) owner: bool,
    /// `security.*` and `trusted.*` attributes.
    pub(super) privileged_xattrs: bool,
}

impl Allowed {
    /// The mode bits to apply.
    pub(super) fn mode(self, meta: &FinalMeta) -> u32 {
        meta.mode
            & if self.set_id {
                PERMISSION_BITS | SET_ID_BITS
            } else {
                PERMISSION_BITS
            }
    }
}

/// Metadata from the kernel's stat.
pub(super) fn meta_of(stat: &Stat) -> Meta {
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let occupied = u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(512);
    Meta {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        mode: stat.st_mode & 0o7777,
        bytes,
        sparse: occupied.saturating_add(4096) <= bytes,
        mtime: timestamp(stat.st_mtime, stat.st_mtime_nsec),
        ctime: timestamp(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
        device: stat.st_dev,
        links: stat.st_nlink,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice | FileType::BlockDevice => stat.st_rdev,
            _ => 0,
        },
    }
}

pub(super) fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::File,
    }
}

fn timestamp(seconds: i64, nanoseconds: u64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    }
}

/// The times to set: this mtime; the atime stays.
pub(super) fn times_of(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: i64::from(mtime.nanoseconds.min(999_999_999)),
        },
    }
}

/// Mode bits in the kernel's form.
pub(super) fn mode_of(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}
