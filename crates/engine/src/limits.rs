//! The bounds of every queue, window and buffer in the engine, each a sum that names its holders.
//! Decides nothing at run time: what a transfer was told to use is in `live` and in the configurations.

use std::time::Duration;

/// Unit of transport unless configured otherwise: two fit into a 1 MiB second-level cache.
pub const BLOCK_BYTES: u32 = 512 * 1024;

/// Blocks in the sender's pool: one power of two above bandwidth × delay of 5 Gbit/s at 100 ms (62.5 MB).
pub const POOL_BYTES: usize = 64 << 20;

/// A file up to this share of a block travels in a bundle with others.
pub const fn bundle_file_bytes_max(block_bytes: u32) -> u64 {
    block_bytes as u64 / 2
}

/// Most files in one bundle: their records (64 bytes and a name each) stay well below the frame's head limit.
pub const BUNDLE_RECORDS_MAX: usize = 1024;

/// Longest encoding of a bundle's or manifest's records before another one is begun; the wire allows 1 MiB.
pub const RECORD_SECTION_BYTES: usize = 256 * 1024;

/// Entries in one manifest.
pub const MANIFEST_RECORDS: usize = 1024;

/// Entries announced and not yet answered: 1.3 million a second at a round trip of 50 ms.
pub const UNANSWERED_RECORDS_MAX: usize = 64 * 1024;

/// Entries that the receiver wants and that are not yet read.
pub const WANTED_RECORDS_MAX: usize = 32 * 1024;

/// Entries sent and not yet durable, whose records the sender keeps to be able to read them again.
pub const UNDURABLE_RECORDS_MAX: usize = 64 * 1024;

/// Large files being read at one time: one for each stream would do, two more hide the change from one to the next.
pub const LARGE_FILES_ACTIVE_MAX: usize = 4;

/// Large files in progress that a receiver accepts (open temporary files of one transfer).
pub const LARGE_FILES_OPEN_MAX: usize = 1024;

/// Slices of 512 KiB that may be on their way with nothing known of their durability; bounds the sender's table.
pub const OUTSTANDING_ITEMS_MAX: usize = 16 * 1024;

/// Content that the receiver has written and not yet made durable: what a crash costs.
/// Two batches: one that fills, one that is being synced.
pub const UNDURABLE_BYTES_MAX: u64 = 2 * BATCH_BYTES;

/// A batch is synced when it holds this much content …
pub const BATCH_BYTES: u64 = 64 << 20;

/// … or this many files …
pub const BATCH_FILES: usize = 4096;

/// … or when its oldest content is this old.
pub const BATCH_AGE: Duration = Duration::from_millis(500);

/// How often a file that changes while it is read is tried again before it is reported.
pub const ATTEMPTS_MAX: u16 = 4;

/// Blocks whose digest was wrong on arrival before the transfer is given up as broken.
pub const DIGEST_FAILURES_MAX: u64 = 16;

/// Failed entries that are remembered one by one; the rest is only counted.
pub const FAULTS_KEPT_MAX: usize = 16 * 1024;

/// Streams of one transfer.
pub const STREAMS_MAX: u32 = 64;

/// Received blocks between two flushes of acknowledgements while more data keeps coming.
pub const ACK_EVERY_BLOCKS: u32 = 4;

/// How often each end tells the other how things stand.
pub const STATUS_EVERY: Duration = Duration::from_millis(500);

/// A stream that has nothing to say says so this often, so that the other end knows it is alive.
pub const PING_EVERY: Duration = Duration::from_secs(5);

/// A stream that was silent for this long is given up; a blocked disk at the other end may well take a minute.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

const _: () = assert!(BLOCK_BYTES.is_power_of_two());
const _: () = assert!(RECORD_SECTION_BYTES * 2 < godwit_proto::HEAD_BYTES_MAX as usize);
// What a crash can cost must stay within the promise of 256 MiB: undurable content and a full pool.
const _: () = assert!(UNDURABLE_BYTES_MAX + POOL_BYTES as u64 <= 256 << 20);

/// Ranges in one acknowledgement frame: 24 bytes each, far below the head limit.
pub const ACK_RANGES_MAX: usize = 4096;
