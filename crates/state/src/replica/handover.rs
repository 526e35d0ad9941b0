//! Hands leadership over when the leader has too little disk space, to a voter with enough. Does not refuse
//! commands: `Readiness` and proposals do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use tokio::time::{sleep, timeout};

use crate::raft::{Peers, ROOM, Raft, say};
use crate::store::free_bytes;

/// Interval of checks of the disk space.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time within which another voter must report its free space.
const SAID_WITHIN: Duration = Duration::from_secs(2);

/// Time limit of an election before another voter is chosen.
const ELECTED_WITHIN: Duration = Duration::from_secs(5);

/// The parts of a replica that a handover uses.
pub(super) struct Handover {
    pub(super) raft: Raft,
    pub(super) peers: Arc<dyn Peers>,
    pub(super) number: u64,
    pub(super) directory: PathBuf,
    pub(super) free_bytes_min: u64,
}

impl Handover {
    /// Hands over whenever this voter leads and has too little disk space. Runs as long as the replica
    /// exists.
    pub(super) async fn run(self) {
        loop {
            sleep(LOOK_EVERY).await;
            if !self.raft.is_leader() || self.has_room() {
                continue;
            }
            if let Some(to) = self.choose().await {
                // An error means that the consensus has ended.
                let _ = self.raft.trigger().transfer_leader(to).await;
                sleep(ELECTED_WITHIN).await;
            }
        }
    }

    /// An unreadable file system counts as having space; the first failing write reports it.
    fn has_room(&self) -> bool {
        free_bytes(&self.directory).map_or(true, |free| free >= self.free_bytes_min)
    }

    /// The voter with enough space whose log is longest. A voter with an older program does not answer, and
    /// is not chosen.
    async fn choose(&self) -> Option<u64> {
        for (number, address) in self.others() {
            let said = say(&*self.peers, (number, &address), ROOM, &(), SAID_WITHIN);
            if matches!(timeout(SAID_WITHIN, said).await, Ok(Ok(true))) {
                return Some(number);
            }
        }
        None
    }

    fn others(&self) -> Vec<(u64, String)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let matched = |number: u64| {
            let replication = metrics.replication.as_ref()?;
            replication.get(&number)?.as_ref().map(|at| at.index)
        };
        let mut others: Vec<(u64, String)> = membership
            .voter_ids()
            .filter(|voter| *voter != self.number)
            .filter_map(|voter| Some((voter, membership.get_node(&voter)?.addr.clone())))
            .collect();
        others.sort_by_key(|(number, _)| std::cmp::Reverse(matched(*number)));
        others
    }
}
