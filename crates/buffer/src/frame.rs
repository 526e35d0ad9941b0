//! Owns the bytes of the log: frames of records, each with its checksum. Reads and writes no device, and does not interpret records.
//!
//! All integers are little-endian. A frame begins at a page. It is written only after the frame before it is durable, so a power cut tears
//! at most the last one.
//!
//! ```text
//! frame    "GWFRAME1" salt:8 sequence:8 bytes:4 records:4 crc:8 record…      padded with zeros to a page
//! record   body_bytes:2 kind:1 zero:1 crc:8 body
//! crc      CRC64-NVME: of a frame, of the fields before it; of a record, of salt ‖ sequence ‖ index ‖ its first four bytes ‖ body
//!
//! 1 FILE   number:4 source:16 bytes:8 stamp:8 keep:1 until:8 path
//! 2 HOLDS  slot:4 file:4 offset:8 bytes:4 dirty:1 digest:1 digest:32 since:8
//! 3 CLEAN  slot:4
//! 4 FREE   slot:4
//! 5 ARRIVED  file:4 what                                      in logs of version 2
//! 6 PLACED   file:4 source:16 stamp:8
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::extent::{
    BlockDigest, FileKey, Generation, Keep, PATH_BYTES_MAX, SlotIndex, SourceId, WHAT_BYTES_MAX,
};
use crate::layout::PAGE;
use crate::superblock::millis;
use godwit_store::digest::{Digest, DigestKind};

const MAGIC: [u8; 8] = *b"GWFRAME1";
/// Bytes of a frame before its records.
pub const HEAD_BYTES: usize = 40;
const RECORD_HEAD_BYTES: usize = 12;
/// Most bytes of a frame: the records of the largest commit, each with the longest path.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Later records name a file by this number.
    File {
        /// The number.
        number: u32,
        /// The file.
        key: Arc<FileKey>,
        /// Time until which the file stays.
        keep: Keep,
    },
    /// A slot holds this.
    Holds {
        /// The slot.
        slot: SlotIndex,
        /// Its content.
        held: Held,
    },
    /// The content of the slot has drained.
    Clean(SlotIndex),
    /// The slot holds nothing.
    Free(SlotIndex),
    /// The file has arrived whole.
    Arrived {
        /// Number of the file.
        number: u32,
        /// The place of the file; empty if it has none any more.
        what: Arc<[u8]>,
    },
    /// The file is at slow storage now.
    Placed {
        /// Number of the file.
        number: u32,
        /// Where it is from now on.
        source: SourceId,
        /// Its state there.
        stamp: u64,
    },
}

impl Entry {
    /// The lowest version of the format that has this record.
    #[must_use]
    pub fn version(&self) -> u32 {
        match self {
            Self::File { .. } | Self::Holds { .. } | Self::Clean(_) | Self::Free(_) => 1,
            Self::Arrived { .. } | Self::Placed { .. } => 2,
        }
    }
}

/// Contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Number of the file.
    pub file: u32,
    /// Where the range begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// Whether the buffer has the only copy.
    pub is_dirty: bool,
    /// Digest of the range.
    pub digest: BlockDigest,
    /// When it became durable, since the Unix epoch.
    pub since: Duration,
}

/// Builds a frame.
#[derive(Debug)]
pub struct FrameWriter {
    salt: u64,
    sequence: u64,
    records: u32,
    bytes: Vec<u8>,
}

impl FrameWriter {
    /// An empty frame.
    #[must_use]
    pub fn new(salt: u64, sequence: u64) -> Self {
        Self {
            salt,
            sequence,
            records: 0,
            bytes: vec![0; HEAD_BYTES],
        }
    }

    /// Bytes so far, without padding.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the frame has no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds a record.
    pub fn push(&mut self, entry: &Entry) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; RECORD_HEAD_BYTES]);
        let kind = encode_body(entry, &mut self.bytes);
        let (head, body) = self.bytes[start..].split_at_mut(RECORD_HEAD_BYTES);
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
        head[..2].copy_from_slice(&length.to_le_bytes());
        head[2] = kind;
        let checksum = record_crc(self.salt, self.sequence, self.records, &head[..4], body);
        head[4..].copy_from_slice(&checksum.to_le_bytes());
        self.records += 1;
    }

    /// The whole frame, padded to pages.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&self.salt.to_le_bytes());
        head.extend_from_slice(&self.sequence.to_le_bytes());
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&self.records.to_le_bytes());
        let checksum = crc(&[&head]);
        head.extend_from_slice(&checksum.to_le_bytes());
        self.bytes[..HEAD_BYTES].copy_from_slice(&head);
        let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let padded = self.bytes.len().next_multiple_of(page);
        self.bytes.resize(padded, 0);
        self.bytes
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Number of the frame since the checkpoint began.
    pub sequence: u64,
    /// Bytes without padding.
    pub bytes: usize,
    records: u32,
}

impl FrameHead {
    /// Reads a head that belongs to `salt`. `None` if there is none.
    #[must_use]
    pub fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        let (signed, checksum) = head.split_at(HEAD_BYTES - 8);
        if !head.starts_with(&MAGIC) || crc(&[signed]).to_le_bytes() != *checksum {
            return None;
        }
        let mut fields = Fields(&signed[MAGIC.len()..]);
        let has_salt = fields.number64()? == salt;
        let sequence = fields.number64()?;
        let bytes = fields.number32()? as usize;
        let records = fields.number32()?;
        let is_sound = has_salt && (HEAD_BYTES..=FRAME_BYTES_MAX).contains(&bytes);
        is_sound.then_some(Self {
            sequence,
            bytes,
            records,
        })
    }

    /// Bytes with padding.
    #[must_use]
    pub fn padded(&self) -> u64 {
        (self.bytes as u64).next_multiple_of(PAGE)
    }

    /// The records of the frame. `None` if any byte has changed since it was written.
    #[must_use]
    pub fn records(&self, frame: &[u8], salt: u64) -> Option<Vec<Entry>> {
        let mut fields = Fields(frame.get(HEAD_BYTES..self.bytes)?);
        let mut entries = Vec::new();
        for index in 0..self.records {
            let start = fields.take(4)?;
            let length = usize::from(u16::from_le_bytes([start[0], start[1]]));
            let checksum = fields.number64()?;
            let body = fields.take(length)?;
            if record_crc(salt, self.sequence, index, start, body) != checksum {
                return None;
            }
            entries.push(decode_body(start[2], body)?);
        }
        fields.0.is_empty().then_some(entries)
    }
}

fn record_crc(salt: u64, sequence: u64, index: u32, head: &[u8], body: &[u8]) -> u64 {
    crc(&[
        &salt.to_le_bytes(),
        &sequence.to_le_bytes(),
        &index.to_le_bytes(),
        head,
        body,
    ])
}

/// The checksum of everything in the format.
pub(crate) fn crc(parts: &[&[u8]]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    for part in parts {
        digest.update(part);
    }
    digest.finalize()
}

/// Appends the body, and returns the kind.
fn encode_body(entry: &Entry, out: &mut Vec<u8>) -> u8 {
    match entry {
        Entry::File { number, key, keep } => {
            let (kind, until) = match keep {
                Keep::No => (0, 0),
                Keep::Until(until) => (1, millis(*until)),
                Keep::Pinned => (2, 0),
            };
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&key.source.0);
            out.extend_from_slice(&key.generation.bytes.to_le_bytes());
            out.extend_from_slice(&key.generation.stamp.to_le_bytes());
            out.push(kind);
            out.extend_from_slice(&until.to_le_bytes());
            out.extend_from_slice(&key.path);
            1
        }
        Entry::Holds { slot, held } => {
            out.extend_from_slice(&slot.0.to_le_bytes());
            out.extend_from_slice(&held.file.to_le_bytes());
            out.extend_from_slice(&held.offset.to_le_bytes());
            out.extend_from_slice(&held.bytes.to_le_bytes());
            out.push(u8::from(held.is_dirty));
            out.push(held.digest.kind.number());
            out.extend_from_slice(&held.digest.value.0);
            out.extend_from_slice(&millis(held.since).to_le_bytes());
            2
        }
        Entry::Clean(slot) => {
            out.extend_from_slice(&slot.0.to_le_bytes());
            3
        }
        Entry::Free(slot) => {
            out.extend_from_slice(&slot.0.to_le_bytes());
            4
        }
        Entry::Arrived { number, what } => {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(what);
            5
        }
        Entry::Placed {
            number,
            source,
            stamp,
        } => {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&source.0);
            out.extend_from_slice(&stamp.to_le_bytes());
            6
        }
    }
}

fn decode_body(kind: u8, body: &[u8]) -> Option<Entry> {
    let mut fields = Fields(body);
    let entry = match kind {
        1 => {
            let number = fields.number32()?;
            let source = SourceId(*fields.take(16)?.first_chunk()?);
            let generation = Generation {
                bytes: fields.number64()?,
                stamp: fields.number64()?,
            };
            let keep = match (fields.byte()?, fields.number64()?) {
                (0, _) => Keep::No,
                (1, until) => Keep::Until(Duration::from_millis(until)),
                (2, _) => Keep::Pinned,
                _ => return None,
            };
            let path = std::mem::take(&mut fields.0).to_vec();
            if path.len() > PATH_BYTES_MAX {
                return None;
            }
            let key = Arc::new(FileKey {
                source,
                path,
                generation,
            });
            Entry::File { number, key, keep }
        }
        2 => Entry::Holds {
            slot: SlotIndex(fields.number32()?),
            held: Held {
                file: fields.number32()?,
                offset: fields.number64()?,
                bytes: fields.number32()?,
                is_dirty: fields.byte()? != 0,
                digest: BlockDigest {
                    kind: DigestKind::from_number(fields.byte()?)?,
                    value: Digest(*fields.take(32)?.first_chunk()?),
                },
                since: Duration::from_millis(fields.number64()?),
            },
        },
        3 => Entry::Clean(SlotIndex(fields.number32()?)),
        4 => Entry::Free(SlotIndex(fields.number32()?)),
        5 => {
            let number = fields.number32()?;
            let what = std::mem::take(&mut fields.0);
            if what.len() > WHAT_BYTES_MAX {
                return None;
            }
            let what = what.into();
            Entry::Arrived { number, what }
        }
        6 => Entry::Placed {
            number: fields.number32()?,
            source: SourceId(*fields.take(16)?.first_chunk()?),
            stamp: fields.number64()?,
        },
        _ => return None,
    };
    fields.0.is_empty().then_some(entry)
}

/// Reads fields from bytes that may be too short.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn number32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    pub(crate) fn number64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Entry> {
        let key = |path: Vec<u8>| {
            Arc::new(FileKey {
                source: SourceId([7; 16]),
                path,
                generation: Generation {
                    bytes: 1 << 40,
                    stamp: u64::MAX,
                },
            })
        };
        let file = |number, path, keep| Entry::File {
            number,
            key: key(path),
            keep,
        };
        let held = Held {
            file: 3,
            offset: 1 << 33,
            bytes: 4 << 20,
            is_dirty: true,
            digest: BlockDigest {
                kind: DigestKind::Blake3,
                value: Digest([5; 32]),
            },
            since: Duration::from_millis(1_700_000_000_123),
        };
        vec![
            file(0, b"run42/a\nb\xff".to_vec(), Keep::No),
            file(1, vec![b'x'; PATH_BYTES_MAX], Keep::Pinned),
            file(2, b"".to_vec(), Keep::Until(Duration::from_millis(77))),
            Entry::Holds {
                slot: SlotIndex(9),
                held,
            },
            Entry::Clean(SlotIndex(u32::MAX)),
            Entry::Free(SlotIndex(0)),
            Entry::Arrived {
                number: 4,
                what: [9; WHAT_BYTES_MAX].into(),
            },
            Entry::Arrived {
                number: 5,
                what: [].into(),
            },
            Entry::Placed {
                number: 6,
                source: SourceId([8; 16]),
                stamp: 1 << 60,
            },
        ]
    }

    fn written() -> Vec<u8> {
        let mut writer = FrameWriter::new(11, 4);
        samples().iter().for_each(|entry| writer.push(entry));
        writer.finish()
    }

    #[test]
    fn a_written_frame_decodes_to_its_records() {
        let frame = written();
        assert!((frame.len() as u64).is_multiple_of(PAGE));
        let head = FrameHead::decode(&frame, 11).expect("a head");
        assert_eq!((head.sequence, head.padded()), (4, frame.len() as u64));
        assert_eq!(head.records(&frame, 11), Some(samples()));
        assert_eq!(FrameHead::decode(&frame, 12), None, "another salt");
    }

    #[test]
    fn every_bit_counts() {
        let frame = written();
        let bytes = FrameHead::decode(&frame, 11).expect("a head").bytes;
        // The bits of the heads and of the short records, and some bits of the long path.
        let bits =
            (0..bytes * 8).filter(|bit| *bit < 4000 || *bit > (bytes - 150) * 8 || bit % 97 == 0);
        for bit in bits {
            let mut wrong = frame.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let read = FrameHead::decode(&wrong, 11).and_then(|head| head.records(&wrong, 11));
            assert_eq!(read, None, "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_a_fixed_state_has_fixed_bytes() {
        let mut writer = FrameWriter::new(1, 2);
        writer.push(&Entry::Free(SlotIndex(258)));
        let frame = writer.finish();
        let expected = [
            b"GWFRAME1".as_slice(),
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[56, 0, 0, 0],
            &[1, 0, 0, 0],
        ]
        .concat();
        assert_eq!(frame[..32], expected);
        assert_eq!(frame[40..44], [4, 0, 4, 0]);
        assert_eq!(frame[52..56], [2, 1, 0, 0]);
        assert!(frame[56..].iter().all(|byte| *byte == 0));
    }
}
