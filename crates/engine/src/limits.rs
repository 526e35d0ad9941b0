//! The bounds of every queue, window and buffer in the engine, each with its arithmetic. Contains no run-time settings:
//! the values that a transfer uses are in `live` and in the configurations.

use std::time::Duration;

/// Block content that may travel on a connection for everything else, such as ssh, before a connection for blocks
/// exists.
pub const EARLY_BYTES: u64 = 1 << 20;

/// Unit of transport unless configured otherwise: two fit into a 1 MiB second-level cache.
pub const BLOCK_BYTES: u32 = 512 * 1024;

/// Blocks in the sender's pool: one power of two above bandwidth × delay of 5 Gbit/s at 100 ms (62.5 MB).
pub const POOL_BYTES: usize = 64 << 20;

/// A file up to this share of a block travels in a bundle with others.
pub const fn bundle_file_bytes_max(block_bytes: u32) -> u64 {
    block_bytes as u64 / 2
}

/// Files up to this size that occupy at least their size on disk are read without a lookup of holes. The lookup takes 9
/// µs for each MiB in memory. A missed hole is at most this large: allocated but unwritten space, or a hole hidden by
/// space allocated elsewhere.
pub const UNSOUNDED_BYTES_MAX: u64 = 8 << 20;

/// Most files in one bundle: their records (64 bytes and a name each) stay well below the frame's head limit.
pub const BUNDLE_RECORDS_MAX: usize = 1024;

/// Longest encoding of a bundle's or manifest's records; the next record starts another one. The wire allows 1 MiB.
pub const RECORD_SECTION_BYTES: usize = 256 * 1024;

/// Small files that are hashed together and announced together.
pub const DIGESTS_AT_ONCE: usize = 256;

/// Manifests that wait for digests of the receiver's files; a correct sender puts at most [`MANIFEST_RECORDS`] entries
/// into each.
pub const CHECKS_WAITING_MAX: usize = 512;

/// Notices in one frame; they may have long names.
pub const NOTICES_AT_ONCE: usize = 512;

/// Bytes of notices after which a frame is closed …
pub const NOTICE_FRAME_BYTES: usize = 256 << 10;
/// … and bytes of notices kept to send again if their stream dies; some 200,000 names.
pub const NOTICES_KEPT_BYTES: usize = 16 << 20;

/// Memory of these manifests. A correct sender has at most [`UNANSWERED_RECORDS_MAX`] entries in them; each may take
/// 2 KiB.
pub const CHECKS_WAITING_BYTES_MAX: usize = UNANSWERED_RECORDS_MAX * 2048;

/// Bytes of answers that wait for their stream: a full window has half a megabyte (see [`ANSWERS_KEPT_BYTES_MAX`]).
pub const ANSWERS_WAITING_BYTES_MAX: usize = 4 << 20;

/// Entries in one manifest.
pub const MANIFEST_RECORDS: usize = 1024;

/// Entries announced and not yet answered: enough for 650,000 a second at an RTT of 50 ms, faster than any storage
/// creates files.
pub const UNANSWERED_RECORDS_MAX: usize = 32 * 1024;

/// Paths whose memory is kept for reuse, and the bytes of one of them.
pub(crate) const USED_PATHS_MAX: usize = 4 * MANIFEST_RECORDS;
pub(crate) const USED_PATH_BYTES_MAX: usize = 256;

/// Answers that the receiver keeps for repetition. In the worst case each unanswered manifest has one entry, and …
pub const ANSWERS_KEPT_MAX: usize = UNANSWERED_RECORDS_MAX + MANIFEST_RECORDS;

/// … and most bytes of these answers. Full windows need half a megabyte at 8 bytes an entry; a fault or held range for
/// each entry needs ten times that. If the answer to a manifest was dropped, the manifest is planned again.
pub const ANSWERS_KEPT_BYTES_MAX: usize = 16 << 20;

/// Entries that the receiver has requested and that are not yet read.
pub const WANTED_RECORDS_MAX: usize = 32 * 1024;

/// Failed entries of the sender that are not yet reported to the receiver; the scan waits beyond this number. 16 full
/// bundles.
pub const NOTICES_MAX: usize = 16 * BUNDLE_RECORDS_MAX;

/// Entries sent and not yet durable, whose records the sender keeps for reading them again.
pub const UNDURABLE_RECORDS_MAX: usize = 32 * 1024;

/// Bytes of attributes, access lists and long names that the sender holds, separately for announced or sent entries and
/// for requested ones. Files usually have far less within the windows of records; one batch of a scan and one bundle may
/// exceed the bound.
pub const EXTENSIONS_HELD_BYTES_MAX: usize = 8 << 20;

/// Large files being read at a time: one for each stream would suffice, two more hide the change from one file to the
/// next.
pub const LARGE_FILES_ACTIVE_MAX: usize = 4;

/// Slices of a large file that are cut in advance for a random order: 32 MiB in blocks of [`BLOCK_BYTES`].
pub const ORDER_WINDOW_SLICES: usize = 64;

/// Small files among which a random order chooses the next one.
pub const ORDER_WINDOW_FILES: usize = 4 * BUNDLE_RECORDS_MAX;

/// Large files in progress that a receiver accepts (open temporary files of one transfer).
pub const LARGE_FILES_OPEN_MAX: usize = 1024;

/// Slices of 512 KiB that may be in flight without known durability; bounds the sender's table.
pub const OUTSTANDING_ITEMS_MAX: usize = 16 * 1024;

/// Ranges that the arrived item numbers may form at a receiver. Gaps are what need memory; a sender leaves at most one
/// gap for each item that it has numbered and that has not arrived.
pub const ITEM_RANGES_MAX: usize = 128 * 1024;
const _: () = assert!(
    OUTSTANDING_ITEMS_MAX // blocks
        + READING_MAX // begun before the window was full
        + UNANSWERED_RECORDS_MAX + MANIFEST_RECORDS // manifests, of one entry each at worst
        + 2 // before the first gap, after the last
        <= ITEM_RANGES_MAX
);

/// Pieces being read at one time: one for each stream, and one for each reader beyond any useful number.
const READING_MAX: usize = STREAMS_MAX as usize + 1024;

/// Entries written at the receiver and not yet durable: a correct sender's window, the bundle that exceeds that window,
/// and one item for each block.
pub const UNDURABLE_ENTRIES_MAX: usize =
    UNDURABLE_RECORDS_MAX + BUNDLE_RECORDS_MAX + OUTSTANDING_ITEMS_MAX;

/// Bundles being read at one time: one for each stream, and one for each reader at twice the number that a user may
/// choose.
const BUNDLES_READ_MAX: usize = STREAMS_MAX as usize + 128;

/// Requested entries that have neither arrived nor failed, as a receiver accepts them: 9 bytes each, 10 MB at worst. A
/// correct sender has fewer, because it announces entries only while its windows have room.
pub const AWAITED_ENTRIES_MAX: usize = UNANSWERED_RECORDS_MAX + MANIFEST_RECORDS // announced
    + WANTED_RECORDS_MAX + MANIFEST_RECORDS // requested
    + BUNDLES_READ_MAX * BUNDLE_RECORDS_MAX // taken to be read before the window of sent entries was full
    + BUNDLES_READ_MAX * BUNDLE_RECORDS_MAX // of these, changed at the source and to be read again
    + RESTING_MAX
    + NOTICES_MAX // failed at the source
    + UNDURABLE_ENTRIES_MAX; // sent

/// Ranges of all large files in progress whose digests the receiver knows: 128 bytes each, 128 MiB at worst. Correct
/// senders need far less: a gap for each block in flight, the ranges that earlier runs delivered, and the holes. A file
/// of half a terabyte may have a hole for every other block of 512 KiB.
pub const FILE_RANGES_MAX: usize = 1024 * 1024;
const _: () = assert!(
    OUTSTANDING_ITEMS_MAX
        + LARGE_FILES_ACTIVE_MAX * (HELD_RANGES_MAX + ORDER_WINDOW_SLICES)
        + (500 << 30) / (2 * BLOCK_BYTES as usize)
        <= FILE_RANGES_MAX
);

/// Ranges of one file that an answer can name as held; a file with more ranges is sent whole.
pub const HELD_RANGES_MAX: usize = 8192;

/// Content written at the receiver and not yet durable, which a crash would lose. Two batches: one that fills, and one
/// that is being synced.
pub const UNDURABLE_BYTES_MAX: u64 = 2 * BATCH_BYTES;

/// A batch is synced when it holds this much content …
pub const BATCH_BYTES: u64 = 64 << 20;

/// … or this many files …
pub const BATCH_FILES: usize = 4096;

/// … or when its oldest content is this old.
pub const BATCH_AGE: Duration = Duration::from_millis(500);

/// Number of attempts to send a file that changes while it is read, before it counts as failed.
pub const ATTEMPTS_MAX: u16 = 8;

/// Pause before the second try. Each later pause is twice as long: 250 ms × (2⁷ − 1) is 32 s for all seven.
pub const RETRY_GAP_FIRST: Duration = Duration::from_millis(250);

/// Entries waiting for their next try; beyond this number the first due entry is tried at once. The receiver may have
/// each of them open as a large file. Half of the open files are reserved for files that do not change.
pub const RESTING_MAX: usize = LARGE_FILES_OPEN_MAX / 2;

/// Blocks with a wrong digest on arrival before the transfer fails as broken.
pub const DIGEST_FAILURES_MAX: u64 = 16;

/// Failed entries that the receiver reports again after a stream dies, and those waiting to be reported; beyond this
/// number, only their count is reported, at the end.
pub const FAULTS_KEPT_MAX: usize = 16 * 1024;

/// Total bytes of the names and messages of these entries: 1 KiB each.
pub const FAULTS_KEPT_BYTES_MAX: usize = FAULTS_KEPT_MAX * 1024;

/// Ranges of entry numbers in which each end remembers failures: twice the number of repeated ones, so that the sender
/// recognises the receiver's repetitions.
pub const FAILED_RANGES_MAX: usize = 2 * FAULTS_KEPT_MAX;

/// Streams of one transfer.
pub const STREAMS_MAX: u32 = godwit_tuner::STREAMS_MAX;

/// Minimum of received blocks between two flushes of acknowledgements while more data arrives; [`ACK_DELAY`] must pass
/// too.
pub const ACK_EVERY_BLOCKS: u32 = 4;

/// An acknowledgement waits until [`ACK_EVERY_BLOCKS`] blocks have arrived and this time has passed, or until no block
/// arrives for this time. Therefore it shares a frame, a record and a system call at both ends with the next ones. Only
/// the end of a transfer waits for an acknowledgement.
pub const ACK_DELAY: Duration = Duration::from_millis(1);

/// How often each end sends its STATUS.
pub const STATUS_EVERY: Duration = Duration::from_millis(500);

/// Interval at which an idle stream sends a ping, so that the other end knows that the stream is alive.
pub const PING_EVERY: Duration = Duration::from_secs(5);

/// A stream that is silent for this long is given up; a blocked disk at the other end may take a minute.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

const _: () = assert!(BLOCK_BYTES.is_power_of_two());
const _: () = assert!(RECORD_SECTION_BYTES * 2 < godwit_proto::HEAD_BYTES_MAX as usize);
// The loss in a crash must stay within the promised 256 MiB: undurable content and a full pool.
const _: () = assert!(UNDURABLE_BYTES_MAX + POOL_BYTES as u64 <= 256 << 20);

/// Ranges in one acknowledgement frame: 24 bytes each, far below the head limit.
pub const ACK_RANGES_MAX: usize = 4096;
