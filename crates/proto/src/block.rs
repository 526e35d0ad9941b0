//! Owns blocks: the fixed header that makes contents self-describing, and the head around it.
//! Never touches the payload. `docs/wire.md`, "BLOCK".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{encode_frame, take, take_slice};
use crate::error::WireError;
use crate::frame::Block;
use crate::ids::{Digest, DigestKind, EntryId, Generation, Seq, TransferId};
use crate::limits::{BLOCK_HEADER_BYTES, PAYLOAD_BYTES_MAX, UNKNOWN_BYTES};
use crate::prelude::{FrameKind, Prelude};
use crate::record::{EntryKind, Record, RecordReader, RecordWriter};

/// Flag of a slice with holes: its payload is only the data ranges that the head lists. Unknown flags are kept.
pub const SPARSE: u32 = 1;

/// Content type of a block. Unknown kinds are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockKind(pub u8);

impl BlockKind {
    /// A part of one large file.
    pub const SLICE: Self = Self(1);
    /// Many small files.
    pub const BUNDLE: Self = Self(2);
}

/// Bytes of a file: `offset` to `offset + bytes`, counted from the file's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Length; not 0.
    pub bytes: u64,
}

/// The fixed header of a block. The fields about an entry are zero in a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// The transfer.
    pub transfer: TransferId,
    /// Number of this item.
    pub seq: Seq,
    /// Kind of the block.
    pub kind: BlockKind,
    /// Kind of all digests in this frame.
    pub digest_kind: DigestKind,
    /// Number of earlier generations of the entry.
    pub attempt: u16,
    /// See [`SPARSE`].
    pub flags: u32,
    /// The file.
    pub entry: EntryId,
    /// State of the file when it was read.
    pub generation: Generation,
    /// Offset of the slice in the file.
    pub offset: u64,
    /// Bytes of the file that the slice covers, holes included.
    pub length: u32,
    /// Size of the file, or [`UNKNOWN_BYTES`] if not known yet.
    pub entry_bytes: u64,
    /// Length of the payload. Encoders fill it in.
    pub payload_bytes: u32,
    /// Length of the record section. Encoders fill it in.
    pub meta_bytes: u32,
    /// Number of records. Encoders fill it in.
    pub records: u32,
    /// Number of data ranges. Encoders fill it in.
    pub ranges: u32,
    /// Digest of a slice: over the bytes that the slice covers, holes as zeros.
    pub digest: Digest,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    transfer: [u8; 16],
    seq: U64,
    entry: U64,
    generation: U64,
    offset: U64,
    entry_bytes: U64,
    length: U32,
    payload_bytes: U32,
    meta_bytes: U32,
    records: U32,
    ranges: U32,
    flags: U32,
    attempt: U16,
    kind: u8,
    digest_kind: u8,
    reserved: [u8; 12],
    digest: [u8; 32],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RangeWire {
    offset: U64,
    bytes: U64,
}

const RANGE_BYTES: usize = size_of::<RangeWire>();
const _: () = assert!(size_of::<Wire>() == BLOCK_HEADER_BYTES && RANGE_BYTES == 16);

impl BlockHeader {
    /// Encodes the header without any change.
    pub fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        zerocopy::transmute!(Wire {
            transfer: self.transfer.0,
            seq: self.seq.0.into(),
            entry: self.entry.0.into(),
            generation: self.generation.0.into(),
            offset: self.offset.into(),
            entry_bytes: self.entry_bytes.into(),
            length: self.length.into(),
            payload_bytes: self.payload_bytes.into(),
            meta_bytes: self.meta_bytes.into(),
            records: self.records.into(),
            ranges: self.ranges.into(),
            flags: self.flags.into(),
            attempt: self.attempt.into(),
            kind: self.kind.0,
            digest_kind: self.digest_kind.0,
            reserved: [0; 12],
            digest: self.digest.0,
        })
    }

    /// Reads a header; checks only rules that concern the header alone.
    ///
    /// # Errors
    /// Reserved bytes in use.
    pub fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<Self, WireError> {
        let wire: Wire = zerocopy::transmute!(*bytes);
        if wire.reserved != [0; 12] {
            return Err(WireError::NonZeroReserved {
                what: "a block header",
            });
        }
        Ok(Self {
            transfer: TransferId(wire.transfer),
            seq: Seq(wire.seq.get()),
            kind: BlockKind(wire.kind),
            digest_kind: DigestKind(wire.digest_kind),
            attempt: wire.attempt.get(),
            flags: wire.flags.get(),
            entry: EntryId(wire.entry.get()),
            generation: Generation(wire.generation.get()),
            offset: wire.offset.get(),
            length: wire.length.get(),
            entry_bytes: wire.entry_bytes.get(),
            payload_bytes: wire.payload_bytes.get(),
            meta_bytes: wire.meta_bytes.get(),
            records: wire.records.get(),
            ranges: wire.ranges.get(),
            digest: Digest(wire.digest),
        })
    }
}

/// Appends the head image of a block to `out`; sets lengths and counts in `header`.
///
/// A slice has one record, the record of its entry, and with [`SPARSE`] its data ranges. A bundle has no
/// ranges.
///
/// # Errors
/// The parts do not fit together or are too long; `out` is then unchanged.
pub fn encode(
    header: BlockHeader,
    ranges: &[Range],
    records: &[Record],
    payload_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let Some(payload_bytes) = u32::try_from(payload_bytes)
        .ok()
        .filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX)
    else {
        return Err(WireError::too_long("payload", u64::from(PAYLOAD_BYTES_MAX)));
    };
    encode_frame(out, FrameKind::BLOCK, payload_bytes, |out| {
        let start = out.len();
        out.extend_from_slice(&[0; BLOCK_HEADER_BYTES]);
        for range in ranges {
            let wire = RangeWire {
                offset: range.offset.into(),
                bytes: range.bytes.into(),
            };
            out.extend_from_slice(wire.as_bytes());
        }
        let meta = out.len();
        let mut writer = RecordWriter::new(out);
        records.iter().try_for_each(|record| writer.push(record))?;
        let header = BlockHeader {
            payload_bytes,
            meta_bytes: count(out.len() - meta)?,
            records: count(records.len())?,
            ranges: count(ranges.len())?,
            ..header
        };
        validate(&header, ranges, records)?;
        out[start..start + BLOCK_HEADER_BYTES].copy_from_slice(&header.encode());
        Ok(())
    })
}

/// Reads the head of a block.
///
/// # Errors
/// The fault in the head.
pub fn decode(prelude: &Prelude, head: &[u8]) -> Result<Block, WireError> {
    let what = "a block";
    let Some((bytes, mut rest)) = head.split_first_chunk() else {
        return Err(WireError::Short { what });
    };
    let header = BlockHeader::decode(bytes)?;
    if header.payload_bytes != prelude.payload_bytes {
        return Err(WireError::Disagree {
            what: "payload lengths of prelude and block",
        });
    }
    if rest.len() / RANGE_BYTES < header.ranges as usize {
        return Err(WireError::Short { what });
    }
    let mut ranges = Vec::with_capacity(header.ranges as usize);
    for _ in 0..header.ranges {
        let wire: RangeWire = take(&mut rest, what)?;
        ranges.push(Range {
            offset: wire.offset.get(),
            bytes: wire.bytes.get(),
        });
    }
    let section = take_slice(&mut rest, header.meta_bytes as usize, what)?;
    crate::bytes::end(rest, what)?;
    let records = RecordReader::new(section, header.records)?.read_all()?;
    validate(&header, &ranges, &records)?;
    Ok(Block {
        header,
        ranges,
        records,
    })
}

fn count(number: usize) -> Result<u32, WireError> {
    u32::try_from(number)
        .ok()
        .ok_or_else(|| WireError::too_long("block", u64::from(u32::MAX)))
}

/// Checks rules of a block that hold on either side. An unknown kind is not checked here.
fn validate(header: &BlockHeader, ranges: &[Range], records: &[Record]) -> Result<(), WireError> {
    match header.kind {
        BlockKind::SLICE => {
            validate_slice(header)?;
            validate_ranges(header, ranges)?;
            validate_slice_record(header, records)
        }
        BlockKind::BUNDLE => validate_bundle(header, ranges, records),
        _ => Ok(()),
    }
}

fn validate_slice(header: &BlockHeader) -> Result<(), WireError> {
    if header.length == 0 {
        return Err(WireError::invalid("slice", "covers nothing"));
    }
    if header.length > PAYLOAD_BYTES_MAX {
        return Err(WireError::too_long("slice", u64::from(PAYLOAD_BYTES_MAX)));
    }
    let Some(end) = header.offset.checked_add(u64::from(header.length)) else {
        return Err(WireError::invalid("slice", "ends beyond any file"));
    };
    if end > header.entry_bytes {
        return Err(WireError::invalid("slice", "ends beyond its file"));
    }
    if !header
        .offset
        .is_multiple_of(u64::from(header.length.next_power_of_two()))
    {
        return Err(WireError::invalid(
            "slice",
            "does not begin at a multiple of its length",
        ));
    }
    if !header.length.is_power_of_two()
        && end != header.entry_bytes
        && header.entry_bytes != UNKNOWN_BYTES
    {
        return Err(WireError::invalid(
            "slice",
            "is neither a power of two long nor the last of its file",
        ));
    }
    Ok(())
}

fn validate_ranges(header: &BlockHeader, ranges: &[Range]) -> Result<(), WireError> {
    if header.flags & SPARSE == 0 {
        if !ranges.is_empty() {
            return Err(WireError::invalid(
                "slice",
                "lists data ranges and is not sparse",
            ));
        }
        if header.payload_bytes != header.length {
            return Err(WireError::Disagree {
                what: "length of a slice and of its payload",
            });
        }
        return Ok(());
    }
    let mut free = header.offset;
    let mut sum = 0;
    // This cannot overflow, because the slice was checked before.
    let slice_end = header.offset + u64::from(header.length);
    for range in ranges {
        if range.bytes == 0 || range.offset < free {
            return Err(WireError::invalid(
                "data ranges",
                "are empty, overlap or do not ascend",
            ));
        }
        match range
            .offset
            .checked_add(range.bytes)
            .filter(|end| *end <= slice_end)
        {
            Some(end) => free = end,
            None => return Err(WireError::invalid("data ranges", "end beyond their slice")),
        }
        sum += range.bytes;
    }
    if sum != u64::from(header.payload_bytes) {
        return Err(WireError::Disagree {
            what: "data ranges of a slice and length of its payload",
        });
    }
    Ok(())
}

fn validate_slice_record(header: &BlockHeader, records: &[Record]) -> Result<(), WireError> {
    let [record] = records else {
        return Err(WireError::invalid(
            "slice",
            "must have the one record of its entry",
        ));
    };
    if record.kind != EntryKind::FILE {
        return Err(WireError::invalid(
            "slice",
            "belongs to an entry that is not a file",
        ));
    }
    let same = record.id == header.entry
        && record.generation == header.generation
        && record.bytes == header.entry_bytes
        && record.attempt == header.attempt;
    if same {
        Ok(())
    } else {
        Err(WireError::Disagree {
            what: "header and record of a slice",
        })
    }
}

fn validate_bundle(
    header: &BlockHeader,
    ranges: &[Range],
    records: &[Record],
) -> Result<(), WireError> {
    let blank = header.entry.0 == 0
        && header.generation.0 == 0
        && header.offset == 0
        && header.length == 0
        && header.entry_bytes == 0
        && header.flags & SPARSE == 0
        && header.digest == Digest::default();
    if !blank || !ranges.is_empty() {
        return Err(WireError::invalid(
            "bundle",
            "uses a field that only slices have",
        ));
    }
    let contents = records
        .iter()
        .filter(|record| record.has_content())
        .map(|record| record.bytes);
    let sum = contents.fold(0_u64, u64::saturating_add);
    if sum != u64::from(header.payload_bytes) {
        return Err(WireError::Disagree {
            what: "sizes of the files of a bundle and length of its payload",
        });
    }
    Ok(())
}
