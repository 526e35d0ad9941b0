//! Owns the hello, the first frame of each side, and the agreement of two hellos. Does not know the peer's identity,
//! which is proven before. `docs/wire.md`, "HELLO".

use std::fmt;

use prost::Message;

use crate::bytes::{cut, encode_small};
use crate::error::WireError;
use crate::limits::{BLOCK_BYTES_MIN, PAYLOAD_BYTES_MAX, SOFTWARE_BYTES_MAX};
use crate::prelude::FrameKind;

/// Begins every hello: `GODWIT\r\n` in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GODWIT\r\n");

/// Oldest version of the protocol that this program supports.
pub const VERSION_MIN: u32 = 1;

/// Newest version of the protocol that this program supports.
pub const VERSION_MAX: u32 = 1;

/// Abilities of a program beyond its version; one side does not use a bit that the other does not set.
pub mod capability {
    /// Block contents may travel outside TLS, if the transfer requests it and the daemon allows it.
    pub const PLAIN_PAYLOAD: u64 = 1;
    /// BLAKE3 digests.
    pub const BLAKE3: u64 = 2;
    /// The comparison of an OPEN, and its verdicts and notices.
    pub const COMPARISON: u64 = 4;
    /// The metadata of an OPEN, and its kinds of entries and extensions.
    pub const PRESERVE: u64 = 8;
    /// The selection of an OPEN, and SELECTION frames.
    pub const SELECTION: u64 = 16;
    /// Checking a copy by a manifest, and holes sent as zeros for a client that writes in order.
    pub const MANIFEST: u64 = 32;
    /// Questions about the other side's properties: EXAMINE and EXAMINED.
    pub const EXAMINE: u64 = 64;
    /// Streams that leave while the transfer continues: RETIRE and RETIRED.
    pub const RETIRE: u64 = 128;
    /// The requested share of the network in an OPEN: `sharing`.
    pub const SHARING: u64 = 256;
    /// Direct I/O for large files at the accepting end.
    pub const DIRECT: u64 = 512;
    /// More sources than one OPEN can hold: more OPEN frames follow the first.
    pub const MANY_SOURCES: u64 = 1024;
    /// Questions of nodes about places and jobs: ASK and REPLY.
    pub const ASK: u64 = 2048;
    /// Parts of files, and transfers that are members of a claim.
    pub const PARTS: u64 = 4096;
    /// Results of earlier attempts of a job: `earlier` of OPEN.
    pub const EARLIER: u64 = 8192;
    /// Slices and bundles in a random order: `random_order` of OPEN.
    pub const RANDOM_ORDER: u64 = 16384;
    /// Transfers and questions for a job of another node: `mandate` of OPEN, `for` of ASK.
    pub const MANDATE: u64 = 32768;
    /// Trees without mounts inside them: `one_file_system` of a selection.
    pub const ONE_FILE_SYSTEM: u64 = 65536;
    /// Rights of the owner of a job to see its destination: `may_list` and `may_read` of a question to run it,
    /// `may_not_list` and `may_not_read` of OPEN.
    pub const OWNER_SIGHT: u64 = 131_072;
    /// Parts of files that are compared with existing entries: `member` with `update`, `existing` or `ignore_existing`
    /// of a comparison.
    pub const JUDGED_PARTS: u64 = 262_144;
    /// Closers that finish a region of a tree: `within` of a member.
    pub const REGIONS: u64 = 524_288;
    /// Existing entries that are never replaced: `no_replace` of a comparison, in a push.
    pub const NO_REPLACE: u64 = 1_048_576;
    /// All capabilities that this program knows.
    pub const ALL: u64 = PLAIN_PAYLOAD
        | BLAKE3
        | COMPARISON
        | PRESERVE
        | SELECTION
        | MANIFEST
        | EXAMINE
        | RETIRE
        | DIRECT
        | SHARING
        | MANY_SOURCES
        | ASK
        | PARTS
        | EARLIER
        | RANDOM_ORDER
        | MANDATE
        | ONE_FILE_SYSTEM
        | OWNER_SIGHT
        | JUDGED_PARTS
        | REGIONS
        | NO_REPLACE;

    /// Name of the lowest of these capabilities, for users; empty if none is known here.
    pub const fn name(bits: u64) -> &'static str {
        match bits & bits.wrapping_neg() {
            PLAIN_PAYLOAD => "file contents outside TLS",
            BLAKE3 => "BLAKE3 digests",
            SELECTION => {
                "choosing among entries (--exclude, --files-from, --min-size and the like)"
            }
            PRESERVE => "keeping metadata (--owner, --xattrs, --acls, --archive and the like)",
            COMPARISON => "comparing as asked for (sync, --dry-run, --checksum and the like)",
            MANIFEST => "checking a copy by a manifest (verify), or writing to standard output",
            EXAMINE => "being looked at (doctor)",
            RETIRE => "streams that leave a transfer",
            DIRECT => "reading and writing past the page cache (--direct)",
            MANY_SOURCES => "this number of sources; name a directory, or use --files-from",
            ASK => "questions about places and jobs of a site",
            PARTS => "taking a part in a job of many nodes",
            EARLIER => "continuing a job that another node began",
            RANDOM_ORDER => "sending in a random order (--order random)",
            ONE_FILE_SYSTEM => "leaving out file systems mounted in a tree (--one-file-system)",
            JUDGED_PARTS => {
                "protecting existing entries in a job of many nodes (--update, --existing, --ignore-existing); update it, or submit the job undivided"
            }
            REGIONS => "finishing a tree by many nodes",
            NO_REPLACE => "replacing no entry that exists (--no-replace); update it",
            OWNER_SIGHT => "hiding what the owner of a job may not list or read at the destination",
            MANDATE => "acting for a job of another site",
            SHARING => "--priority background and --congestion",
            _ => "",
        }
    }
}

/// The sending program and its abilities.
#[derive(Clone, PartialEq, Message)]
pub struct Hello {
    /// Always [`MAGIC`].
    #[prost(fixed64, tag = "1")]
    pub magic: u64,
    /// Oldest version spoken; not 0.
    #[prost(uint32, tag = "2")]
    pub version_min: u32,
    /// Newest version spoken.
    #[prost(uint32, tag = "3")]
    pub version_max: u32,
    /// See [`capability`].
    #[prost(uint64, tag = "4")]
    pub capabilities: u64,
    /// Name and version of the program, for messages: `godwit 0.1.0`.
    #[prost(string, tag = "5")]
    pub software: String,
    /// Longest payload of a block that the program accepts, in bytes.
    #[prost(uint32, tag = "6")]
    pub max_block_bytes: u32,
}

impl Hello {
    /// This program's hello.
    pub fn ours(software: &str, capabilities: u64) -> Self {
        Self {
            magic: MAGIC,
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            capabilities,
            software: software.to_owned(),
            max_block_bytes: PAYLOAD_BYTES_MAX,
        }
    }

    /// Appends the frame's head image to `out`. A name that is too long is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let hello = Self {
            software: cut(&self.software, SOFTWARE_BYTES_MAX).to_owned(),
            ..*self
        };
        encode_small(out, FrameKind::HELLO, |out| {
            out.extend(hello.encode_to_vec())
        });
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head; [`WireError::BadMagic`] for anything that is no hello.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let Ok(hello) = <Self as Message>::decode(head) else {
            return Err(WireError::BadMagic);
        };
        if hello.magic != MAGIC {
            return Err(WireError::BadMagic);
        }
        if hello.version_min == 0 || hello.version_min > hello.version_max {
            return Err(WireError::invalid(
                "version range",
                "is empty or begins with 0",
            ));
        }
        if hello.software.len() > SOFTWARE_BYTES_MAX {
            return Err(WireError::too_long("software", SOFTWARE_BYTES_MAX as u64));
        }
        if hello.max_block_bytes < BLOCK_BYTES_MIN {
            return Err(WireError::invalid(
                "longest block",
                "is less than 4096 bytes",
            ));
        }
        Ok(hello)
    }
}

/// The common abilities of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Newest version that both support.
    pub version: u32,
    /// Capabilities that both sides have.
    pub capabilities: u64,
    /// Longest block that both accept, a power of two.
    pub block_bytes_max: u32,
}

/// Two sides have no version in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionMismatch {
    /// Versions spoken here.
    pub ours: (u32, u32),
    /// Versions that the other program supports.
    pub theirs: (u32, u32),
    /// Name and version of the other program.
    pub their_software: String,
}

impl fmt::Display for VersionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |(min, max): (u32, u32)| {
            if min == max {
                format!("{min}")
            } else {
                format!("{min} to {max}")
            }
        };
        let older = if self.theirs.1 < self.ours.0 {
            "the peer"
        } else {
            "this program"
        };
        write!(
            f,
            "no protocol version in common: this program speaks {}, the peer ({}) speaks {}; update {older}",
            span(self.ours),
            self.their_software.escape_default(),
            span(self.theirs),
        )
    }
}

impl std::error::Error for VersionMismatch {}

/// Computes the agreement of both hellos; each side gets the same result.
///
/// # Errors
/// No version in common.
pub fn negotiate(ours: &Hello, theirs: &Hello) -> Result<Agreed, VersionMismatch> {
    let version = ours.version_max.min(theirs.version_max);
    if version < ours.version_min.max(theirs.version_min) {
        return Err(VersionMismatch {
            ours: (ours.version_min, ours.version_max),
            theirs: (theirs.version_min, theirs.version_max),
            their_software: theirs.software.clone(),
        });
    }
    // A power of two, rounded down; both are at least a page, so the logarithm exists.
    let bytes = ours
        .max_block_bytes
        .min(theirs.max_block_bytes)
        .clamp(BLOCK_BYTES_MIN, PAYLOAD_BYTES_MAX);
    Ok(Agreed {
        version,
        capabilities: ours.capabilities & theirs.capabilities,
        block_bytes_max: 1 << bytes.ilog2(),
    })
}
