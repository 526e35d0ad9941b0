//! Specifies and encodes the bytes of a journal: preamble, records and their checksums. Does not read or write files, nor interpret the
//! records.
//!
//! All integers are little-endian. A journal is a preamble and records:
//!
//! ```text
//! preamble   "GODWITJ" version:u8(1) salt:8
//! record     body_bytes:u32 kind:u8 zero:3 checksum:u64 body
//! checksum   CRC64-NVME of previous checksum ‖ body_bytes ‖ kind ‖ zero ‖ body; before the first record: of the preamble
//! ```
//!
//! Each checksum continues the previous one, starting from a random salt. Therefore bytes from an earlier journal or a torn write in the
//! same place are not mistaken for records. Only the first record is a header, and it must be one. The bodies:
//!
//! ```text
//! 1 header    digest:u8 mapping_bytes:u32 mapping label_bytes:u32 label count:u32 {bytes:u32 destination}* claim:16, of a member alone sender:8
//! 2 ranges    {key:16 generation:u64 offset:u64 bytes:u64 digest: 8 (CRC) or 32 (BLAKE3)}+
//! 3 done      {key:16 generation:u64 bytes:u64}+
//! 4 restart   key:16
//! 5 received  bytes:u64
//! 6 run       forced:u8(0 or 1)
//! 7 epoch     epoch:u64
//! ```

use super::{CLAIM_BYTES, DoneRecord, JournalHeader, PathKey, RangeRecord, SENDER_BYTES};
use crate::digest::{Digest, DigestKind};

pub(super) const PREAMBLE_BYTES: usize = 16;
pub(super) const HEAD_BYTES: usize = 16;
/// Most bytes of a mapping: 512 for each of 65,535 sources.
pub const MAPPING_BYTES_MAX: usize = 32 << 20;
/// Most bytes of a label.
pub const LABEL_BYTES_MAX: usize = 4096;
/// Most bytes of a whole header: the mapping, the label, and the rest for destination paths, which can be longer.
pub const HEADER_BYTES_MAX: usize = 3 * MAPPING_BYTES_MAX;
/// Most bytes of any other body: a torn write can lose this much at once.
const BODY_BYTES_MAX: usize = 64 * 1024;
const DONE_BYTES: usize = 32;
/// Most entries of a `done` record.
pub(super) const DONE_MAX: usize = BODY_BYTES_MAX / DONE_BYTES;
const MAGIC: [u8; 8] = *b"GODWITJ\x01";

/// Type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Header = 1,
    Ranges = 2,
    Done = 3,
    Restart = 4,
    Received = 5,
    Run = 6,
    Epoch = 7,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        [
            Self::Header,
            Self::Ranges,
            Self::Done,
            Self::Restart,
            Self::Received,
            Self::Run,
            Self::Epoch,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == number)
    }

    fn body_bytes_max(self) -> usize {
        match self {
            Self::Header => HEADER_BYTES_MAX,
            _ => BODY_BYTES_MAX,
        }
    }
}

/// Most ranges of a `ranges` record.
pub(super) fn ranges_max(digest: DigestKind) -> usize {
    BODY_BYTES_MAX / range_bytes(digest)
}

fn range_bytes(digest: DigestKind) -> usize {
    16 + 3 * 8 + digest.digest_bytes()
}

/// Offset of the end of the header, computed from the first bytes of a journal. `None` if no header follows the preamble.
pub(super) fn header_end(start: &[u8; PREAMBLE_BYTES + HEAD_BYTES]) -> Option<u64> {
    let (preamble, head) = start.split_first_chunk::<PREAMBLE_BYTES>()?;
    decode_preamble(preamble)?;
    let head = Head::decode(head.first_chunk()?)?;
    (head.kind == Kind::Header).then_some((start.len() + head.body_bytes) as u64)
}

/// Appends the preamble, and returns the checksum that the first record continues.
pub(super) fn encode_preamble(out: &mut Vec<u8>, salt: u64) -> u64 {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&salt.to_le_bytes());
    crc(&[&out[start..]])
}

/// The checksum that the first record continues, if this is a preamble.
pub(super) fn decode_preamble(preamble: &[u8; PREAMBLE_BYTES]) -> Option<u64> {
    preamble.starts_with(&MAGIC).then(|| crc(&[preamble]))
}

/// Appends a record to `out`, which must be empty, and returns its checksum.
pub(super) fn encode(
    out: &mut Vec<u8>,
    chain: u64,
    kind: Kind,
    fill: impl FnOnce(&mut Vec<u8>),
) -> u64 {
    out.resize(HEAD_BYTES, 0);
    fill(out);
    let body_bytes = u32::try_from(out.len() - HEAD_BYTES).unwrap_or(u32::MAX);
    debug_assert!(body_bytes as usize <= kind.body_bytes_max());
    out[..4].copy_from_slice(&body_bytes.to_le_bytes());
    out[4] = kind as u8;
    let checksum = crc(&[&chain.to_le_bytes(), &out[..8], &out[HEAD_BYTES..]]);
    out[8..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The head of a record whose body has not been read yet.
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) body_bytes: usize,
    prefix: [u8; 8],
    checksum: u64,
}

impl Head {
    /// Reads a head. `None` if the bytes cannot be a head; their length must not be used then.
    pub(super) fn decode(head: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut fields = Fields(head);
        let body_bytes = fields.number32()? as usize;
        let kind = Kind::from_number(fields.byte()?)?;
        let zero = fields.take(3)?;
        let checksum = fields.number64()?;
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&head[..8]);
        (zero == [0; 3] && body_bytes <= kind.body_bytes_max()).then_some(Self {
            kind,
            body_bytes,
            prefix,
            checksum,
        })
    }

    /// The checksum for the next record to continue, if this head belongs to `body` and continues `chain`.
    pub(super) fn verify(&self, chain: u64, body: &[u8]) -> Option<u64> {
        let checksum = crc(&[&chain.to_le_bytes(), &self.prefix, body]);
        // A fuzzer cannot guess checksums, but must reach the code behind this check.
        (checksum == self.checksum || cfg!(fuzzing)).then_some(checksum)
    }
}

fn crc(parts: &[&[u8]]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    for part in parts {
        digest.update(part);
    }
    digest.finalize()
}

/// Whether the header is within its limits.
pub(super) fn header_fits(header: &JournalHeader) -> bool {
    header.mapping.len() <= MAPPING_BYTES_MAX
        && header.label.len() <= LABEL_BYTES_MAX
        && header_bytes(header) <= HEADER_BYTES_MAX
}

/// Most bytes of the body of a header.
pub(super) fn header_bytes(header: &JournalHeader) -> usize {
    let destinations: usize = header.destinations.iter().map(|path| 4 + path.len()).sum();
    let fixed = 1 + 4 + 4 + 4 + CLAIM_BYTES + SENDER_BYTES;
    fixed + header.mapping.len() + header.label.len() + destinations
}

/// Appends the body of a header that [fits](header_fits).
pub(super) fn encode_header(header: &JournalHeader, out: &mut Vec<u8>) {
    out.push(header.digest.number());
    encode_bytes(&header.mapping, out);
    encode_bytes(header.label.as_bytes(), out);
    out.extend_from_slice(&length(header.destinations.len()));
    for destination in &header.destinations {
        encode_bytes(destination, out);
    }
    out.extend(header.claim.iter().flatten());
    out.extend(header.sender.iter().flatten());
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&length(bytes.len()));
    out.extend_from_slice(bytes);
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length)
        .expect("a header that fits has no longer parts")
        .to_le_bytes()
}

pub(super) fn decode_header(body: &[u8]) -> Option<JournalHeader> {
    let mut fields = Fields(body);
    let digest = DigestKind::from_number(fields.byte()?)?;
    let mapping = fields.bytes()?.to_vec();
    let label = str::from_utf8(fields.bytes()?).ok()?.to_owned();
    let count = fields.number32()?;
    let mut destinations = Vec::new();
    for _ in 0..count {
        destinations.push(fields.bytes()?.to_vec());
    }
    // Journals of earlier versions name no sender.
    let claim = match fields.0.len() {
        0 | SENDER_BYTES => None,
        _ => Some(fields.array()?),
    };
    let sender = match fields.is_empty() {
        true => None,
        false => Some(fields.array()?),
    };
    fields.is_empty().then_some(JournalHeader {
        claim,
        sender,
        mapping,
        digest,
        destinations,
        label,
    })
}

pub(super) fn encode_ranges(ranges: &[RangeRecord], digest: DigestKind, out: &mut Vec<u8>) {
    for range in ranges {
        out.extend_from_slice(&range.key.0);
        for number in [range.generation, range.offset, range.bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&range.digest.0[..digest.digest_bytes()]);
    }
}

/// Passes each range of a body to `use_range`. Returns `None` without any call if the body does not consist of whole ranges.
pub(super) fn decode_ranges(
    body: &[u8],
    digest: DigestKind,
    mut use_range: impl FnMut(RangeRecord),
) -> Option<()> {
    if !body.len().is_multiple_of(range_bytes(digest)) {
        return None;
    }
    let mut fields = Fields(body);
    while !fields.is_empty() {
        let key = fields.key()?;
        let [generation, offset, bytes] =
            [fields.number64()?, fields.number64()?, fields.number64()?];
        let mut bytes_of_digest = [0; 32];
        bytes_of_digest[..digest.digest_bytes()]
            .copy_from_slice(fields.take(digest.digest_bytes())?);
        use_range(RangeRecord {
            key,
            generation,
            offset,
            bytes,
            digest: Digest(bytes_of_digest),
        });
    }
    Some(())
}

pub(super) fn encode_done(done: &[DoneRecord], out: &mut Vec<u8>) {
    for entry in done {
        out.extend_from_slice(&entry.key.0);
        out.extend_from_slice(&entry.generation.to_le_bytes());
        out.extend_from_slice(&entry.bytes.to_le_bytes());
    }
}

/// Passes each entry of a body to `use_done`. Returns `None` without any call if the body does not consist of whole entries.
pub(super) fn decode_done(body: &[u8], mut use_done: impl FnMut(DoneRecord)) -> Option<()> {
    if !body.len().is_multiple_of(DONE_BYTES) {
        return None;
    }
    let mut fields = Fields(body);
    while !fields.is_empty() {
        use_done(DoneRecord {
            key: fields.key()?,
            generation: fields.number64()?,
            bytes: fields.number64()?,
        });
    }
    Some(())
}

pub(super) fn decode_restart(body: &[u8]) -> Option<PathKey> {
    let mut fields = Fields(body);
    fields.key().filter(|_| fields.is_empty())
}

/// Reads a body that consists of one number, as in `received` and `epoch`.
pub(super) fn decode_number(body: &[u8]) -> Option<u64> {
    let mut fields = Fields(body);
    fields.number64().filter(|_| fields.is_empty())
}

pub(super) fn decode_run(body: &[u8]) -> Option<bool> {
    match body {
        [forced @ (0 | 1)] => Some(*forced == 1),
        _ => None,
    }
}

/// The fields that are not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn number64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn key(&mut self) -> Option<PathKey> {
        self.array().map(PathKey)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let bytes = self.number32()?;
        self.take(bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format is fixed: a journal written by one version is read by the next.
    #[test]
    fn bytes_are_as_specified() {
        let mut preamble = Vec::new();
        let chain = encode_preamble(&mut preamble, 0x0807_0605_0403_0201);
        assert_eq!(preamble, b"GODWITJ\x01\x01\x02\x03\x04\x05\x06\x07\x08");
        let mut record = Vec::new();
        let done = DoneRecord {
            key: PathKey([0xaa; 16]),
            generation: 3,
            bytes: 4,
        };
        let next = encode(&mut record, chain, Kind::Done, |body| {
            encode_done(&[done], body);
        });
        assert_eq!(record[..8], [32, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(record[8..16], next.to_le_bytes());
        assert_eq!(record[16..32], [0xaa; 16]);
        assert_eq!(
            record[32..],
            [3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]
        );
        let head = Head::decode(record.first_chunk().unwrap()).unwrap();
        assert_eq!(head.verify(chain, &record[16..]), Some(next));
        assert_eq!(head.verify(chain ^ 1, &record[16..]), None);
    }

    #[test]
    fn lengths_beyond_the_limits_are_no_heads() {
        let mut head = [0; HEAD_BYTES];
        for (kind, bytes_max) in [(1, HEADER_BYTES_MAX), (2, BODY_BYTES_MAX)] {
            head[4] = kind;
            let most = u32::try_from(bytes_max).unwrap();
            head[..4].copy_from_slice(&most.to_le_bytes());
            assert!(Head::decode(&head).is_some());
            head[..4].copy_from_slice(&(most + 1).to_le_bytes());
            assert!(Head::decode(&head).is_none());
        }
        assert!(Head::decode(&[0; HEAD_BYTES]).is_none());
    }
}
