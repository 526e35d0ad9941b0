//! Owns the facts about an entry besides its contents: kind, size, mode, times, owner, and the generation computed from them. Does not read
//! or apply metadata.

use std::time::Duration;

use crate::extended::Extended;
use godwit_seeded::{STEP, mix};

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// The name of this kind in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::Fifo => "FIFO",
            Self::Socket => "socket",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
        }
    }
}

/// A moment: seconds since 1970 (negative before), and nanoseconds to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The moment that lies `age` before this one; `None` if no timestamp can represent it.
    #[must_use]
    pub fn before(self, age: Duration) -> Option<Self> {
        let seconds = self.seconds.checked_sub_unsigned(age.as_secs())?;
        let earlier = |nanoseconds: u32| Self {
            seconds,
            nanoseconds,
        };
        match self.nanoseconds.checked_sub(age.subsec_nanos()) {
            Some(nanoseconds) => Some(earlier(nanoseconds)),
            None => Some(Self {
                seconds: seconds.checked_sub(1)?,
                ..earlier(self.nanoseconds + 1_000_000_000 - age.subsec_nanos())
            }),
        }
    }

    /// As in `2026-11-24 22:00:05.000000250 UTC`, for sentences. Years without four digits become seconds since 1970.
    #[must_use]
    pub fn utc(self) -> String {
        let time = self
            .seconds
            .checked_mul(1_000)
            .map(godwit_model::Timestamp)
            .filter(|time| time.rfc3339().parse::<godwit_model::Timestamp>() == Ok(*time));
        match time {
            Some(time) => format!(
                "{}.{:09} UTC",
                time.utc().trim_end_matches(" UTC"),
                self.nanoseconds
            ),
            None => format!(
                "{}.{:09} seconds since 1970",
                self.seconds, self.nanoseconds
            ),
        }
    }
}

/// The state of an entry at one moment, from the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Kind of the entry.
    pub kind: Kind,
    /// Permission, setuid, setgid and sticky bits; nothing above `0o7777`.
    pub mode: u32,
    /// Length of the contents, or of the target for a symbolic link.
    pub bytes: u64,
    /// A file that occupies at least a page less than its length: it has holes, or the file system compresses. Not part of the generation.
    pub sparse: bool,
    /// When the contents last changed.
    pub mtime: Timestamp,
    /// When the contents or metadata last changed.
    pub ctime: Timestamp,
    /// Number of the inode.
    pub inode: u64,
    /// Number of the device that contains the entry.
    pub device: u64,
    /// Number of names.
    pub links: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device number of a device node, in the kernel's packed form; otherwise 0. Not part of the generation.
    pub rdev: u64,
}

impl Meta {
    /// A number that changes whenever kind, size, mtime, ctime or inode change, except by coincidence; the same in every process.
    ///
    /// The device number is left out, because clients of one NFS server see different numbers, and a reboot may change it. With it, either
    /// event would make the data of an interrupted transfer unusable. A change of this function has that effect once: journals contain
    /// these numbers, and bytes of two generations are never mixed.
    pub fn generation(&self) -> u64 {
        [
            self.kind as u64,
            self.bytes,
            self.mtime.seconds.cast_unsigned(),
            u64::from(self.mtime.nanoseconds),
            self.ctime.seconds.cast_unsigned(),
            u64::from(self.ctime.nanoseconds),
            self.inode,
        ]
        .into_iter()
        .fold(GENERATION_SEED, |hash, field| {
            mix(hash.rotate_left(23) ^ field)
        })
    }
}

/// Metadata that an entry gets when it is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinalMeta {
    /// Permission and set-id bits; the storage may refuse set-id bits.
    pub mode: u32,
    /// Modification time.
    pub mtime: Timestamp,
    /// Owner to set, if requested; the storage may refuse it.
    pub uid: Option<u32>,
    /// Group to set, if requested; the storage may refuse it.
    pub gid: Option<u32>,
    /// Extended attributes and access lists, as far as requested.
    pub extended: Extended,
    /// Whether to fail if any of these attributes cannot be set.
    pub strict: bool,
}

/// Any odd constant would do; it is fixed, because journals outlive releases.
const GENERATION_SEED: u64 = STEP;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_sentences_are_dates_where_there_is_one() {
        let shown = |seconds, nanoseconds| {
            Timestamp {
                seconds,
                nanoseconds,
            }
            .utc()
        };
        assert_eq!(
            shown(1_795_471_205, 250),
            "2026-11-23 22:00:05.000000250 UTC"
        );
        assert_eq!(shown(-1, 999_999_999), "1969-12-31 23:59:59.999999999 UTC");
        assert_eq!(
            shown(i64::MAX, 1),
            format!("{}.000000001 seconds since 1970", i64::MAX)
        );
        assert_eq!(
            shown(1 << 40, 0),
            "1099511627776.000000000 seconds since 1970"
        );
    }

    fn meta() -> Meta {
        let time = Timestamp {
            seconds: 1_600_000_000,
            nanoseconds: 5,
        };
        Meta {
            kind: Kind::File,
            mode: 0o644,
            bytes: 10,
            sparse: false,
            mtime: time,
            ctime: time,
            inode: 7,
            device: 8,
            links: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
        }
    }

    #[test]
    fn generation_follows_contents_not_names_or_modes() {
        let base = meta().generation();
        assert_eq!(
            base,
            Meta {
                mode: 0o600,
                links: 3,
                uid: 9,
                gid: 9,
                ..meta()
            }
            .generation()
        );
        let later = Timestamp {
            seconds: 1_600_000_000,
            nanoseconds: 6,
        };
        for changed in [
            Meta {
                kind: Kind::Symlink,
                ..meta()
            },
            Meta {
                bytes: 11,
                ..meta()
            },
            Meta {
                mtime: later,
                ..meta()
            },
            Meta {
                ctime: later,
                ..meta()
            },
            Meta { inode: 8, ..meta() },
        ] {
            assert_ne!(base, changed.generation(), "{changed:?}");
        }
    }

    #[test]
    fn generation_is_the_same_under_another_device_number() {
        let moved = Meta {
            device: 7,
            ..meta()
        };
        assert_eq!(meta().generation(), moved.generation());
    }

    #[test]
    fn generation_is_the_same_in_every_release() {
        assert_eq!(meta().generation(), 9_330_823_618_046_240_337);
        // Older releases included the device, so their journals cover nothing under today's number.
        assert_ne!(meta().generation(), 10_386_696_868_977_146_259);
    }
}
