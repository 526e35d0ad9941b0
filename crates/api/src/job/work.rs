//! Owns the parts of a description for divided jobs: the claim of a member, and parts of files as items of work.
//! Decides nothing about claims and cuts no file.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};

use super::Text;
use godwit_model::DigestKind;

/// Most items of one job: a batch that takes a node a few seconds.
pub const ITEMS_MAX: usize = 4096;

/// Most parts of all files that the items of one job assemble. A file of 64 TiB has this many parts of 256 MiB.
pub const HELD_PARTS_MAX: usize = 256 * 1024;

/// Membership of a transfer in a claim.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The claim. The destination node must hold it.
    pub claim: ClaimId,
    /// The epoch of the claim, 1 or more.
    pub epoch: u64,
    /// The transfer finishes the whole tree: links, times of directories, deletion, clean-up. It has no items.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closer: bool,
    /// The closer of the claim deletes extra entries. So no member writes where that closer would delete source data too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deletes: bool,
    /// Distinguishes concurrent jobs of one source node to one destination node. A job resumes parts that an earlier job of the same lane
    /// left.
    #[serde(default, skip_serializing_if = "is_first")]
    pub lane: u32,
    /// The region of the tree that a closer finishes, which the list of names selects, too; without it, the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

/// Directories of a tree that one transfer finishes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// The directories, below the source.
    pub within: Vec<Text>,
    /// Without the contents of the directories in them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flat: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first(lane: &u32) -> bool {
    *lane == 0
}

/// Id of a claim, the same everywhere: 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClaimId(pub [u8; 16]);

/// A unit of work on a large file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Item {
    /// Sends a range of a file into the temporary file that all members share.
    Part {
        /// The file, below the source.
        path: Text,
        /// Where the range begins: a multiple of its length, rounded up to a power of two.
        offset: u64,
        /// The length: a power of two of at least 256 MiB, unless the range ends with the file.
        bytes: u64,
        /// State of the file when it was divided. If the state has changed, the item fails with the code `changed`.
        generation: u64,
    },
    /// Assembles the file from its finished parts.
    Assemble {
        /// The file, below the source.
        path: Text,
        /// State of the file when it was divided.
        generation: u64,
        /// All parts of the file, in any order.
        parts: Vec<HeldPart>,
    },
}

/// A finished part.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldPart {
    /// Offset of the part.
    pub offset: u64,
    /// Length of the part in bytes.
    pub bytes: u64,
    /// Digest that [`WorkDone`](crate::event::WorkDone) reported.
    pub digest: PartDigest,
}

/// The digest of a part or of a file, as text: the name of the kind, a colon, hexadecimal digits.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PartDigest {
    /// Kind of the digest.
    pub kind: DigestKind,
    /// Its bytes: 8 for CRC64-NVME, 32 for BLAKE3.
    pub bytes: Vec<u8>,
}

/// Error of a text that is no claim, or no digest.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WorkTextError {
    /// Not 32 hexadecimal digits.
    #[error("a claim is named by 32 hexadecimal digits")]
    Claim,
    /// The text is not a kind, a colon, and the number of digits of that kind.
    #[error("a digest is written as crc64-nvme: and 16 hexadecimal digits, or blake3: and 64")]
    Digest,
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER_PERMISSIVE.encode(&self.0))
    }
}

impl FromStr for ClaimId {
    type Err = WorkTextError;

    fn from_str(text: &str) -> Result<Self, WorkTextError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
        let bytes = bytes.ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(WorkTextError::Claim)
    }
}

impl fmt::Display for PartDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = HEXLOWER_PERMISSIVE.encode(&self.bytes);
        write!(f, "{}:{digits}", self.kind.name())
    }
}

impl FromStr for PartDigest {
    type Err = WorkTextError;

    fn from_str(text: &str) -> Result<Self, WorkTextError> {
        let (word, digits) = text.split_once(':').ok_or(WorkTextError::Digest)?;
        let kind = DigestKind::from_name(word).ok_or(WorkTextError::Digest)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        let bytes = bytes.map_err(|_error| WorkTextError::Digest)?;
        if bytes.len() != kind.digest_bytes() {
            return Err(WorkTextError::Digest);
        }
        Ok(Self { kind, bytes })
    }
}

macro_rules! as_text {
    ($($name:ident),*) => {
        $(impl TryFrom<String> for $name {
            type Error = WorkTextError;

            fn try_from(text: String) -> Result<Self, WorkTextError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        })*
    };
}

as_text!(ClaimId, PartDigest);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_members_are_read_as_they_are_written() {
        let digest: PartDigest = "crc64-nvme:0123456789abcdef".parse().expect("a digest");
        let items = vec![
            Item::Part {
                path: Text(b"a/\xff".to_vec()),
                offset: 1 << 40,
                bytes: 1 << 28,
                generation: u64::MAX,
            },
            Item::Assemble {
                path: "b".into(),
                generation: 1,
                parts: vec![HeldPart {
                    offset: 0,
                    bytes: 5,
                    digest,
                }],
            },
        ];
        let json = serde_json::to_string(&items).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Vec<Item>>(&json).expect("items"),
            items
        );
        assert!(
            json.contains(r#""digest":"crc64-nvme:0123456789abcdef""#),
            "{json}"
        );
        let member = r#"{"claim":"000102030405060708090a0b0c0d0e0f","epoch":7}"#;
        let member: Member = serde_json::from_str(member).expect("a member");
        assert_eq!(
            (member.claim.0[15], member.epoch, member.closer),
            (15, 7, false)
        );
    }

    #[test]
    fn invalid_claims_and_digests_are_refused() {
        for text in ["", "00", "zz0102030405060708090a0b0c0d0e0f"] {
            assert_eq!(text.parse::<ClaimId>(), Err(WorkTextError::Claim), "{text}");
        }
        for text in [
            "",
            "0123456789abcdef",
            "md5:0123456789abcdef",
            "crc64-nvme:0123",
            "blake3:0123456789abcdef",
        ] {
            let read = text.parse::<PartDigest>();
            assert_eq!(read, Err(WorkTextError::Digest), "{text}");
        }
    }
}
