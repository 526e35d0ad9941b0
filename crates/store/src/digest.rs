//! Owns the digests of slices and files, and combines slice digests in any order into the digest of their file.
//! Does not read files and does not decide which digest a transfer uses.
//!
//! Both kinds can be combined. The CRC of a concatenation follows from the CRCs and lengths of its parts. BLAKE3 is a binary tree over
//! chunks of 1 KiB, and an aligned slice is a subtree of it.
//!
//! For CRC64-NVME zeros of any length cost nanoseconds. For BLAKE3 they cost as much as data (about 8 GB/s a core):
//! the hash of a chunk depends on the chunk's position by design, so no two zero subtrees are alike.
//!
//! Each slice's digest is computed when the slice is read, and checked before the slice is written. The digest of the whole file travels
//! with the last slice, and must equal the digest that the receiver combined. Each bundled file has its own digest. For BLAKE3, `b3sum`
//! prints the same digest.

mod blake;
mod crc64;
mod file;

pub use file::{Added, FileDigest};
pub use godwit_model::DigestKind;

/// The instructions that this processor uses for digests of that kind, if the library reports them.
pub fn implementation(kind: DigestKind) -> Option<String> {
    match kind {
        DigestKind::Crc64Nvme => Some(crc64::implementation()),
        DigestKind::Blake3 => None,
    }
}

/// A digest of either kind. A CRC is in the first 8 bytes, little-endian, and the rest is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Means "there is no digest": no file and no slice has this one.
    pub const NONE: Self = Self([0xff; 32]);

    fn from_crc(crc: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&crc.to_le_bytes());
        Self(bytes)
    }

    fn crc(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }
}

/// The digest of the slice `data` at `offset` of a file of `file_bytes` bytes.
///
/// A slice that is the whole file has the file's digest: for BLAKE3 the standard hash. Any other BLAKE3 slice has the chaining value of its
/// subtree. `offset` must then be a multiple of the slice's window, a power of two of at least 1 KiB. Only the last slice of a file may be
/// shorter than its window. A slice that is no subtree gets a digest too, but only for comparing that slice. [`FileDigest::add`] refuses
/// such a digest or [`FileDigest::fits`] rejects it.
pub fn digest_slice(kind: DigestKind, offset: u64, file_bytes: u64, data: &[u8]) -> Digest {
    match kind {
        DigestKind::Crc64Nvme => Digest::from_crc(crc64::of(data)),
        DigestKind::Blake3 => {
            let mut run = blake::Run::new(offset, data.len() as u64, file_bytes);
            run.data(data);
            Digest(run.finish())
        }
    }
}

/// The digest of the `length` bytes at `offset` of a file of `file_bytes` bytes, as [`digest_slice`] returns it. Only `pieces` of them are
/// data; all others are zeros.
///
/// A piece is its absolute offset and its bytes. Pieces ascend, do not overlap and lie inside the slice; for other pieces the result is
/// [`Digest::NONE`].
pub fn digest_sparse_slice(
    kind: DigestKind,
    offset: u64,
    length: u64,
    file_bytes: u64,
    pieces: &[(u64, &[u8])],
) -> Digest {
    let Some(end) = offset.checked_add(length) else {
        return Digest::NONE;
    };
    let mut at = offset;
    for (start, data) in pieces {
        match start.checked_add(data.len() as u64) {
            Some(stop) if *start >= at && stop <= end => at = stop,
            _ => return Digest::NONE,
        }
    }
    match kind {
        DigestKind::Crc64Nvme => {
            let mut crc = 0;
            let mut at = offset;
            for (start, data) in pieces {
                crc = crc64::append_zeros(crc, start - at);
                crc = crc64::combine(crc, crc64::of(data), data.len() as u64);
                at = start + data.len() as u64;
            }
            Digest::from_crc(crc64::append_zeros(crc, end - at))
        }
        DigestKind::Blake3 => {
            let mut run = blake::Run::new(offset, length, file_bytes);
            let mut at = offset;
            for (start, data) in pieces {
                run.zeros(start - at);
                run.data(data);
                at = start + data.len() as u64;
            }
            run.zeros(end - at);
            Digest(run.finish())
        }
    }
}
