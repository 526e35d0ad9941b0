//! Encodes work that must wait until all files exist (hard links, directory times) for the lists of the agenda. Does not do the work, and
//! does not store it (`SpillList`).

use std::io;

use godwit_proto::{EntryId, RECORD_BYTES, Record, RecordReader, RecordWriter};
use godwit_store::Replace;

/// Bytes of a directory's item before its path.
pub(crate) const DIRECTORY_OWN_BYTES: usize = RECORD_BYTES;

/// Bytes of a link's item before its path: its number, its root, its kind, and the length of the path.
pub(crate) const LINK_OWN_BYTES: usize = 8 + 2 + 1 + 4;

/// Encoded like a section of a message: a directory's attributes may be long, and already have a form
/// there.
pub(crate) fn encode_directory(record: &Record) -> io::Result<Vec<u8>> {
    let mut item = Vec::new();
    let written = RecordWriter::new(&mut item).push(record);
    written.map_err(io::Error::other)?;
    Ok(item)
}

pub(crate) fn decode_directory(item: &[u8]) -> Option<Record> {
    RecordReader::new(item, 1).ok()?.next()?.ok()
}

/// An additional name of a file, to be made at the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeferredLink<'a> {
    pub(crate) id: EntryId,
    pub(crate) root: u16,
    pub(crate) path: &'a [u8],
    /// The existing name of the file.
    pub(crate) first: &'a [u8],
    /// Whether another entry had the name when it was looked at.
    pub(crate) replace: Replace,
    /// The entry already exists under both names. If it cannot be linked, two separate entries stay.
    pub(crate) is_there: bool,
}

/// Bit of a link's third field: it may replace an entry with its name.
const REPLACES: u8 = 1;
/// Bit of a link's third field: the entry already exists.
const IS_THERE: u8 = 2;

/// Encodes an additional name of a file.
pub(crate) fn encode_link(record: &Record, replace: Replace) -> Vec<u8> {
    let replaces = u8::from(replace == Replace::Atomically) * REPLACES;
    encode(record, &record.target, replaces)
}

/// Encodes an additional name of an entry without contents.
pub(crate) fn encode_first(record: &Record, first: &[u8]) -> Vec<u8> {
    encode(record, first, REPLACES | IS_THERE)
}

/// A hard link: its number, its root, its kind, its path with its length, and the first name.
fn encode(record: &Record, first: &[u8], how: u8) -> Vec<u8> {
    let mut item = Vec::with_capacity(LINK_OWN_BYTES + record.path.len() + first.len());
    item.extend(record.id.0.to_le_bytes());
    item.extend(record.root.to_le_bytes());
    item.push(how);
    item.extend(
        u32::try_from(record.path.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    item.extend(&record.path);
    item.extend(first);
    item
}

pub(crate) fn decode_link(item: &[u8]) -> Option<DeferredLink<'_>> {
    let (id, rest) = item.split_first_chunk::<8>()?;
    let (root, rest) = rest.split_first_chunk::<2>()?;
    let (how, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (path, first) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(DeferredLink {
        id: EntryId(u64::from_le_bytes(*id)),
        root: u16::from_le_bytes(*root),
        path,
        first,
        replace: if how & REPLACES == 0 {
            Replace::Never
        } else {
            Replace::Atomically
        },
        is_there: how & IS_THERE != 0,
    })
}
