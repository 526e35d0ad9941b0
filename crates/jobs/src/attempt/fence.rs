//! Owns whether an undivided attempt may still write here, or send to another site: as long as its claim holds.
//! Ends no attempt, and writes nothing.
//!
//! A node that stood still does not know the state of its jobs. So it asks the state before the next write and before the next item that
//! it sends, and waits for the answer. One thing escapes: the rest of a block that a thread was sending when the process stopped. A node
//! that receives the job from another node has ended that transfer, and refuses the rest. Another node of that site does not know of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use godwit_run::{Control, Fence, pulse};
use godwit_state::{JobOp, ProposeError};

use crate::basis::this_node::ThisNode;

/// Pause after a question without an answer.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// A claim that the state has accepted.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) epoch: u64,
    /// Number of stops of this process before the claim was proposed.
    pub(crate) stops: u64,
}

/// The claim of one attempt, as its writers see it.
pub(crate) struct ClaimFence {
    this: Arc<ThisNode>,
    job: String,
    epoch: u64,
    control: Control,
    /// Number of stops of this process when the claim was last known to hold.
    stops: AtomicU64,
    is_over: AtomicBool,
    asking: Mutex<()>,
}

impl ClaimFence {
    /// Makes the fence of a claim that was taken now. After a standstill since its proposal, the first write asks the state.
    pub(crate) fn new(this: &Arc<ThisNode>, job: &str, claim: Claim, control: &Control) -> Self {
        Self {
            this: Arc::clone(this),
            job: job.to_owned(),
            epoch: claim.epoch,
            control: control.clone(),
            stops: AtomicU64::new(claim.stops),
            is_over: AtomicBool::new(false),
            asking: Mutex::default(),
        }
    }

    /// Another node has the job, or gets it: nothing more is written here.
    pub(crate) fn ends(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Whether the cluster continues without this node: others have its jobs.
    fn is_left_behind(&self) -> bool {
        let is_left = !self.this.replica.takes_part();
        if is_left {
            self.ends();
        }
        is_left
    }

    /// Asks the state, and waits until it answers or the attempt is unwanted.
    fn asks(&self, stops: u64) -> bool {
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = || self.stops.load(Ordering::SeqCst) >= stops;
        while !self.is_left_behind() && !self.is_over.load(Ordering::SeqCst) && !is_known() {
            match self.repeat_report() {
                Ok(()) => self.stops.store(stops, Ordering::SeqCst),
                Err(ProposeError::Refused(_)) => self.ends(),
                // A fence that said no stays closed.
                Err(_) if self.is_unwanted() => {
                    self.ends();
                    return false;
                }
                Err(_) => std::thread::sleep(ASK_AGAIN),
            }
        }
        !self.is_over.load(Ordering::SeqCst)
    }

    /// Repeats a report that the state knows already. The state takes it from the holder of the claim only.
    fn repeat_report(&self) -> Result<(), ProposeError> {
        let job = self.this.reader().job(&self.job)?;
        let moving = job.filter(|job| job.epoch == self.epoch && job.state.moves());
        let Some(job) = moving else {
            self.ends();
            return Ok(());
        };
        let report = JobOp::Report {
            epoch: self.epoch,
            state: job.state,
            reason: job.reason,
        };
        self.this.propose_for(&self.job, report)
    }

    fn is_unwanted(&self) -> bool {
        self.control.is_cancelled() || self.this.is_stopping()
    }
}

impl Fence for ClaimFence {
    fn holds(&self) -> bool {
        let stops = pulse::stops();
        let is_known = self.stops.load(Ordering::SeqCst) >= stops;
        match is_known {
            true => !self.is_left_behind() && !self.is_over.load(Ordering::SeqCst),
            false => self.asks(stops),
        }
    }
}
