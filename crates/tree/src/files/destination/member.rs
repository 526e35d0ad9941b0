//! Computes the journal key of a member of a claim, and checks which epoch may resume the journal. Does not concern transfers that are not
//! members.

use std::sync::Arc;

use godwit_store::claim_tag;
use godwit_store::journal::{Journal, JournalKey, Recovered};

use super::{DestinationError, DestinationRequest};

/// Marks the key of a member's journal. No path contains a zero byte.
const MEMBER: &[u8] = b"\0member";

impl DestinationRequest {
    /// The journal's key for these parts. A member's key begins with the tag of its claim, so that the journal covers the temporary files
    /// of the claim. The digest kind is part of the key, because parts with different digests cannot be combined. The node is part of the
    /// key too: late writes of another node with the same mount path go to other names.
    pub(super) fn member_key(&self, parts: Vec<&[u8]>) -> JournalKey {
        let Some(member) = &self.member else {
            return JournalKey::of(&parts);
        };
        let closer = [u8::from(member.closer), self.digest.number()];
        let lane = member.lane.to_le_bytes();
        let own: [&[u8]; 5] = [MEMBER, &member.claim, &closer, &lane, &member.node];
        let mut key = JournalKey::of(&[parts.as_slice(), &own].concat());
        key.0[..8].copy_from_slice(&claim_tag(&member.claim).to_le_bytes());
        key
    }

    /// Makes the storage ask the fence of a member before it adds or removes names.
    pub(super) fn hold_to_fence(&self, tag: u64) {
        if let Some(member) = &self.member {
            let fence = Arc::clone(&member.fence);
            let may = Arc::new(move || fence.holds());
            self.place.storage.hold_to(may, tag, &self.place.base);
        }
    }

    /// Refuses an epoch that has passed, and records this epoch before anything is written.
    pub(super) fn enter_epoch(
        &self,
        journal: &Journal,
        recovered: &Recovered,
    ) -> Result<(), DestinationError> {
        let Some(member) = &self.member else {
            return Ok(());
        };
        if recovered.epoch > member.epoch {
            return Err(DestinationError::Stale(recovered.epoch));
        }
        if recovered.epoch < member.epoch {
            journal
                .append_epoch(member.epoch)
                .and_then(|()| journal.sync())
                .map_err(|error| self.journal_error(error.to_string()))?;
        }
        Ok(())
    }
}
