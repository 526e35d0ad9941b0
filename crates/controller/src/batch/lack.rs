//! Computes how much room a job still needs whose destination is full.
//! Looks at no destination.

use godwit_api::event::Summary;
use godwit_api::failure::FailureCode;
use godwit_api::units::human_size;
use godwit_state::WorkCounts;

use super::{BatchOutcome, clip};

impl BatchOutcome {
    /// Adds the space that the tree still needs to the entries that found no room, as the close sees it: all bytes except those that
    /// arrived.
    pub(crate) fn with_lack(mut self, ended: &Summary, counts: &WorkCounts) -> Self {
        let Summary::Transfer(summary) = ended else {
            return self;
        };
        let arrived = counts.bytes.saturating_add(summary.bytes.unwrap_or(0));
        // A region of the tree has less than the scans have found.
        if let Some(total) = self
            .bytes_total
            .map(|total| total.max(counts.looked.found_bytes))
            && let Some(group) = self.groups.get_mut(&FailureCode::NoSpace.into())
        {
            let needed = human_size(total.saturating_sub(arrived));
            group.reason.text = clip(&format!("no room: up to {needed} more are needed"));
        }
        self
    }
}
