//! The documents by which a controller sets, renews and releases the claim of a job at a destination node.
//! Keeps no claims.

use serde::{Deserialize, Serialize};

use crate::job::{ClaimId, Text};

/// Most members of one claim.
pub const MEMBERS_MAX: usize = 4096;

/// Bounds of the lease of a claim, in milliseconds.
pub const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;

/// Claims a destination for the members of a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClaimPlace {
    /// The claim.
    pub claim: ClaimId,
    /// Its epoch, 1 or more. A higher epoch takes over from a lower one.
    pub epoch: u64,
    /// The destination, export first. Only members write there and below.
    pub path: Text,
    /// Identities of the members. At most [`MEMBERS_MAX`].
    pub members: Vec<String>,
    /// How long the claim lasts from now on, in milliseconds, within [`LEASE_MS`].
    pub lease_ms: u64,
    /// Members whose earlier transfers end. The node no longer writes their late data. Transfers of non-members end as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fence: Vec<String>,
    /// A node of the destination is unreachable and may still write its parts. Files of several parts are then assembled in copies, so that
    /// late writes reach only a file without a name. The closer changes attributes of existing files in a copy, too. A node that does not
    /// know this field assembles files in place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copies: bool,
    /// Action on the mark of the claim.
    #[serde(default, skip_serializing_if = "Mark::is_untouched")]
    pub mark: Mark,
}

/// A hidden file by which nodes detect whether a place is the same on each of them. Its name comes from the claim and the path, and it lies
/// in the nearest existing directory.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Does not touch the mark.
    #[default]
    Untouched,
    /// Makes the mark before the node sets the claim.
    Make,
    /// Requires the mark before the node sets the claim.
    Expect,
    /// Removes the mark.
    Remove,
}

impl Mark {
    const fn is_untouched(&self) -> bool {
        matches!(self, Self::Untouched)
    }
}

/// Extends the lease of a claim.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RenewClaim {
    /// The claim.
    pub claim: ClaimId,
    /// Its epoch.
    pub epoch: u64,
    /// How long the claim lasts from now on, in milliseconds, within [`LEASE_MS`].
    pub lease_ms: u64,
}

/// Ends a claim.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReleaseClaim {
    /// The claim.
    pub claim: ClaimId,
    /// Its epoch.
    pub epoch: u64,
    /// Place of the claim. A restarted node has lost its claims, and finds the mark by this place. An older node ignores the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
}
