//! Owns the manifest file: the contents of a data set, one line for each entry, with a footer that proves the file complete.
//! Opens no files and computes no digests of contents; converts entries to lines and back. `docs/manifest.md` specifies it.

mod line;
mod reader;
mod writer;

use crate::digest::Digest;
use crate::meta::Timestamp;
use crate::path::RelPath;

pub use line::{LINE_BYTES_MAX, LineError, decode_entry, encode_entry, escape, unescape};
pub use reader::{ManifestError, ManifestReader};
pub use writer::{ManifestWriter, Sign};

/// Type of a manifest entry. Its letter begins the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryType {
    /// `f`: a regular file.
    File,
    /// `d`: a directory.
    Directory,
    /// `l`: a symbolic link.
    Symlink,
    /// `h`: another name of a file of the same data set.
    HardLink,
    /// `p`: a named pipe.
    Fifo,
    /// `s`: a socket.
    Socket,
    /// `c`: a character device.
    CharDevice,
    /// `b`: a block device.
    BlockDevice,
}

/// One entry of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Type of the entry.
    pub kind: EntryType,
    /// Length of a file's contents, holes included; 0 for anything else.
    pub bytes: u64,
    /// When the contents last changed.
    pub mtime: Timestamp,
    /// Permission and set-id bits, at most `0o7777`.
    pub mode: u32,
    /// Digest of the contents; present exactly if the entry is a file.
    pub digest: Option<Digest>,
    /// Path below the root of the data set.
    pub path: RelPath,
    /// The target of a symbolic link, or the first name of a hard link below the same root; otherwise empty.
    pub target: Vec<u8>,
}

/// Totals at the end of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    /// Number of entry lines.
    pub entries: u64,
    /// Total length of all files' contents.
    pub bytes: u64,
    /// Entries of the data set that failed and are therefore not in the manifest.
    pub failed: u64,
    /// BLAKE3 of all bytes above the digest's line.
    pub digest: [u8; 32],
    /// The text after `#signature` and a tab if the manifest is signed; the verifier knows its form.
    pub signature: Option<String>,
}

impl EntryType {
    /// The letter of this type.
    pub fn letter(self) -> u8 {
        match self {
            Self::File => b'f',
            Self::Directory => b'd',
            Self::Symlink => b'l',
            Self::HardLink => b'h',
            Self::Fifo => b'p',
            Self::Socket => b's',
            Self::CharDevice => b'c',
            Self::BlockDevice => b'b',
        }
    }

    /// The type for a letter.
    pub fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'f' => Self::File,
            b'd' => Self::Directory,
            b'l' => Self::Symlink,
            b'h' => Self::HardLink,
            b'p' => Self::Fifo,
            b's' => Self::Socket,
            b'c' => Self::CharDevice,
            b'b' => Self::BlockDevice,
            _ => return None,
        })
    }

    /// The name of this type in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::HardLink => "hard link",
            Self::Fifo => "FIFO",
            Self::Socket => "socket",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
        }
    }

    fn has_target(self) -> bool {
        matches!(self, Self::Symlink | Self::HardLink)
    }
}

/// Start of the first line.
const MAGIC: &str = "#godwit-manifest";
/// Version of the format.
const VERSION: &str = "1";
/// Start of the line of totals.
const END: &str = "#end";
/// Start of the line with the manifest's own digest.
const DIGEST: &str = "#digest";
/// Start of the line with the signature.
const SIGNATURE: &str = "#signature";
