//! The bounds of every queue, window and buffer in the engine, each a sum that names its holders.
//! Decides nothing at run time: what a transfer was told to use is in `live` and in the configurations.

use std::time::Duration;

/// Content of blocks that travels on a connection for everything else, such as ssh, before one for blocks stands.
pub const EARLY_BYTES: u64 = 1 << 20;

/// Unit of transport unless configured otherwise: two fit into a 1 MiB second-level cache.
pub const BLOCK_BYTES: u32 = 512 * 1024;

/// Blocks in the sender's pool: one power of two above bandwidth × delay of 5 Gbit/s at 100 ms (62.5 MB).
pub const POOL_BYTES: usize = 64 << 20;

/// A file up to this share of a block travels in a bundle with others.
pub const fn bundle_file_bytes_max(block_bytes: u32) -> u64 {
    block_bytes as u64 / 2
}

/// A file up to this many bytes that takes as much room as it has bytes is read without a look for holes: that takes 9 µs
/// for each MiB in memory. What is missed is no larger: room that was taken and never written, or a hole that room taken elsewhere hides.
pub const UNSOUNDED_BYTES_MAX: u64 = 8 << 20;

/// Most files in one bundle: their records (64 bytes and a name each) stay well below the frame's head limit.
pub const BUNDLE_RECORDS_MAX: usize = 1024;

/// Longest encoding of a bundle's or manifest's records before another one is begun; the wire allows 1 MiB.
pub const RECORD_SECTION_BYTES: usize = 256 * 1024;

/// Small files whose digests are taken in one go, and announced together.
pub const DIGESTS_AT_ONCE: usize = 256;

/// Manifests that wait at the receiver for the digests of its own files; each has at most [`MANIFEST_RECORDS`] of an honest sender.
pub const CHECKS_WAITING_MAX: usize = 512;

/// Notices in one frame; they may have long names.
pub const NOTICES_AT_ONCE: usize = 512;

/// Bytes of notices after which a frame is closed, and what of them is kept to be said again if their stream dies.
pub const NOTICE_FRAME_BYTES: usize = 256 << 10;
/// See [`NOTICE_FRAME_BYTES`]; some 200,000 names.
pub const NOTICES_KEPT_BYTES: usize = 16 << 20;

/// Entries in one manifest.
pub const MANIFEST_RECORDS: usize = 1024;

/// Entries announced and not yet answered: 650,000 a second at a round trip of 50 ms, which is more than anything can create.
pub const UNANSWERED_RECORDS_MAX: usize = 32 * 1024;

/// Paths whose memory is kept for the next ones, and the memory of one of them in bytes.
pub(crate) const USED_PATHS_MAX: usize = 4 * MANIFEST_RECORDS;
pub(crate) const USED_PATH_BYTES_MAX: usize = 256;

/// Answers that the receiver keeps to give them again: one for each manifest that may be unanswered, of one entry each
/// at worst …
pub const ANSWERS_KEPT_MAX: usize = UNANSWERED_RECORDS_MAX + MANIFEST_RECORDS;

/// … and at most this much of them: 8 bytes for each entry of full windows would be half a megabyte, a fault or a held
/// range of each tenfold. What is forgotten is planned again.
pub const ANSWERS_KEPT_BYTES_MAX: usize = 16 << 20;

/// Entries that the receiver wants and that are not yet read.
pub const WANTED_RECORDS_MAX: usize = 32 * 1024;

/// Entries that failed at the sender and of which the receiver is not yet told, before the scan waits: 32 bundles of them.
pub const NOTICES_MAX: usize = 16 * BUNDLE_RECORDS_MAX;

/// Entries sent and not yet durable, whose records the sender keeps to be able to read them again.
pub const UNDURABLE_RECORDS_MAX: usize = 32 * 1024;

/// Attributes and access lists of entries that the sender holds, for each of two purposes: announced or sent, and wanted. Far
/// above what files usually have within the windows of records; one batch of a scan and one bundle may come on top.
pub const EXTENSIONS_HELD_BYTES_MAX: usize = 8 << 20;

/// Large files being read at one time: one for each stream would do, two more hide the change from one to the next.
pub const LARGE_FILES_ACTIVE_MAX: usize = 4;

/// Slices of a large file that are cut ahead where they leave in a random order: 32 MiB of it in blocks of [`BLOCK_BYTES`].
pub const ORDER_WINDOW_SLICES: usize = 64;

/// Small files among which the next one is chosen where they leave in a random order.
pub const ORDER_WINDOW_FILES: usize = 4 * BUNDLE_RECORDS_MAX;

/// Large files in progress that a receiver accepts (open temporary files of one transfer).
pub const LARGE_FILES_OPEN_MAX: usize = 1024;

/// Slices of 512 KiB that may be on their way with nothing known of their durability; bounds the sender's table.
pub const OUTSTANDING_ITEMS_MAX: usize = 16 * 1024;

/// Ranges in which the numbers of the items that have come may lie at a receiver: what makes it remember more than
/// a few numbers are gaps, and a sender leaves one at most for each item that it has numbered and that has not arrived.
pub const ITEM_RANGES_MAX: usize = 128 * 1024;
const _: () = assert!(
    OUTSTANDING_ITEMS_MAX // blocks
        + READING_MAX // begun before the window was full
        + UNANSWERED_RECORDS_MAX + MANIFEST_RECORDS // manifests, of one entry each at worst
        + 2 // before the first gap, after the last
        <= ITEM_RANGES_MAX
);

/// Pieces that are read at one time: one by each stream, and by each of more readers than any machine has use for.
const READING_MAX: usize = STREAMS_MAX as usize + 1024;

/// Entries in what the receiver has written and not yet made durable: what an honest sender's window lets it send,
/// with the bundle that passes the bound, and one item for each block.
pub const UNDURABLE_ENTRIES_MAX: usize =
    UNDURABLE_RECORDS_MAX + BUNDLE_RECORDS_MAX + OUTSTANDING_ITEMS_MAX;

/// Ranges of all large files in progress together, of which the receiver knows digests: 128 bytes each, 128 MiB at worst.
/// What honest senders need is far below: a gap for each block on its way, what earlier runs held, and the holes;
/// a file with a hole for every other block of 512 KiB may have half a terabyte.
pub const FILE_RANGES_MAX: usize = 1024 * 1024;
const _: () = assert!(
    OUTSTANDING_ITEMS_MAX
        + LARGE_FILES_ACTIVE_MAX * (HELD_RANGES_MAX + ORDER_WINDOW_SLICES)
        + (500 << 30) / (2 * BLOCK_BYTES as usize)
        <= FILE_RANGES_MAX
);

/// Ranges of one file that an answer names as held; a file in more pieces is sent whole.
pub const HELD_RANGES_MAX: usize = 8192;

/// Content that the receiver has written and not yet made durable: what a crash costs.
/// Two batches: one that fills, one that is being synced.
pub const UNDURABLE_BYTES_MAX: u64 = 2 * BATCH_BYTES;

/// A batch is synced when it holds this much content …
pub const BATCH_BYTES: u64 = 64 << 20;

/// … or this many files …
pub const BATCH_FILES: usize = 4096;

/// … or when its oldest content is this old.
pub const BATCH_AGE: Duration = Duration::from_millis(500);

/// How often a file that changes while it is read is tried before it is reported.
pub const ATTEMPTS_MAX: u16 = 8;

/// The time before the second of those tries. Each further gap is twice as long: 250 ms × (2⁷ − 1) is 32 s for all seven.
pub const RETRY_GAP_FIRST: Duration = Duration::from_millis(250);

/// Entries that wait for their next try; of more the first due is tried at once. The receiver may have each open as a large file,
/// and half of those are for files that do not change.
pub const RESTING_MAX: usize = LARGE_FILES_OPEN_MAX / 2;

/// Blocks whose digest was wrong on arrival before the transfer is given up as broken.
pub const DIGEST_FAILURES_MAX: u64 = 16;

/// Failed entries that the receiver says again when a stream dies, and those that wait to be said; of more only the
/// number is told, at the end.
pub const FAULTS_KEPT_MAX: usize = 16 * 1024;

/// What those entries' names and messages may take together: 1 KiB each.
pub const FAULTS_KEPT_BYTES_MAX: usize = FAULTS_KEPT_MAX * 1024;

/// Ranges of entry numbers in which each end remembers what has failed: twice what is said again, so that what the
/// receiver repeats is known at the sender.
pub const FAILED_RANGES_MAX: usize = 2 * FAULTS_KEPT_MAX;

/// Streams of one transfer.
pub const STREAMS_MAX: u32 = godwit_tuner::STREAMS_MAX;

/// Received blocks between two flushes of acknowledgements at least, while more data keeps coming; and [`ACK_DELAY`] lies between them.
pub const ACK_EVERY_BLOCKS: u32 = 4;

/// An acknowledgement waits for further blocks until there are [`ACK_EVERY_BLOCKS`] and this has passed, or none comes for so long: it shares
/// a frame, a record and a system call at both ends with the next. Nothing but the end of a transfer waits for it.
pub const ACK_DELAY: Duration = Duration::from_millis(1);

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
