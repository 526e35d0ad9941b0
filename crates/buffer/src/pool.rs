//! Owns the rules by which the buffers of several nodes are one pool: which node fills a part of a file, which node is left out, and
//! work that several readers share. Asks no node and reads no file.

pub mod flights;
pub mod place;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::extent::{FileKey, SourceId};
use crate::frame::crc;

/// An extent of a file that a reader wants from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Where the extent begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// The pool may read the extent from slow storage into a buffer.
    pub fill: bool,
    /// How long the file stays in the buffer.
    pub keep_for: Duration,
}

/// The answer of the pool to a reader.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// This node fills the extent.
    Own,
    /// Another node should have it, and did not give it in time. The reader reads it from slow storage.
    Missed,
    /// An extent of another node.
    Here(Arc<Extent>),
}

/// The content of an extent in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The bytes were not in a buffer before.
    pub filled: bool,
}

/// The other nodes of the pool.
pub trait Mates: Send + Sync {
    /// An extent of a file whose generation this node has just seen at its own export. Returns within seconds.
    fn fetch(&self, file: &Arc<FileKey>, wish: Wish) -> Fetched;

    /// Bytes of a source that the buffers of the other nodes take.
    fn room(&self, source: SourceId) -> u64;
}

/// Checksum of bytes that one node sends to another. It also covers file and offset, so that bytes of another place do not
/// match.
#[must_use]
pub fn checksum(file: &FileKey, offset: u64, data: &[u8]) -> u64 {
    crc(&[
        &file.path,
        &file.generation.bytes.to_le_bytes(),
        &file.generation.stamp.to_le_bytes(),
        &offset.to_le_bytes(),
        data,
    ])
}
