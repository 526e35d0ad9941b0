//! Divides a job into items of work in the state, and does the items of one node: a controller for the job, a worker for each node.
//! Chooses no job and moves no data itself: `jobs` and `run` do.
//!
//! ```text
//! controller ─▶ claim at each node of the destination (ASK) ─▶ Open, Pairs ─▶ state ◀── Lease, Found, Settle ─┐
//!     ▲                                                                                                     worker ─▶ run::Runner (member)
//!     └────────── counters, trouble, ends of closes ◀── state
//! ```
//!
//! All of the controller's state is in the replicated state or can be read again, so another controller continues where one ended. Workers
//! lease items, walk directories (`run::walk`), move their items by one ordinary transfer, and settle the items. A walk skips work that
//! needs the whole tree: links, files with several names, times of directories, deletion. The **close** of a root does that work, and
//! repeats items that failed. It is an ordinary transfer of the whole tree.
//!
//! `aside`, `bound`, `claims`, `course`, `pace`, `rates`, `watch` and `batch` are pure: time, answers, leased items and events are arguments.

mod aside;
mod batch;
mod bound;
mod census;
mod claims;
mod control;
mod course;
mod lease_transfer;
mod measure;
mod pace;
mod place;
mod questions;
mod rates;
mod shares;
#[cfg(test)]
mod simulation;
mod vouching;
mod watch;
mod worker;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use godwit_run::Env;
use godwit_state::{
    Actor, Command, Effect, Op, Peer, ProposeError, Replica, Runner as RunnerName, Timestamp,
};

pub use batch::{Base, notes, summed};
pub use census::census;
pub use control::{End, Mate, Order, control};
pub use lease_transfer::Flight;
pub use vouching::{AskNode, Believed, of_site, which_nodes};
pub use watch::Traffic;
pub use worker::Worker;

/// Wait after a proposal without an answer.
const PROPOSE_AGAIN: Duration = Duration::from_millis(200);

/// Makes the surroundings of a transfer that may go to these nodes.
pub type MakeEnv = dyn Fn(&[Peer]) -> Env + Send + Sync;

/// Services that a node gives to its controllers and workers.
#[derive(Clone)]
pub struct Node {
    /// The state of the node.
    pub replica: Arc<Replica>,
    /// Name and start of the node.
    pub runner: RunnerName,
    /// Tells the time.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Makes the surroundings of one transfer of the job.
    pub make_env: Arc<MakeEnv>,
    /// Whether the file system of a source of the job does not answer here.
    pub hangs: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Node {
    /// Proposes once.
    fn propose(&self, op: Op) -> Result<Effect, ProposeError> {
        let actor = Actor::node(self.runner.node.clone());
        let command = Command::new((self.now)(), actor, op);
        self.replica
            .propose_blocking(command)
            .map(|done| done.effect)
    }

    /// Proposes until the state takes or refuses the command, or `goes_on` ends. Repeats are harmless: leases fence them.
    fn insist(&self, op: &Op, goes_on: &dyn Fn() -> bool) -> Option<Effect> {
        loop {
            match self.propose(op.clone()) {
                Ok(effect) => return Some(effect),
                Err(ProposeError::Refused(_) | ProposeError::Ended(_)) => return None,
                Err(_) if !goes_on() => return None,
                Err(_) => thread::sleep(PROPOSE_AGAIN),
            }
        }
    }
}
