//! Translates between records of the engine and entries of a manifest.
//! Holds no state.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use godwit_api::event::ManifestDone;
use godwit_engine::entry::{digest_to_store, digest_to_wire};
use godwit_proto::{EntryId, EntryKind, Record, RecordFlags};
use godwit_store::manifest::{EntryType, ManifestEntry, Trailer};
use godwit_store::{RelPath, Timestamp};

/// The types of a manifest and the kinds of the wire.
const KINDS: [(EntryType, EntryKind); 8] = [
    (EntryType::File, EntryKind::FILE),
    (EntryType::Directory, EntryKind::DIRECTORY),
    (EntryType::Symlink, EntryKind::SYMLINK),
    (EntryType::HardLink, EntryKind::HARD_LINK),
    (EntryType::Fifo, EntryKind(5)),
    (EntryType::Socket, EntryKind(6)),
    (EntryType::CharDevice, EntryKind(7)),
    (EntryType::BlockDevice, EntryKind(8)),
];

/// The manifest entry of a record, with `prefix` before its names; `None` for a kind that manifests cannot contain.
pub(crate) fn entry_of(record: &Record, prefix: &[u8]) -> Option<ManifestEntry> {
    let (kind, _) = *KINDS.iter().find(|(_, kind)| *kind == record.kind)?;
    let is_file = kind == EntryType::File;
    Some(ManifestEntry {
        kind,
        bytes: if is_file { record.bytes } else { 0 },
        mtime: Timestamp {
            seconds: record.mtime_seconds,
            nanoseconds: record.mtime_nanoseconds,
        },
        mode: record.mode & 0o7777,
        digest: record
            .digest
            .filter(|_| is_file)
            .map(|digest| digest_to_store(&digest)),
        path: RelPath::parse(&join(prefix, &record.path)).ok()?,
        target: match kind {
            EntryType::Symlink => record.target.clone(),
            EntryType::HardLink => join(prefix, &record.target),
            _ => Vec::new(),
        },
    })
}

/// The record of an entry, below the one root.
pub(crate) fn record_of(entry: &ManifestEntry, id: u64) -> Record {
    let kind = KINDS
        .iter()
        .find(|(kind, _)| *kind == entry.kind)
        .map_or_else(EntryKind::default, |(_, kind)| *kind);
    Record {
        id: EntryId(id),
        kind,
        flags: if entry.digest.is_some() {
            RecordFlags::HAS_DIGEST
        } else {
            0
        },
        bytes: entry.bytes,
        mtime_seconds: entry.mtime.seconds,
        mtime_nanoseconds: entry.mtime.nanoseconds,
        mode: entry.mode,
        path: entry.path.as_bytes().to_vec(),
        target: entry.target.clone(),
        digest: entry.digest.as_ref().map(digest_to_wire),
        ..Record::default()
    }
}

/// Joins two names; either may be empty.
pub(crate) fn join(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    match (prefix, path) {
        (b"", path) => path.to_vec(),
        (prefix, b"") => prefix.to_vec(),
        (prefix, path) => [prefix, b"/", path].concat(),
    }
}

/// The event for a written manifest.
pub(super) fn done(path: &Path, bytes: u64, trailer: &Trailer) -> ManifestDone {
    let digest = data_encoding::HEXLOWER.encode(&trailer.digest);
    ManifestDone {
        path: path.as_os_str().as_bytes().to_vec(),
        entries: trailer.entries,
        digest: format!("blake3:{digest}"),
        bytes,
    }
}
