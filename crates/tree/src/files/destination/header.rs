//! Makes the parts of a journal's header that describe a transfer: its label for messages, and the bytes of its
//! mapping. Does not map names (`destination`).

use godwit_store::RelPath;
use godwit_store::journal::LABEL_BYTES_MAX;

use super::lossy;

/// Describes sources and destination for messages: the first sources by name, the rest by their number.
pub(super) fn label(sources: &[Vec<u8>], destination: &[u8]) -> String {
    let mut label = sources
        .iter()
        .take(LABEL_SOURCES)
        .map(|source| shortened(source))
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(more @ 1..) = sources.len().checked_sub(LABEL_SOURCES) {
        label += &format!(" and {more} more");
    }
    label + " to " + &shortened(destination)
}

/// The end of a path, at most [`LABEL_NAME_BYTES`], because the end is most distinctive.
fn shortened(path: &[u8]) -> String {
    let path = lossy(path);
    match path.len().checked_sub(LABEL_NAME_BYTES) {
        None | Some(0) => path,
        Some(more) => format!("…{}", &path[path.ceil_char_boundary(more)..]),
    }
}

/// Most sources that a label names.
const LABEL_SOURCES: usize = 3;

/// Longest path in a label.
const LABEL_NAME_BYTES: usize = 900;

/// The sources, the destination, the separators, and a number.
const _: () = assert!((LABEL_SOURCES + 1) * (LABEL_NAME_BYTES + 8) + 64 < LABEL_BYTES_MAX);

pub(super) fn encode_mapping(mapping: &[RelPath]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in mapping {
        bytes.extend(
            u32::try_from(path.as_bytes().len())
                .unwrap_or(u32::MAX)
                .to_le_bytes(),
        );
        bytes.extend(path.as_bytes());
    }
    bytes
}

pub(super) fn decode_mapping(mut bytes: &[u8]) -> Option<Vec<RelPath>> {
    let mut mapping = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        mapping.push(RelPath::parse(path).ok()?);
        bytes = rest;
    }
    Some(mapping)
}
