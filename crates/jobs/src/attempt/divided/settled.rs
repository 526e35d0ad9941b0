//! Takes the amounts that the nodes of a divided job settle after a user paused it.
//! Settles nothing: each node does so when it notices the pause.

use std::thread;
use std::time::{Duration, Instant};

use godwit_state::{HeldItems, JobState, Works};

use super::progress::moved;
use crate::attempt::AttemptEvents;
use crate::basis::this_node::ThisNode;

/// How long nodes may take: the state returns the items of a lost node sooner.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// How often the items are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until no node holds items of a paused job, and takes the amounts of all. Otherwise they would count for the next attempt. A job
/// that was resumed meanwhile has begun that attempt.
pub(super) fn take_amounts(this: &ThisNode, id: &str, epoch: u64, events: &AttemptEvents) {
    let reader = this.reader();
    let until = Instant::now() + SETTLED_WITHIN;
    let is_paused = || {
        let job = reader.job(id).ok().flatten();
        job.is_some_and(|job| job.state == JobState::Paused)
    };
    let is_held = |items: Vec<HeldItems>| items.iter().any(|items| items.node.is_some());
    while is_paused() {
        // The amounts are read after the items, so none are missed.
        let waits = Works(&reader).open_items(id).is_ok_and(is_held);
        match Works(&reader).of(id) {
            Ok(Some(work)) if work.epoch == epoch => events.ends(moved(&work)),
            _ => return,
        };
        if !waits || this.is_stopping() || Instant::now() >= until {
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
}
