//! Owns the manifest file: the contents of a data set, one line an entry, with a footer that shows whether the file is whole.
//! Opens no file and takes no digest of contents; it is given lines and gives entries. `docs/manifest.md` specifies it.

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
    /// `h`: a further name of a file of the same data set.
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
    /// When its contents changed last.
    pub mtime: Timestamp,
    /// Permission and set-id bits, at most `0o7777`.
    pub mode: u32,
    /// Digest of the contents: of every file, and of nothing else.
    pub digest: Option<Digest>,
    /// Its name below the root of the data set.
    pub path: RelPath,
    /// The target of a symbolic link, or the first name of a hard link below the same root; else empty.
    pub target: Vec<u8>,
}

/// Totals at the end of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    /// Lines of entries.
    pub entries: u64,
    /// Contents of all files together.
    pub bytes: u64,
    /// Entries that belong to the data set and are not in the manifest, because they failed.
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

/// The first line begins with this.
const MAGIC: &str = "#godwit-manifest";
/// Version of the format.
const VERSION: &str = "1";
/// Begins the line of totals.
const END: &str = "#end";
/// Begins the line of the manifest's own digest.
const DIGEST: &str = "#digest";
/// Begins the line of the signature.
const SIGNATURE: &str = "#signature";
