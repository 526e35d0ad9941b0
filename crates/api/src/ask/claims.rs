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
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReleaseClaim {
    /// The claim.
    pub claim: ClaimId,
    /// Its epoch.
    pub epoch: u64,
}
