//! Owns the description of a claim to set.
//! Sets none.

use std::collections::HashSet;
use std::time::Duration;

use godwit_api::job::{ClaimId, Text};
use godwit_net::IdentityId;

use super::By;
use super::spelled::Spot;

/// The destination of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimedPlace {
    /// The path in the asker's terms, with the export first.
    pub(crate) asked: Text,
    /// The absolute path.
    pub(crate) absolute: Vec<u8>,
}

/// A claim to set.
pub(crate) struct Wish {
    pub(crate) claim: ClaimId,
    pub(crate) epoch: u64,
    pub(crate) place: ClaimedPlace,
    /// The place, resolved before.
    pub(crate) spot: Spot,
    pub(crate) members: HashSet<IdentityId>,
    /// Members whose earlier transfers must end.
    pub(crate) fence: HashSet<IdentityId>,
    pub(crate) by: By,
    /// Whether files of several parts are assembled in copies.
    pub(crate) copies: bool,
    pub(crate) lease: Duration,
}
