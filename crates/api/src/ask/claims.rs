//! The documents by which a controller sets, renews and releases the claim of a job at a destination node.
//! Keeps no claims.

use serde::{Deserialize, Serialize};

use crate::job::{ClaimId, Text};

/// Most members of one claim.
pub const MEMBERS_MAX: usize = 4096;

/// Shortest and longest time in milliseconds that a claim lasts without being renewed.
pub const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;

/// Claims a destination for the members of a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClaimPlace {
    /// The claim.
    pub claim: ClaimId,
    /// Its epoch, 1 or more. A higher epoch takes over from a lower one.
    pub epoch: u64,
    /// The destination, export first. Members write there and below, and nobody else does.
    pub path: Text,
    /// Identities of the members. At most [`MEMBERS_MAX`].
    pub members: Vec<String>,
    /// How long the claim lasts from now on, in milliseconds, within [`LEASE_MS`].
    pub lease_ms: u64,
    /// Members whose transfers of before end: what they send late is not written any more. Transfers of who is no member end as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fence: Vec<String>,
    /// A node of the destination may still write its parts, and no node knows whether it does: files of several parts are put together in copies, so
    /// that what comes late meets a file without a name; and the closer gives a file that is there other attributes in a copy. A node that does not know this puts them together in place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copies: bool,
    /// What becomes of the mark of the claim.
    #[serde(default, skip_serializing_if = "Mark::is_untouched")]
    pub mark: Mark,
}

/// A hidden file by which nodes see whether a place is the same at each of them. It is named by the claim and its path, in the
/// nearest directory that is there.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Nothing is done about it.
    #[default]
    Untouched,
    /// The node makes it, before it sets the claim.
    Make,
    /// The node sets the claim only if it sees the mark.
    Expect,
    /// The node removes it.
    Remove,
}

impl Mark {
    const fn is_untouched(&self) -> bool {
        matches!(self, Self::Untouched)
    }
}

/// Lets a claim last longer.
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
    /// The place of the claim. A restarted node has lost its claims, and finds the mark by this place. An older node ignores the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
}
