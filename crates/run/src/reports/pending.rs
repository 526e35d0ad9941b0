//! Encodes entries that wait on disk: for their digest, or for sorting. The format is used only
//! within one process.

use godwit_proto::{EntryKind, Record};
use godwit_store::digest::DigestKind;
use godwit_store::manifest::{ManifestEntry, decode_entry, encode_entry};

/// Encodes a record with everything that its line needs.
pub(super) fn encode(record: &Record) -> Vec<u8> {
    let mut item = Vec::with_capacity(26 + record.path.len());
    item.extend(record.root.to_le_bytes());
    item.extend(record.bytes.to_le_bytes());
    item.extend(record.mtime_seconds.to_le_bytes());
    item.extend(record.mtime_nanoseconds.to_le_bytes());
    item.extend(record.mode.to_le_bytes());
    item.extend_from_slice(&record.path);
    item
}

/// Decodes an encoded record.
pub(super) fn decode(item: &[u8]) -> Option<Record> {
    let (root, rest) = item.split_first_chunk()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let (seconds, rest) = rest.split_first_chunk()?;
    let (nanoseconds, rest) = rest.split_first_chunk()?;
    let (mode, path) = rest.split_first_chunk()?;
    Some(Record {
        root: u16::from_le_bytes(*root),
        kind: EntryKind::FILE,
        bytes: u64::from_le_bytes(*bytes),
        mtime_seconds: i64::from_le_bytes(*seconds),
        mtime_nanoseconds: u32::from_le_bytes(*nanoseconds),
        mode: u32::from_le_bytes(*mode),
        path: path.to_vec(),
        ..Record::default()
    })
}

/// Encodes a name, a zero byte and the line, so that items sort by the bytes of names.
pub(super) fn sorted_item(entry: &ManifestEntry, kind: DigestKind) -> Vec<u8> {
    let mut item = entry.path.as_bytes().to_vec();
    item.push(0);
    encode_entry(entry, kind, &mut item);
    item
}

/// Decodes a sorted item.
pub(super) fn sorted_entry(item: &[u8], kind: DigestKind) -> Option<ManifestEntry> {
    let at = item.iter().position(|byte| *byte == 0)?;
    let line = item[at + 1..].strip_suffix(b"\n")?;
    decode_entry(line, kind).ok()
}
