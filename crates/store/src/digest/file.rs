//! Owns the unfinished digest of a file: the added ranges, merged as far as possible. Does not hash data: callers pass the digests of
//! slices.

use std::collections::BTreeMap;

use blake3::CHUNK_LEN;

use super::blake::{self, Node, Zeros};
use super::{Digest, DigestKind, crc64};

/// Result of [`FileDigest::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The range was added.
    New,
    /// The whole range had been added before; nothing changed.
    Duplicate,
    /// A part of the range had been added before; nothing changed.
    Overlap,
    /// The range ends beyond the largest offset, or is no subtree of a BLAKE3 tree; nothing changed.
    Misfit,
}

/// Collects the digests of a file's slices in any order, and computes the digest of the file.
///
/// Memory grows with the number of gaps between the ranges, for BLAKE3 times the logarithm of the file's length. Slices that arrive in
/// order need a few entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    kind: DigestKind,
    parts: BTreeMap<u64, Part>,
    covered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    bytes: u64,
    digest: Digest,
}

impl FileDigest {
    /// A file without any known range.
    pub fn new(kind: DigestKind) -> Self {
        Self {
            kind,
            parts: BTreeMap::new(),
            covered: 0,
        }
    }

    /// Which digest this is.
    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// Adds the range of `bytes` bytes at `offset` with its `digest` from [`digest_slice`](super::digest_slice) or
    /// [`ranges`](Self::ranges). An empty range changes nothing and counts as new.
    pub fn add(&mut self, offset: u64, bytes: u64, digest: Digest) -> Added {
        let Some(end) = offset.checked_add(bytes) else {
            return Added::Misfit;
        };
        if bytes == 0 {
            return Added::New;
        }
        match self.covered_within(offset, end) {
            0 => {}
            covered if covered == bytes => return Added::Duplicate,
            _ => return Added::Overlap,
        }
        let part = Part { bytes, digest };
        match self.kind {
            DigestKind::Crc64Nvme => self.insert_run(offset, part),
            DigestKind::Blake3 => {
                if !blake::is_complete(offset, bytes) && !blake::may_be_tail(offset, bytes) {
                    return Added::Misfit;
                }
                self.insert_subtree(offset, part);
            }
        }
        self.covered += bytes;
        Added::New
    }

    /// How many bytes the added ranges cover.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Whether every byte of the range was added.
    pub fn contains(&self, offset: u64, bytes: u64) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| self.covered_within(offset, end) == bytes)
    }

    /// The added ranges in ascending order, merged as far as possible: offset, bytes and digest of each. Adding them to a new `FileDigest`
    /// makes it equal to this one.
    pub fn ranges(&self) -> Vec<(u64, u64, Digest)> {
        self.parts
            .iter()
            .map(|(offset, part)| (*offset, part.bytes, part.digest))
            .collect()
    }

    /// Number of ranges that [`Self::ranges`] returns, which decides the memory of this value.
    pub fn range_count(&self) -> usize {
        self.parts.len()
    }

    /// Whether a file of `file_bytes` bytes can consist of the added ranges and zeros. No range may reach beyond its end, and BLAKE3 ranges
    /// must be subtrees of its tree.
    pub fn fits(&self, file_bytes: u64) -> bool {
        self.parts.iter().all(|(offset, part)| {
            let end = offset + part.bytes;
            end == file_bytes
                || (end < file_bytes
                    && (self.kind == DigestKind::Crc64Nvme
                        || blake::is_complete(*offset, part.bytes)))
        })
    }

    /// The digest of the file of `file_bytes` bytes that has the added ranges, and zeros everywhere else. The digest is the standard
    /// CRC64-NVME, or the hash that `b3sum` prints. [`Digest::NONE`] if the ranges do not [fit](Self::fits).
    ///
    /// For BLAKE3, `file_bytes` must equal the size with which the slices were hashed. Ranges that were never added are hashed now, at about 8
    /// GB/s.
    pub fn finish(&self, file_bytes: u64) -> Digest {
        self.finish_unless(file_bytes, &|| false)
            .unwrap_or(Digest::NONE)
    }

    /// Like [`Self::finish`], but calls `stop` now and then while it hashes missing ranges (first after 256 MiB). Returns `None` once
    /// `stop` returns true.
    pub fn finish_unless(&self, file_bytes: u64, stop: &dyn Fn() -> bool) -> Option<Digest> {
        if !self.fits(file_bytes) {
            return Some(Digest::NONE);
        }
        match self.kind {
            DigestKind::Crc64Nvme => Some(self.finish_crc(file_bytes)),
            DigestKind::Blake3 => self.finish_blake3(file_bytes, stop),
        }
    }

    /// The digest of the `bytes` bytes at `offset` of a file of `file_bytes` bytes, as [`digest_slice`](super::digest_slice) returns it.
    /// The added ranges must lie within this part; everything else is zeros. [`Digest::NONE`] if a range lies outside or is no subtree;
    /// `None` if `stop` returned true, as for [`finish_unless`](Self::finish_unless).
    pub fn part_unless(
        &self,
        offset: u64,
        bytes: u64,
        file_bytes: u64,
        stop: &dyn Fn() -> bool,
    ) -> Option<Digest> {
        let Some(end) = offset.checked_add(bytes).filter(|end| *end <= file_bytes) else {
            return Some(Digest::NONE);
        };
        if bytes == 0 || self.covered_within(offset, end) != self.covered {
            return Some(Digest::NONE);
        }
        if self.kind == DigestKind::Crc64Nvme {
            return Some(self.combined_crc(offset, end));
        }
        if offset == 0 && bytes == file_bytes {
            return self.finish_unless(file_bytes, stop);
        }
        let subtree = blake::is_complete(offset, bytes)
            || end == file_bytes && blake::may_be_tail(offset, bytes);
        if !subtree || !self.fits(file_bytes) {
            return Some(Digest::NONE);
        }
        blake::subtree(offset, bytes, &self.subtrees(), &Zeros::new(stop)).map(Digest)
    }

    fn finish_crc(&self, file_bytes: u64) -> Digest {
        self.combined_crc(0, file_bytes)
    }

    /// The CRC from `start` to `end`; all ranges must lie between them.
    fn combined_crc(&self, start: u64, end: u64) -> Digest {
        let mut crc = 0;
        let mut at = start;
        for (offset, part) in &self.parts {
            crc = crc64::append_zeros(crc, offset - at);
            crc = crc64::combine(crc, part.digest.crc(), part.bytes);
            at = offset + part.bytes;
        }
        Digest::from_crc(crc64::append_zeros(crc, end - at))
    }

    /// Returns the function that looks up each subtree.
    fn subtrees(&self) -> impl Fn(u64, u64) -> Node {
        |offset, bytes| match self.parts.get(&offset) {
            Some(part) if part.bytes == bytes => Node::Known(part.digest.0),
            _ if self.covered_within(offset, offset + bytes) == 0 => Node::Zeros,
            _ => Node::Split,
        }
    }

    fn finish_blake3(&self, file_bytes: u64, stop: &dyn Fn() -> bool) -> Option<Digest> {
        if let Some(whole) = self.parts.get(&0).filter(|part| part.bytes == file_bytes) {
            return Some(whole.digest);
        }
        let zeros = Zeros::new(stop);
        if self.parts.is_empty() && file_bytes <= CHUNK_LEN as u64 {
            let mut run = blake::Run::new(0, file_bytes, file_bytes);
            run.zeros_unless(file_bytes, &zeros)?;
            return Some(Digest(run.finish()));
        }
        // A file of one chunk has returned above.
        blake::root(file_bytes, &self.subtrees(), &zeros).map(Digest)
    }

    fn covered_within(&self, start: u64, end: u64) -> u64 {
        let before = self.parts.range(..start).next_back();
        before
            .into_iter()
            .chain(self.parts.range(start..end))
            .map(|(offset, part)| {
                let stop = (offset + part.bytes).min(end);
                stop.saturating_sub((*offset).max(start))
            })
            .sum()
    }

    /// CRC: neighbours of any length become one part.
    fn insert_run(&mut self, offset: u64, part: Part) {
        let mut start = offset;
        let mut run = part;
        if let Some((before, earlier)) = self.parts.range(..offset).next_back()
            && before + earlier.bytes == offset
        {
            start = *before;
            run = follow(*earlier, run);
        }
        if let Some(later) = self.parts.remove(&(offset + part.bytes)) {
            run = follow(run, later);
        }
        self.parts.insert(start, run);
    }

    /// BLAKE3: siblings become their parent. The part at offset 0 is not joined: only this part could become the whole file, and the digest
    /// of a whole file is not a chaining value. This costs only one more part.
    fn insert_subtree(&mut self, offset: u64, part: Part) {
        let mut start = offset;
        let mut node = part;
        while blake::is_complete(start, node.bytes) {
            let sibling = start ^ node.bytes;
            if start == 0 || sibling == 0 {
                break;
            }
            let Some(other) = self.parts.get(&sibling).copied() else {
                break;
            };
            if other.bytes != node.bytes {
                break;
            }
            self.parts.remove(&sibling);
            let (left, right) = if start < sibling {
                (node, other)
            } else {
                (other, node)
            };
            start = start.min(sibling);
            node = Part {
                bytes: node.bytes * 2,
                digest: Digest(blake::join(&left.digest.0, &right.digest.0)),
            };
        }
        self.parts.insert(start, node);
    }
}

fn follow(first: Part, second: Part) -> Part {
    let crc = crc64::combine(first.digest.crc(), second.digest.crc(), second.bytes);
    Part {
        bytes: first.bytes + second.bytes,
        digest: Digest::from_crc(crc),
    }
}
