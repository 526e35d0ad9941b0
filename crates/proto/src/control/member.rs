//! Owns the fields of OPEN for a transfer that is one of several for a job. Does not know claims; a node does. `docs/wire.md`, "Parts".

use prost::Message;

use super::{Direction, Open};
use crate::error::WireError;
use crate::limits::{CLAIM_BYTES, REGION_BYTES_MAX, REGION_DIRECTORIES_MAX};

/// The transfer writes below a destination that is claimed for the members of a job.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Member {
    /// Names the claim: [`CLAIM_BYTES`].
    #[prost(bytes = "vec", tag = "1")]
    pub claim: Vec<u8>,
    /// The epoch of the claim, 1 or more.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// This transfer finishes the whole tree: links, times of directories, deletion, the sweep.
    #[prost(bool, tag = "3")]
    pub closer: bool,
    /// Distinguishes simultaneous transfers of one sender to one daemon; each resumes only the data of its lane.
    #[prost(uint32, tag = "4")]
    pub lane: u32,
    /// The region that a closer finishes: directories below the root, whole or [`flat`](Self::flat). If empty, it is the whole tree.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub within: Vec<Vec<u8>>,
    /// The region contains the entries of its directories, but not the contents of their subdirectories.
    #[prost(bool, tag = "6")]
    pub flat: bool,
    /// The closer of the claim deletes extra entries. So no member writes where that closer would delete source data, too.
    #[prost(bool, tag = "7")]
    pub deletes: bool,
}

impl Member {
    /// The name of the claim; all zeros if its length is wrong, which is impossible after decoding.
    pub fn claim_id(&self) -> [u8; CLAIM_BYTES] {
        self.claim.as_slice().try_into().unwrap_or_default()
    }

    fn validate(&self) -> Result<(), WireError> {
        if self.claim.len() != CLAIM_BYTES {
            return Err(WireError::invalid("claim", "does not have 16 bytes"));
        }
        if self.epoch == 0 {
            return Err(WireError::invalid("claim", "has no epoch"));
        }
        let has_region = !self.within.is_empty();
        if (self.flat || has_region) && !(self.closer && has_region) {
            return Err(WireError::invalid("region", "is no closer's"));
        }
        let bytes: usize = self.within.iter().map(Vec::len).sum();
        if self.within.len() > REGION_DIRECTORIES_MAX || bytes > REGION_BYTES_MAX {
            return Err(WireError::invalid("region", "has too many directories"));
        }
        Ok(())
    }
}

impl Open {
    /// Whether the transfer finishes a region of a tree instead of the whole tree.
    pub fn finishes_region(&self) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| !member.within.is_empty())
    }

    pub(super) fn validate_member(&self) -> Result<(), WireError> {
        let Some(member) = &self.member else {
            return Ok(());
        };
        member.validate()?;
        let deletes = self.comparison.is_some_and(|wanted| wanted.delete);
        if self.direction() != Direction::PUSH || deletes && !member.closer {
            return Err(WireError::Disagree {
                what: "membership, direction and deletion",
            });
        }
        Ok(())
    }
}
