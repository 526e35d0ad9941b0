//! The resources that one end of a transfer needs and can use, and how it uses its share.
//! Divides nothing among ends (`core`).

use super::core::{Resources, Want};
use crate::limits;

/// Resources that one end of a transfer needs and can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Minimum of block bytes.
    pub memory_least: u64,
    /// Maximum of block bytes.
    pub memory_most: u64,
    /// Bytes of blocks that each stream holds exclusively; 0 if streams can wait for each other's blocks.
    pub memory_a_stream: u64,
    /// Maximum number of streams.
    pub streams: u32,
    /// Maximum number of threads that read or write for the streams.
    pub helpers: u32,
}

/// Threads of an end with one stream and no helpers: the stream, the scan or the commit, and two that check or keep the
/// pace.
const THREADS_LEAST: u64 = 4;

/// Descriptors of an end with one stream: its journal, its root, a file read or written separately, a listed directory, a spill; and the
/// stream.
const FILES_LEAST: u64 = 8 + FILES_A_STREAM;

/// Descriptors of a stream: its socket, a second handle for the watch, its waker, and the file in use with that file's
/// directory.
const FILES_A_STREAM: u64 = 5;

/// Blocks that a sender needs to make progress: one being sent, one being read, one ahead, and one unacknowledged.
const SENDER_BLOCKS: u64 = 4;

/// Blocks that a receiver needs to make progress: one arrives while another is written.
const RECEIVER_BLOCKS: u64 = 2;

impl Needs {
    /// Needs of a sending end.
    #[must_use]
    pub fn of_sender(pool_bytes: usize, block_bytes: u32, streams: u32, readers: u32) -> Self {
        Self {
            memory_least: SENDER_BLOCKS * block(block_bytes),
            memory_most: pool_bytes as u64,
            memory_a_stream: 0,
            streams,
            helpers: readers,
        }
    }

    /// Needs of a receiving end: its pool has a block for each stream and each writer.
    #[must_use]
    pub fn of_receiver(block_bytes: u32, streams: u32, writers: u32) -> Self {
        Self {
            memory_least: RECEIVER_BLOCKS * block(block_bytes),
            memory_most: u64::from(limits::STREAMS_MAX + writers) * block(block_bytes),
            memory_a_stream: block(block_bytes),
            streams,
            helpers: writers,
        }
    }

    /// The same needs, with `bytes` more outside of the blocks.
    #[must_use]
    pub fn beside(self, bytes: u64) -> Self {
        Self {
            memory_least: self.memory_least.saturating_add(bytes),
            memory_most: self.memory_most.saturating_add(bytes),
            ..self
        }
    }

    pub(super) fn want(&self) -> Want {
        let least = Resources {
            memory: self.memory_least,
            threads: THREADS_LEAST,
            files: FILES_LEAST,
        };
        Want {
            least,
            most: Resources {
                memory: self.memory_most.max(self.memory_least),
                threads: THREADS_LEAST + self.more_streams() + u64::from(self.helpers),
                files: FILES_LEAST + self.more_streams() * FILES_A_STREAM,
            },
        }
    }

    /// Streams of an end with this share.
    pub(super) fn streams_of(&self, share: Resources) -> u32 {
        let by_files = share.files.saturating_sub(FILES_LEAST) / FILES_A_STREAM;
        let by_threads = self.part_of_threads(share, self.more_streams());
        let by_memory = share.memory.checked_div(self.memory_a_stream);
        let streams = (1 + by_files.min(by_threads)).min(by_memory.unwrap_or(u64::MAX));
        u32::try_from(streams.max(1)).unwrap_or(u32::MAX)
    }

    /// Helpers of an end with this share.
    pub(super) fn helpers_of(&self, share: Resources) -> u32 {
        let helpers = self.part_of_threads(share, u64::from(self.helpers));
        u32::try_from(helpers).unwrap_or(u32::MAX)
    }

    const fn more_streams(&self) -> u64 {
        (self.streams as u64).saturating_sub(1)
    }

    /// Number of threads, where streams and helpers both shrink by the same fraction of their maximum.
    fn part_of_threads(&self, share: Resources, wanted: u64) -> u64 {
        let all = self.more_streams() + u64::from(self.helpers);
        let free = share.threads.saturating_sub(THREADS_LEAST).min(all);
        (free * wanted).checked_div(all).unwrap_or(0)
    }
}

/// Bytes of a block; 0 means the default size.
fn block(bytes: u32) -> u64 {
    u64::from(if bytes == 0 {
        limits::BLOCK_BYTES
    } else {
        bytes
    })
}
