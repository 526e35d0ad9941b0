//! Owns records: encoded descriptions of entries, packed one after another with shared path prefixes. Does not know which
//! frame carries them. `docs/wire.md`, "Records".

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{take, take_slice};
use crate::error::WireError;
use crate::ids::{Digest, EntryId, Generation};
use crate::limits::{
    EXTENSIONS_BYTES_MAX, NANOSECONDS_PER_SECOND, PATHS_BYTES_MAX, RECORD_BYTES, RECORDS_MAX,
};
use crate::{extension, path};

/// Kind of an entry. Unknown kinds are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryKind(pub u8);

impl EntryKind {
    /// A regular file.
    pub const FILE: Self = Self(1);
    /// A directory.
    pub const DIRECTORY: Self = Self(2);
    /// A symbolic link; the record's target is the link's content.
    pub const SYMLINK: Self = Self(3);
    /// An additional name of a file; the record's target is the first name, below the same root.
    pub const HARD_LINK: Self = Self(4);
    /// A named pipe.
    pub const FIFO: Self = Self(5);
    /// A socket.
    pub const SOCKET: Self = Self(6);
    /// A character device; its number is an extension.
    pub const CHAR_DEVICE: Self = Self(7);
    /// A block device; its number is an extension.
    pub const BLOCK_DEVICE: Self = Self(8);

    /// A FIFO, a socket or a device node.
    pub const fn is_special(self) -> bool {
        matches!(
            self,
            Self::FIFO | Self::SOCKET | Self::CHAR_DEVICE | Self::BLOCK_DEVICE
        )
    }
}

/// Flags of a record. Unknown ones are kept.
#[derive(Clone, Copy, Debug)]
pub struct RecordFlags;

impl RecordFlags {
    /// The record has a digest of the whole file. In encoded form, this flag marks the presence of [`Record::digest`];
    /// encoders set it.
    pub const HAS_DIGEST: u8 = 1;
    /// Every slice of the file was sent or is held; `data_bytes` is their total length. The record has no contents.
    pub const END: u8 = 2;
    /// The entry failed at the source; its received parts must be discarded.
    pub const SOURCE_FAILED: u8 = 4;
    /// The file has no holes.
    pub const DENSE: u8 = 8;
    /// The file seems to have holes; a hint only for the sender.
    pub const SPARSE: u8 = 16;
    /// The entry exists, but the selection's limits skip it: neither the entry nor its counterpart is changed.
    pub const PASSED_OVER: u8 = 32;
    /// The file has more names at the source. A receiver may request the digest of the file before it makes the links.
    pub const HAS_NAMES: u8 = 64;
}

/// The description of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The entry's number within the transfer.
    pub id: EntryId,
    /// Index of the source that contains the entry.
    pub root: u16,
    /// The entry's kind.
    pub kind: EntryKind,
    /// See [`RecordFlags`].
    pub flags: u8,
    /// Number of earlier generations of the entry.
    pub attempt: u16,
    /// State of the source file.
    pub generation: Generation,
    /// Size in bytes, or [`UNKNOWN_BYTES`](crate::UNKNOWN_BYTES) if not known yet.
    pub bytes: u64,
    /// With [`RecordFlags::END`]: total length of all slices, including those that the receiver held. Otherwise 0.
    pub data_bytes: u64,
    /// Modification time, seconds since 1970.
    pub mtime_seconds: i64,
    /// Fraction of the modification time, below 10⁹.
    pub mtime_nanoseconds: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Path below the root; empty for the root itself.
    pub path: Vec<u8>,
    /// Content of a symbolic link, or the first name of a hard link.
    pub target: Vec<u8>,
    /// Digest of the whole file.
    pub digest: Option<Digest>,
    /// See [`extension`].
    pub extensions: Vec<u8>,
}

impl Record {
    /// Whether the file's contents are in the payload of the bundle with this record.
    pub fn has_content(&self) -> bool {
        self.kind == EntryKind::FILE
            && self.flags & (RecordFlags::END | RecordFlags::SOURCE_FAILED) == 0
    }

    /// The first name of the entry, if this is an additional name of a link or special file.
    pub fn first_name(&self) -> Option<&[u8]> {
        if self.kind != EntryKind::SYMLINK && !self.kind.is_special() {
            return None;
        }
        let mut all = extension::iter(&self.extensions).flatten();
        let (_, first) = all.find(|(kind, _)| *kind == extension::FIRST_NAME)?;
        path::validate(first).is_ok().then_some(first)
    }

    /// Releases memory beyond the size of a usual path.
    pub(crate) fn trim(&mut self) {
        if self.path.capacity() > PATH_BYTES_KEPT {
            self.path = Vec::new();
        }
        self.target = Vec::new();
        self.extensions = Vec::new();
    }

    /// Memory that the record takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let texts = [&self.path, &self.target, &self.extensions];
        size_of::<Self>() + texts.map(Vec::capacity).iter().sum::<usize>()
    }

    /// Checks rules of a record that hold on either side.
    ///
    /// # Errors
    /// The broken rule.
    pub fn validate(&self) -> Result<(), WireError> {
        path::validate(&self.path)?;
        if self.mtime_nanoseconds >= NANOSECONDS_PER_SECOND {
            return Err(WireError::invalid(
                "mtime",
                "has a whole second in its nanoseconds",
            ));
        }
        match self.kind {
            // The link may have vanished before it was read.
            EntryKind::SYMLINK
                if self.target.is_empty() && self.flags & RecordFlags::SOURCE_FAILED != 0 => {}
            EntryKind::SYMLINK => path::validate_target(&self.target)?,
            EntryKind::HARD_LINK => path::validate(&self.target)?,
            kind if (matches!(kind, EntryKind::FILE | EntryKind::DIRECTORY)
                || kind.is_special())
                && !self.target.is_empty() =>
            {
                return Err(WireError::invalid(
                    "link target",
                    "belongs to an entry that is not a link",
                ));
            }
            _ => {}
        }
        if self.extensions.len() > EXTENSIONS_BYTES_MAX {
            return Err(WireError::too_long(
                "extensions",
                EXTENSIONS_BYTES_MAX as u64,
            ));
        }
        extension::validate(&self.extensions)
    }
}

/// Most memory of a path that is kept for reuse: enough for most paths, and too little for a peer to exhaust memory.
pub(crate) const PATH_BYTES_KEPT: usize = 256;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    id: U64,
    generation: U64,
    bytes: U64,
    mtime_seconds: I64,
    mtime_nanoseconds: U32,
    mode: U32,
    uid: U32,
    gid: U32,
    root: U16,
    attempt: U16,
    kind: u8,
    flags: u8,
    prefix_bytes: U16,
    suffix_bytes: U16,
    target_bytes: U16,
    extension_bytes: U32,
}

const _: () = assert!(size_of::<Wire>() == RECORD_BYTES);

/// Appends records to a buffer.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    out: &'a mut Vec<u8>,
    previous: Vec<u8>,
    count: u32,
    path_bytes: usize,
}

impl<'a> RecordWriter<'a> {
    /// Begins a section at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            previous: Vec::new(),
            count: 0,
            path_bytes: 0,
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The record is invalid, or there are too many; nothing was appended then.
    pub fn push(&mut self, record: &Record) -> Result<(), WireError> {
        record.validate()?;
        self.push_valid(record)
    }

    /// Like [`RecordWriter::push`], for a record that was validated before.
    ///
    /// # Errors
    /// There are too many records.
    pub(crate) fn push_valid(&mut self, record: &Record) -> Result<(), WireError> {
        debug_assert!(
            record.validate().is_ok(),
            "the announcer validated the record"
        );
        if self.count == RECORDS_MAX {
            return Err(WireError::too_long(
                "record section",
                u64::from(RECORDS_MAX),
            ));
        }
        if self.path_bytes + record.path.len() > PATHS_BYTES_MAX {
            return Err(WireError::too_long(
                "paths of a record section",
                PATHS_BYTES_MAX as u64,
            ));
        }
        let prefix = shared(&self.previous, &record.path);
        let suffix = &record.path[prefix..];
        let wire = Wire {
            id: record.id.0.into(),
            generation: record.generation.0.into(),
            bytes: record.bytes.into(),
            mtime_seconds: record.mtime_seconds.into(),
            mtime_nanoseconds: record.mtime_nanoseconds.into(),
            mode: record.mode.into(),
            uid: record.uid.into(),
            gid: record.gid.into(),
            root: record.root.into(),
            attempt: record.attempt.into(),
            kind: record.kind.0,
            flags: match record.digest {
                Some(_) => record.flags | RecordFlags::HAS_DIGEST,
                None => record.flags & !RecordFlags::HAS_DIGEST,
            },
            prefix_bytes: short(prefix, "path")?,
            suffix_bytes: short(suffix.len(), "path")?,
            target_bytes: short(record.target.len(), "link target")?,
            extension_bytes: match u32::try_from(record.extensions.len()) {
                Ok(bytes) => bytes.into(),
                Err(_) => return Err(WireError::too_long("extensions", u64::from(u32::MAX))),
            },
        };
        self.out.extend_from_slice(wire.as_bytes());
        if let Some(digest) = &record.digest {
            self.out.extend_from_slice(&digest.0);
        }
        if record.flags & RecordFlags::END != 0 {
            self.out.extend_from_slice(&record.data_bytes.to_le_bytes());
        }
        self.out.extend_from_slice(suffix);
        self.out.extend_from_slice(&record.target);
        self.out.extend_from_slice(&record.extensions);
        self.previous.truncate(prefix);
        self.previous.extend_from_slice(suffix);
        self.path_bytes += record.path.len();
        self.count += 1;
        Ok(())
    }

    /// Records appended so far.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Returns the records of a section one by one; there must be exactly as many as announced, and no bytes after them.
#[derive(Debug)]
pub struct RecordReader<'a> {
    rest: &'a [u8],
    left: u32,
    previous: Vec<u8>,
    path_bytes: usize,
    over: bool,
}

impl<'a> RecordReader<'a> {
    /// Reads `count` records from `section`.
    ///
    /// # Errors
    /// More than [`RECORDS_MAX`], or more than fit into the section.
    pub fn new(section: &'a [u8], count: u32) -> Result<Self, WireError> {
        if count > RECORDS_MAX {
            return Err(WireError::too_long(
                "record section",
                u64::from(RECORDS_MAX),
            ));
        }
        if section.len() / RECORD_BYTES < count as usize {
            return Err(WireError::Short {
                what: "a record section",
            });
        }
        Ok(Self {
            rest: section,
            left: count,
            previous: Vec::new(),
            path_bytes: 0,
            over: false,
        })
    }

    /// Reads all records.
    pub(crate) fn read_all(self) -> Result<Vec<Record>, WireError> {
        let mut records = Vec::new();
        self.read_all_in(&mut records)?;
        Ok(records)
    }

    /// Reads all records into the memory of `records`, replacing its contents; after an error the content is invalid.
    pub(crate) fn read_all_in(mut self, records: &mut Vec<Record>) -> Result<(), WireError> {
        // At most RECORDS_MAX, and never more than the section can hold at 64 bytes each.
        records.resize_with(self.left as usize, Record::default);
        for record in records {
            self.left -= 1;
            self.read_in(record)?;
        }
        // Returns no record at the end of the section, and an error if bytes are left.
        self.next().map_or(Ok(()), |record| record.map(drop))
    }

    fn read(&mut self) -> Result<Record, WireError> {
        let mut record = Record::default();
        self.read_in(&mut record)?;
        Ok(record)
    }

    fn read_in(&mut self, record: &mut Record) -> Result<(), WireError> {
        let what = "a record";
        let wire: Wire = take(&mut self.rest, what)?;
        let digest = match wire.flags & RecordFlags::HAS_DIGEST {
            0 => None,
            _ => Some(Digest(take(&mut self.rest, what)?)),
        };
        let data_bytes = match wire.flags & RecordFlags::END {
            0 => 0,
            _ => take::<U64>(&mut self.rest, what)?.get(),
        };
        let suffix = take_slice(&mut self.rest, wire.suffix_bytes.get().into(), what)?;
        let target = take_slice(&mut self.rest, wire.target_bytes.get().into(), what)?;
        let Ok(extension_bytes) = usize::try_from(wire.extension_bytes.get()) else {
            return Err(WireError::Short { what });
        };
        let extensions = take_slice(&mut self.rest, extension_bytes, what)?;
        self.extend_path(wire.prefix_bytes.get().into(), suffix)?;
        let mut path = std::mem::take(&mut record.path);
        path.clear();
        path.extend_from_slice(&self.previous);
        *record = Record {
            id: EntryId(wire.id.get()),
            root: wire.root.get(),
            kind: EntryKind(wire.kind),
            flags: wire.flags,
            attempt: wire.attempt.get(),
            generation: Generation(wire.generation.get()),
            bytes: wire.bytes.get(),
            data_bytes,
            mtime_seconds: wire.mtime_seconds.get(),
            mtime_nanoseconds: wire.mtime_nanoseconds.get(),
            mode: wire.mode.get(),
            uid: wire.uid.get(),
            gid: wire.gid.get(),
            path,
            target: target.to_vec(),
            digest,
            extensions: extensions.to_vec(),
        };
        record.validate()
    }

    /// Makes `previous` the path of this record.
    fn extend_path(&mut self, prefix: usize, suffix: &[u8]) -> Result<(), WireError> {
        let follows = self.previous.get(prefix);
        if prefix > self.previous.len() {
            return Err(WireError::invalid(
                "path prefix",
                "is longer than the path before",
            ));
        }
        // Each path has only one form, so that a frame has only one encoding.
        if follows.is_some() && follows == suffix.first() {
            return Err(WireError::invalid(
                "path prefix",
                "is shorter than what the paths share",
            ));
        }
        self.path_bytes += prefix + suffix.len();
        if self.path_bytes > PATHS_BYTES_MAX {
            return Err(WireError::too_long(
                "paths of a record section",
                PATHS_BYTES_MAX as u64,
            ));
        }
        self.previous.truncate(prefix);
        self.previous.extend_from_slice(suffix);
        Ok(())
    }
}

impl Iterator for RecordReader<'_> {
    type Item = Result<Record, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        if self.left == 0 {
            self.over = true;
            let bytes = self.rest.len();
            return (bytes > 0).then_some(Err(WireError::Trailing {
                what: "the records",
                bytes,
            }));
        }
        self.left -= 1;
        let record = self.read();
        self.over = record.is_err();
        Some(record)
    }
}

/// Length of the common prefix; compares eight bytes at a time, because most names share their directories.
fn shared(one: &[u8], other: &[u8]) -> usize {
    let (mut one_rest, mut other_rest) = (one, other);
    while let (Some((a, one_tail)), Some((b, other_tail))) = (
        one_rest.split_first_chunk::<8>(),
        other_rest.split_first_chunk::<8>(),
    ) && a == b
    {
        (one_rest, other_rest) = (one_tail, other_tail);
    }
    let rest = one_rest.iter().zip(other_rest);
    one.len() - one_rest.len() + rest.take_while(|(a, b)| a == b).count()
}

fn short(bytes: usize, field: &'static str) -> Result<U16, WireError> {
    match u16::try_from(bytes) {
        Ok(bytes) => Ok(bytes.into()),
        Err(_) => Err(WireError::too_long(field, u64::from(u16::MAX))),
    }
}
