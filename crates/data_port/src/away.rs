//! Decides when a transfer of a peer may no longer write: this node or its mount was blocked for so long that another node may have the
//! job. Does not end transfers, and does not use the file system.

use std::time::Instant;

use godwit_api::watched::Watched;
use godwit_engine::Fence;
use godwit_run::pulse;

/// The fence of one transfer into one export.
pub(crate) struct AwayFence {
    watched: Watched,
    /// Counts of stalls of the mount and of this process at the start of the transfer.
    stops: (u64, u64),
}

impl AwayFence {
    /// The fence of a transfer that begins now.
    pub(crate) fn of(watched: &Watched) -> Self {
        Self {
            stops: stops_of(watched),
            watched: watched.clone(),
        }
    }
}

fn stops_of(watched: &Watched) -> (u64, u64) {
    (watched.silences(Instant::now()), pulse::stops())
}

impl Fence for AwayFence {
    fn holds(&self) -> bool {
        stops_of(&self.watched) == self.stops
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use godwit_api::watched::SILENT_MAX;

    use super::*;

    #[test]
    fn a_call_delayed_by_a_silent_mount_stays_refused_after_the_mount_answers() {
        let watched = Watched::default();
        let before = AwayFence::of(&watched);
        assert!(before.holds());
        let since = Instant::now().checked_sub(SILENT_MAX + Duration::from_secs(1));
        watched.begins(since.expect("the machine is up for longer"));
        assert!(!before.holds());
        watched.ends(Instant::now(), None);
        assert!(!before.holds());
        assert!(AwayFence::of(&watched).holds());
    }
}
