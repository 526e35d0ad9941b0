//! Owns the limits of the protocol and the sizes of its fixed structures. Does not enforce them; the module of each frame does.

/// The size of an entry whose final size is not known yet.
pub const UNKNOWN_BYTES: u64 = u64::MAX;

/// Length of a prelude.
pub const PRELUDE_BYTES: usize = 16;

/// Length of the fixed header of a block.
pub const BLOCK_HEADER_BYTES: usize = 128;

/// Length of the fixed part of a record.
pub const RECORD_BYTES: usize = 64;

/// Longest head of any frame.
pub const HEAD_BYTES_MAX: u32 = 1 << 20;

/// Longest head of a frame that holds only a few numbers and a message; an unknown peer may send no more.
pub const SMALL_HEAD_BYTES_MAX: u32 = 4096;

/// Longest payload of a block.
pub const PAYLOAD_BYTES_MAX: u32 = 4 << 20;

/// Smallest block that two ends may agree on: one page.
pub const BLOCK_BYTES_MIN: u32 = 4096;

/// Longest path of an entry relative to its root. It fits the 16 bits of a record's length field.
pub const PATH_BYTES_MAX: usize = 65_535;

/// Longest component of a path, as in Linux file systems.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest target of a symbolic link: `PATH_MAX` without its NUL.
pub const TARGET_BYTES_MAX: usize = 4095;

/// Most records in a manifest or bundle.
pub const RECORDS_MAX: u32 = 8192;

/// Most path bytes in one record section after prefixes are expanded: 512 on average for a full one. Without this limit, a head
/// of 512 KiB could expand to 512 MiB.
pub const PATHS_BYTES_MAX: usize = RECORDS_MAX as usize * 512;

/// Longest name of an extended attribute, as in Linux.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// Longest value of an extended attribute, as in Linux.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// Most entries of an access list: the number that fits the longest attribute value of Linux.
pub const ACL_ENTRIES_MAX: usize = (XATTR_VALUE_BYTES_MAX - 4) / 8;

/// Longest name of a user or group.
pub const ACCOUNT_NAME_BYTES_MAX: usize = 255;

/// Longest extensions of one record. A section with such a record still fits into a head, together with its path.
pub const EXTENSIONS_BYTES_MAX: usize = 384 << 10;

/// Most ranges in one acknowledgement.
pub const ACK_RANGES_MAX: u32 = 8192;

/// Most rules in a selection.
pub const RULES_MAX: usize = 16_384;

/// Longest pattern of a rule, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Most bytes of all patterns of a selection: half of the OPEN that carries them.
pub const PATTERNS_BYTES_MAX: usize = 512 * 1024;

/// Most bytes of names in one part of a list, including the terminators.
pub const NAMES_BYTES_MAX: usize = 256 * 1024;

/// Parts of a list that the client may send before the daemon has taken them; bounds the daemon's memory for the list.
pub const PARTS_AHEAD_MAX: u64 = 16;
/// Most notices in one frame.
pub const NOTICES_MAX: u32 = 8192;

/// Longest text of a fault or error, in bytes of UTF-8. Longer ones are cut by the encoder.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Most decisions in one STATUS.
pub const TUNED_MAX: usize = 8;

/// Longest reason of a decision, in bytes of UTF-8. Longer ones are cut by the encoder.
pub const TUNED_REASON_BYTES_MAX: usize = 256;

/// Longest name of a program in a hello.
pub const SOFTWARE_BYTES_MAX: usize = 256;

/// Most sources of one transfer: the root's field in a record has 16 bits.
pub const SOURCES_MAX: usize = 65_535;

/// Bytes of sources and names in one OPEN frame: half of its head. More OPEN frames carry the rest.
pub const SOURCES_BYTES_PER_FRAME: usize = HEAD_BYTES_MAX as usize / 2;

/// Most bytes of sources and names of one transfer: 512 for each of the maximum number.
pub const SOURCES_BYTES_MAX: usize = SOURCES_MAX * 512;

/// Longest label of a transfer: an id, and room for the name of the program that issued it.
pub const LABEL_BYTES_MAX: usize = 128;

/// Length of the digest that identifies the files that a client sees.
pub const VIEW_BYTES: usize = 16;

/// Most numbers in one list of an end's [`Ground`](crate::Ground). Four lists take 64 KiB of the head of an OPEN.
pub const GROUND_IDS_MAX: usize = 2_048;

/// Most tags of earlier attempts' temporary files: one for each node that began the job.
pub const EARLIER_TAGS_MAX: usize = 64;

/// Length of the text of an identity.
pub const IDENTITY_TEXT_BYTES: usize = 56;

/// Longest id of a job at its node.
pub const JOB_ID_BYTES_MAX: usize = 64;

/// Nodes that may take over the job of a transfer.
pub const HEIRS_MAX: usize = 64;

/// Length of the name of a claim.
pub const CLAIM_BYTES: usize = 16;

/// Most directories in the region that a closer finishes.
pub const REGION_DIRECTORIES_MAX: usize = 1_024;
/// Most bytes of the paths of a region.
pub const REGION_BYTES_MAX: usize = 32 << 10;

/// Most tokens in one frame; each admits one stream.
pub const TOKENS_MAX: usize = 128;

/// Longest name of a congestion control, as in Linux.
pub const CONGESTION_BYTES_MAX: usize = 15;

/// Channels of one transfer, numbered from 0.
pub const CHANNELS_MAX: u32 = 64;

/// Most addresses that one side announces.
pub const ANNOUNCED_MAX: usize = 64;

/// Longest filler of one EXAMINE, and of its answer.
pub const FILLER_BYTES_MAX: usize = 256 * 1024;

/// Longest document of a question between nodes and of its reply: a head without the numbers around the document.
pub const DOCUMENT_BYTES_MAX: usize = HEAD_BYTES_MAX as usize - 64;

/// Nanoseconds in a second; a record's fraction is smaller.
pub const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

const _: () = assert!(PATH_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(TARGET_BYTES_MAX <= PATH_BYTES_MAX);
const _: () = assert!(RECORDS_MAX as usize * RECORD_BYTES < HEAD_BYTES_MAX as usize);
const _: () =
    assert!(EXTENSIONS_BYTES_MAX + PATH_BYTES_MAX + 2 * RECORD_BYTES < HEAD_BYTES_MAX as usize / 2);
const _: () = assert!(ACK_RANGES_MAX as usize * 24 + 24 < HEAD_BYTES_MAX as usize);
const _: () = assert!(PATTERNS_BYTES_MAX * 2 <= HEAD_BYTES_MAX as usize);
const _: () =
    assert!(PATH_BYTES_MAX < NAMES_BYTES_MAX && NAMES_BYTES_MAX + 40 < HEAD_BYTES_MAX as usize);
const _: () = assert!(PAYLOAD_BYTES_MAX.is_power_of_two() && BLOCK_BYTES_MIN.is_power_of_two());
// The name of a program, a message, or all tokens (18 bytes each when encoded) fit into a small head.
const _: () = assert!(TOKENS_MAX * 18 + 128 <= SMALL_HEAD_BYTES_MAX as usize);
const _: () = assert!(MESSAGE_BYTES_MAX + 128 <= SMALL_HEAD_BYTES_MAX as usize);
// All decisions with their tags and numbers (40 bytes each), a hundred counters of 12 bytes, and the other fields of a FINISHED.
const _: () = assert!(
    TUNED_MAX * (TUNED_REASON_BYTES_MAX + 40) + 100 * 12 + 192 <= SMALL_HEAD_BYTES_MAX as usize
);
