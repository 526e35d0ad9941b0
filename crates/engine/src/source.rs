//! Defines the source of a transfer's bytes: the `Source` trait, digests that transfers share, and the payload of a block. Does not know
//! how entries are found (`work`), nor how blocks are sent.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use godwit_proto::{EntryId, Fault, FaultCode, Record, Side};
use godwit_store::digest::{self, Digest, DigestKind};
use godwit_store::pool::Block;

/// Supplies the bytes of entries. Called from many threads at once.
pub trait Source: Send + Sync {
    /// Opens a file that is sent in slices.
    ///
    /// # Errors
    /// The fault is reported under the entry's name; the transfer continues.
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault>;

    /// Reads a whole small file into the front of `buffer`, which has room for the file and, unless full, for one more
    /// byte.
    ///
    /// # Errors
    /// [`ReadError::Changed`] when the file no longer has the generation that `record` names.
    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError>;

    /// Like [`Source::read_whole`]. If transfers share the bytes, also returns their common digest.
    ///
    /// # Errors
    /// The errors of [`Source::read_whole`].
    fn read_whole_shared(
        &self,
        record: &Record,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<OnceDigest>), ReadError> {
        Ok((self.read_whole(record, buffer)?, None))
    }

    /// Like [`Source::read_whole`], after the receiver may have refused the bytes: takes no copy that transfers share.
    ///
    /// # Errors
    /// The errors of [`Source::read_whole`].
    fn read_whole_again(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.read_whole(record, buffer)
    }

    /// Whether bytes can be read a second time. If so, a block is released once it is sent, and read again in the rare
    /// case that its stream dies. If not, the block is kept until it is written, and a single thread reads, in order.
    fn reads_again(&self) -> bool {
        true
    }

    /// Whether one thread per file reads as fast as all threads taking turns at each file. Reading apart costs less,
    /// because the other end then also writes the files apart.
    fn reads_apart(&self) -> bool {
        false
    }

    /// Called when the transfer ends. Blocked reads must return promptly.
    fn close(&self) {}

    /// Describes the current state of the entry: same name and number, today's size, times and generation.
    ///
    /// # Errors
    /// The entry is gone or cannot be examined.
    fn refresh(&self, record: &Record) -> Result<Record, Fault>;
}

/// An open source file.
pub trait SourceFile: Send + Sync {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// [`ReadError::Changed`] when the file ended early or its generation has changed since it was opened.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError>;

    /// Like [`SourceFile::read_at`]. If transfers share the bytes, also returns their common digest.
    ///
    /// # Errors
    /// The errors of [`SourceFile::read_at`].
    fn read_shared(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<OnceDigest>, ReadError> {
        self.read_at(offset, buffer)?;
        Ok(None)
    }

    /// Like [`SourceFile::read_at`], after the receiver may have refused the bytes: takes no copy that transfers share.
    ///
    /// # Errors
    /// The errors of [`SourceFile::read_at`].
    fn read_again(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.read_at(offset, buffer)
    }

    /// The next bytes of a file of unknown size, and whether they are the last. Fills `buffer` unless they are the
    /// last.
    ///
    /// # Errors
    /// The file cannot be read, or has a known size.
    fn read_next(&self, buffer: &mut [u8]) -> Result<(usize, bool), ReadError> {
        let _ = buffer;
        Err(ReadError::Changed)
    }

    /// The bytes themselves, if the source keeps them in memory for its whole life; this saves a copy.
    fn lend(&self, offset: u64, bytes: usize) -> Option<&'static [u8]> {
        let _ = (offset, bytes);
        None
    }

    /// The first range with data at or after `offset`; `None` if only a hole is left. Not called for files up to 8 MiB
    /// whose records do not hint at holes.
    ///
    /// # Errors
    /// The file cannot be examined.
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError>;

    /// The current generation of the file.
    ///
    /// # Errors
    /// The file cannot be examined.
    fn generation(&self) -> Result<u64, ReadError>;
}

/// The kind of a digest, and the place of its slice in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DigestTerms {
    /// The kind of digest.
    pub kind: DigestKind,
    /// Offset of the slice.
    pub offset: u64,
    /// Size of the file.
    pub entry_bytes: u64,
}

impl DigestTerms {
    /// The digest of a slice with these bytes.
    #[must_use]
    pub fn digest(&self, bytes: &[u8]) -> Digest {
        digest::digest_slice(self.kind, self.offset, self.entry_bytes, bytes)
    }
}

/// The digest of bytes that several transfers have, each in a buffer. The first one that needs the digest computes it from its own buffer.
/// A receiver therefore finds a copy that differs from that one.
#[derive(Clone, Debug, Default)]
pub struct OnceDigest(Arc<OnceLock<(DigestTerms, Digest)>>);

impl OnceDigest {
    /// The digest in these terms. In other terms than those of the first transfer, it is computed from `bytes`.
    #[must_use]
    pub fn of(&self, terms: DigestTerms, bytes: &[u8]) -> Digest {
        let (known, digest) = self.0.get_or_init(|| (terms, terms.digest(bytes)));
        match *known == terms {
            true => *digest,
            false => terms.digest(bytes),
        }
    }
}

/// Why bytes could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file differs from the announced one: it must be announced again.
    Changed,
    /// The file cannot be read.
    Failed(Fault),
}

/// The fault of a second read from a source that can be read only once.
pub fn only_once() -> Fault {
    Fault {
        entry: EntryId(0),
        side: Side::SOURCE,
        code: FaultCode::IO,
        errno: None,
        message: "data from standard input cannot be read again; start again".to_owned(),
    }
}

/// The contents of a block.
pub(crate) enum Payload {
    Empty,
    Pooled(Block, usize),
    Lent(&'static [u8]),
}

impl Payload {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Pooled(block, bytes) => &block[..*bytes],
            Self::Lent(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_computed_once_for_the_same_terms() {
        let once = OnceDigest::default();
        let terms = DigestTerms {
            kind: DigestKind::Blake3,
            offset: 0,
            entry_bytes: 5,
        };
        let first = once.of(terms, b"bytes");
        assert_eq!(first, terms.digest(b"bytes"));
        // A computation from this buffer would have another result.
        assert_eq!(once.clone().of(terms, b"other"), first);
        let crc = DigestTerms {
            kind: DigestKind::Crc64Nvme,
            ..terms
        };
        assert_eq!(once.of(crc, b"bytes"), crc.digest(b"bytes"));
        let part = DigestTerms {
            entry_bytes: 9,
            ..terms
        };
        assert_eq!(once.of(part, b"bytes"), part.digest(b"bytes"));
    }
}
