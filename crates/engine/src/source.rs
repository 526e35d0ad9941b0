//! Defines the source of a transfer's bytes: the `Source` trait and the payload of a block. Does not know how entries
//! are found (`work`), nor how blocks are sent.

use std::ops::Range;
use std::sync::Arc;

use godwit_proto::{EntryId, Fault, FaultCode, Record, Side};
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
