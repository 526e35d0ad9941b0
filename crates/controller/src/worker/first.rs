//! Decides how long a node leaves items of a job of a family to the nodes that lease them first.
//! Reads no clock and no state.
//!
//! A node reads an item once more if it takes the item from another node. So an idle node waits a little for a node that is about to ask.
//! An idle node does not wait longer for a node that is busy with an earlier lease.

use std::time::Duration;

/// How long an idle node waits for other nodes. Nodes need less time to join a job and to look for items.
const OTHERS_WITHIN: Duration = Duration::from_secs(1);

/// The patience of an idle node.
#[derive(Default)]
pub(super) struct OthersFirst {
    /// The time when the node first saw that all ready items belong to other nodes.
    since: Option<Duration>,
}

impl OthersFirst {
    /// Nothing is ready.
    pub(super) const fn nothing(&mut self) {
        self.since = None;
    }

    /// Whether the node leaves the ready items to others for now. `has_own`: some ready items are the node's own.
    pub(super) fn waits(&mut self, now: Duration, has_own: bool) -> bool {
        if has_own {
            self.nothing();
            return false;
        }
        now.saturating_sub(*self.since.get_or_insert(now)) < OTHERS_WITHIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_node_waits_once_and_then_takes_what_others_leave() {
        let at = Duration::from_millis;
        let mut patience = OthersFirst::default();
        assert!(!patience.waits(at(0), true));
        assert!(patience.waits(at(10), false));
        assert!(patience.waits(at(1_009), false));
        assert!(!patience.waits(at(1_010), false));
        // After a lease of other nodes' items, the node does not wait again.
        assert!(!patience.waits(at(9_000), false));
        // A node that has own items does not wait; its next wait starts from zero.
        assert!(!patience.waits(at(9_100), true));
        assert!(patience.waits(at(9_200), false));
        assert!(!patience.waits(at(10_200), false));
        patience.nothing();
        assert!(patience.waits(at(10_300), false));
    }
}
