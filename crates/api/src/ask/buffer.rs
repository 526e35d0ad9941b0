//! The documents by which nodes of one cluster show, change and read each other's transfer buffers.
//! Knows no buffer and no files: `data_port` and `node` do.

use serde::{Deserialize, Serialize};

use super::{Refusal, code};
use crate::job::Text;
use crate::rest::{BufferFiles, BufferView};

/// A question about the buffer of the asked node. The asking node has checked the rights of its user.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "buffer", content = "with", rename_all = "snake_case")]
pub enum BufferQuestion {
    /// Its figures.
    View {},
    /// A page of its files.
    Files {
        /// Name of the export.
        export: String,
        /// Path below the export.
        below: Text,
        /// Only files behind this path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Text>,
        /// Most files of the page.
        most: u32,
    },
    /// A page of the files that have arrived there, and are not at their export yet.
    Waiting {
        /// Name of the export.
        export: String,
        /// Path below the export.
        below: Text,
        /// Only files behind this path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Text>,
        /// Most files of the page.
        most: u32,
    },
    /// Sets how long files stay.
    Keep {
        /// Name of the export.
        export: String,
        /// Path below the export.
        below: Text,
        /// For this time from now on; without it, until this changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// Lets files go.
    Drop {
        /// Name of the export.
        export: String,
        /// Path below the export.
        below: Text,
    },
    /// Tries files again that wait for their export.
    Retry {
        /// Name of the export.
        export: String,
        /// Path below the export.
        below: Text,
    },
    /// Gives up files that wait for their export: they are lost.
    GiveUp {
        /// Name of the export.
        export: String,
        /// Path below the export.
        below: Text,
    },
}

impl BufferQuestion {
    /// The answer of an older node, which does not know this question: no file waits there.
    #[must_use]
    pub fn unknown(&self) -> Option<BufferAnswer> {
        match self {
            Self::Waiting { .. } => Some(BufferAnswer::Files(BufferFiles::default())),
            Self::Retry { .. } | Self::GiveUp { .. } => Some(BufferAnswer::Changed {
                files: 0,
                refused: 0,
            }),
            Self::View {} | Self::Files { .. } | Self::Keep { .. } | Self::Drop { .. } => None,
        }
    }
}

/// The answer about a buffer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "buffer", content = "with", rename_all = "snake_case")]
pub enum BufferAnswer {
    /// Its figures.
    View(Box<BufferView>),
    /// A page of its files.
    Files(BufferFiles),
    /// How many files changed.
    Changed {
        /// Files with the wanted state now.
        files: u64,
        /// Files that did not change, because others have reserved the room.
        refused: u64,
    },
}

/// A part of an extent of one generation of a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AskExtent {
    /// Name of the export.
    pub export: String,
    /// Path of the file below the export.
    pub path: Text,
    /// Length of the file in this generation.
    pub bytes: u64,
    /// The generation.
    pub stamp: u64,
    /// Where the extent begins.
    pub offset: u64,
    /// Length of the extent.
    pub length: u32,
    /// First wanted byte of the extent. The answer has as many, beginning there, as one document may hold.
    pub from: u32,
    /// The asked node reads the extent into its buffer if it is not there.
    pub fill: bool,
    /// The file then stays for this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Further extents of the file that the asked node may read into its buffer in the background.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<u64>,
}

/// Most extents that one question names for the background.
pub const NEXT_MAX: usize = 16;

/// Most bytes of an extent in one answer: a document has room for them behind the head.
pub const EXTENT_PART_BYTES_MAX: usize = 896 << 10;

/// A part of an extent, as a node sends it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtentPart {
    /// The asked node had to read the extent from its export.
    pub filled: bool,
    /// Checksum over the name of the part and its bytes.
    pub checksum: u64,
    /// The bytes. None means that the asked node reads the extent now, and is to be asked again.
    pub bytes: Vec<u8>,
}

/// The first bytes of the document of a part. Any other answer begins with a brace.
const MAGIC: &[u8; 8] = b"GWEXTENT";

impl ExtentPart {
    /// The part as a document: magic, a byte for `filled`, the checksum in little-endian, and the bytes.
    #[must_use]
    pub fn to_document(&self) -> Vec<u8> {
        let mut document = Vec::with_capacity(MAGIC.len() + 9 + self.bytes.len());
        document.extend_from_slice(MAGIC);
        document.push(u8::from(self.filled));
        document.extend_from_slice(&self.checksum.to_le_bytes());
        document.extend_from_slice(&self.bytes);
        document
    }

    /// Reads a document; `None` if it is an answer in words.
    ///
    /// # Errors
    /// The document is too short or too long.
    pub fn parse(document: &[u8]) -> Result<Option<Self>, Refusal> {
        let Some(rest) = document.strip_prefix(MAGIC.as_slice()) else {
            return Ok(None);
        };
        let broken = || Refusal::new(code::BROKEN, "the part of an extent cannot be read");
        let (filled, rest) = rest.split_first().ok_or_else(broken)?;
        let (checksum, bytes) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
        if *filled > 1 || bytes.len() > EXTENT_PART_BYTES_MAX {
            return Err(broken());
        }
        Ok(Some(Self {
            filled: *filled == 1,
            checksum: u64::from_le_bytes(*checksum),
            bytes: bytes.to_vec(),
        }))
    }
}

/// Answers other nodes of the cluster about the buffer of this node.
pub trait AnswerBuffer: Send + Sync {
    /// Answers a question of a member.
    ///
    /// # Errors
    /// The question names too much.
    fn answer(&self, question: &BufferQuestion) -> Result<BufferAnswer, Refusal>;

    /// Whether the member with this identity serves the export, too. A member that serves the export can read the same files
    /// there itself.
    fn shares(&self, member: &str, export: &str) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_node_does_not_know_questions_about_waiting_files_and_none_waits_there() {
        let (export, below) = ("data".to_owned(), Text::from("a"));
        let retry = BufferQuestion::Retry {
            export: export.clone(),
            below: below.clone(),
        };
        let none = BufferAnswer::Changed {
            files: 0,
            refused: 0,
        };
        assert_eq!(retry.unknown(), Some(none));
        assert_eq!(BufferQuestion::Drop { export, below }.unknown(), None);
        // The refusal of such a node.
        let newer = br#"{"version":1,"ask":"buffer","with":{"buffer":"later","with":{}}}"#;
        let refusal = super::super::Question::parse(newer).expect_err("unknown");
        assert_eq!(refusal.code.known(), Some(code::INVALID));
    }

    #[test]
    fn a_part_is_read_as_it_was_written_and_broken_ones_are_refused() {
        let part = ExtentPart {
            filled: true,
            checksum: 7,
            bytes: vec![1, 2, 3],
        };
        let document = part.to_document();
        assert_eq!(ExtentPart::parse(&document), Ok(Some(part)));
        assert_eq!(ExtentPart::parse(br#"{"version":1}"#), Ok(None));
        for end in MAGIC.len()..MAGIC.len() + 9 {
            assert!(ExtentPart::parse(&document[..end]).is_err(), "{end}");
        }
        let mut other = document.clone();
        other[MAGIC.len()] = 2;
        assert!(ExtentPart::parse(&other).is_err());
        let long = ExtentPart {
            bytes: vec![0; EXTENT_PART_BYTES_MAX + 1],
            ..ExtentPart::default()
        };
        assert!(ExtentPart::parse(&long.to_document()).is_err());
    }
}
