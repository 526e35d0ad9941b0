//! Remembers which marks of claims exist, and which are to be removed: those of dropped claims, of earlier places of a claim, and of claims
//! that ended long ago. Touches no file (`ask/claim`).
//!
//! The mark of an ended claim stays for a while: a controller that was away takes its claim again and expects the mark.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use godwit_api::ask::{Mark, Refusal, code};
use godwit_api::job::{ClaimId, Text};
use godwit_store::Timestamp;

use super::{CLAIMS_MAX, ClaimTable, Held, Wish};
use crate::session::locked;

/// How long the mark of an ended claim stays: longer than a job is paused or its nodes are away. A job without its mark fails.
pub(super) const MARK_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Marks to remove, each with its claim and the asked path.
#[derive(Default)]
pub(super) struct Remains {
    /// While a file system hangs, only the latest ones are remembered.
    waiting: VecDeque<(ClaimId, Text)>,
    /// Marks that are being removed now.
    removing: Vec<(ClaimId, Text)>,
}

/// Until this is dropped, the mark of a claim at this place is being removed, and the claim is not set there.
pub(crate) struct Removal<'a> {
    table: &'a ClaimTable,
    mark: (ClaimId, Text),
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        let mut remains = locked(&self.table.remains);
        let same = |mark: &(ClaimId, Text)| *mark == self.mark;
        if let Some(index) = remains.removing.iter().position(same) {
            remains.removing.swap_remove(index);
        }
    }
}

impl Remains {
    fn push(&mut self, claim: ClaimId, asked: Text) {
        self.waiting.truncate(CLAIMS_MAX - 1);
        self.waiting.push_front((claim, asked));
    }

    /// # Errors
    /// The mark of the claim at this place is being removed. The removal might take a new mark as well.
    pub(super) fn check(&self, wish: &Wish) -> Result<(), Refusal> {
        let is_of =
            |(claim, asked): &(ClaimId, Text)| *claim == wish.claim && *asked == wish.place.asked;
        if !self.removing.iter().any(is_of) {
            return Ok(());
        }
        let message = format!(
            "this node is removing an earlier mark of the claim {}; the controller asks again",
            wish.claim
        );
        Err(Refusal::later(code::BUSY, message))
    }

    /// The claim no longer needs its mark.
    pub(super) fn leave(&mut self, claim: ClaimId, held: &mut Held) {
        if std::mem::take(&mut held.has_mark) {
            self.push(claim, held.place.asked.clone());
        }
    }

    /// An ended claim no longer needs its mark if it ended long ago.
    pub(super) fn leave_old(&mut self, claim: ClaimId, held: &mut Held, now: Instant) {
        let is_old = |ended| now.saturating_duration_since(ended) >= MARK_KEPT;
        if held.ended.is_some_and(is_old) {
            self.leave(claim, held);
        }
    }

    /// Removes a claim from the table.
    pub(super) fn drop_claim(&mut self, table: &mut HashMap<ClaimId, Held>, claim: ClaimId) {
        if let Some(mut held) = table.remove(&claim) {
            self.leave(claim, &mut held);
        }
    }
}

impl ClaimTable {
    /// Notes the action on the mark of a claim that was asked for at this path. `since` is when an existing mark was made.
    pub(crate) fn marked(
        &self,
        claim: ClaimId,
        asked: &Text,
        mark: Mark,
        since: Option<Timestamp>,
    ) {
        let is_made = mark == Mark::Make;
        let mut table = locked(&self.claims);
        let held = table.get_mut(&claim);
        match held.filter(|held| held.place.asked == *asked) {
            Some(held) => {
                held.since = since.or(held.since);
                held.has_mark = mark != Mark::Remove && (is_made || held.has_mark);
            }
            // The claim was dropped meanwhile, or has a different place.
            None if is_made => locked(&self.remains).push(claim, asked.clone()),
            None => {}
        }
    }

    /// Whether there are marks to remove.
    pub(crate) fn has_remains(&self) -> bool {
        !locked(&self.remains).waiting.is_empty()
    }

    /// Calls `remove` for each mark that is to be removed, on one thread at a time, because a file system may hang.
    pub(crate) fn remove_remains(&self, remove: &dyn Fn(ClaimId, &Text)) {
        let Ok(_alone) = self.removing.try_lock() else {
            return;
        };
        while let Some(removal) = self.next_remains() {
            let (claim, asked) = &removal.mark;
            remove(*claim, asked);
        }
    }

    /// Begins to remove the mark of a claim that was asked for at this path.
    pub(crate) fn removal(&self, claim: ClaimId, asked: &Text) -> Removal<'_> {
        let mut remains = locked(&self.remains);
        self.begun(&mut remains, (claim, asked.clone()))
    }

    /// The next mark to remove. A claim that was set again at its place keeps its mark.
    fn next_remains(&self) -> Option<Removal<'_>> {
        let mut table = locked(&self.claims);
        let mut remains = locked(&self.remains);
        loop {
            let (claim, asked) = remains.waiting.pop_back()?;
            let held = table.get_mut(&claim);
            let again = held.filter(|held| held.place.asked == asked && !held.lease.has_ended());
            match again {
                Some(held) => held.has_mark = true,
                None => return Some(self.begun(&mut remains, (claim, asked))),
            }
        }
    }

    fn begun(&self, remains: &mut Remains, mark: (ClaimId, Text)) -> Removal<'_> {
        remains.removing.push(mark.clone());
        Removal { table: self, mark }
    }
}
