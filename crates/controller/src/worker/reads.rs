//! Returns those items of a lease whose source this node could not read, so that another node reads them. A node that reads nothing
//! leaves the job to the others.
//! Reads nothing.
//!
//! An I/O error may come from the mount of this node, or from an entry that no node can read. So items return once from a node
//! that reads others.
//! If the items return once more, their entries have failed, and the close looks at them.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::failure::{Failure, FailureCode};
use godwit_state::{Reason, WorkOp};

use super::leased::{LeaseOutcome, Leased, back};
use super::{JobContext, LOOK_EVERY};

/// Leases in a row without anything read, after which a node declines.
const FAULTY_MAX: u32 = 3;
/// Items that are remembered: further ones do not return.
const RETURNED_MAX: usize = 10_000;
/// After items have returned, so that other nodes take them.
pub(crate) const OTHERS_FIRST: Duration = Duration::from_secs(2);

/// The fate of items whose source could not be read.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// Their entries have failed.
    #[default]
    Keep,
    /// The items return.
    Back,
    /// The items return, and this node takes no further items.
    Decline,
}

/// The entries that a node could not read.
#[derive(Default)]
pub(crate) struct Reads {
    returned: HashSet<u64>,
    faulty: u32,
}

impl Reads {
    /// Judges a lease. `is_faulty`: an entry of it could not be read. `reads`: something else was read. `others`: nodes that may take the
    /// items.
    pub(crate) fn judge(
        &mut self,
        items: impl Iterator<Item = u64> + Clone,
        (is_faulty, reads): (bool, bool),
        others: usize,
    ) -> Verdict {
        let was_well = self.faulty == 0;
        self.faulty = match (is_faulty, reads) {
            (_, true) => 0,
            (true, false) => self.faulty.saturating_add(1),
            (false, false) => self.faulty,
        };
        if !is_faulty || others == 0 {
            return Verdict::Keep;
        }
        let is_known = items.clone().all(|item| self.returned.contains(&item));
        let is_full = self.returned.len() >= RETURNED_MAX;
        if (was_well || reads) && (is_known || is_full) {
            return Verdict::Keep;
        }
        if !is_full {
            self.returned.extend(items);
        }
        match self.faulty >= FAULTY_MAX {
            true => Verdict::Decline,
            false => Verdict::Back,
        }
    }
}

impl JobContext<'_> {
    /// Judges a lease, one entry of which may be unreadable here.
    pub(super) fn judge(&self, leased: &Leased<'_>, is_faulty: bool, reads: bool) -> Verdict {
        let own = &self.node.runner.node;
        let mut pairs = leased.work.pairs.iter();
        let others = pairs.clone().filter(|pair| pair.node != *own);
        let others = others.filter(|pair| !pair.to.is_empty()).count();
        // A node without a pair takes nothing more, and its lease is the last one.
        let others = match pairs.any(|pair| pair.node == *own) {
            true => others,
            false => 0,
        };
        let reads_of_worker = self.shared.reads.lock();
        let mut reads_of_worker = reads_of_worker.unwrap_or_else(PoisonError::into_inner);
        let items = leased.items.iter().map(|item| item.number);
        reads_of_worker.judge(items, (is_faulty, reads), others)
    }

    /// The items return, if a source that could not be opened is the fault of this node.
    pub(super) fn unopened(&self, leased: &Leased<'_>, failure: &Failure) -> Option<LeaseOutcome> {
        let is_of_source = [
            FailureCode::Io,
            FailureCode::NoSource,
            FailureCode::ExportAway,
        ];
        if !is_of_source.contains(&failure.code) {
            return None;
        }
        match self.judge(leased, true, false) {
            Verdict::Keep => None,
            verdict => Some(LeaseOutcome {
                unread: verdict,
                ..back(leased.items, None)
            }),
        }
    }

    /// After a settlement: lets other nodes go first, or declines.
    pub(super) fn leave_to_others(&self, verdict: Verdict) {
        match verdict {
            Verdict::Keep => {}
            Verdict::Back => {
                let since = Instant::now();
                while self.goes_on() && since.elapsed() < OTHERS_FIRST {
                    thread::sleep(LOOK_EVERY);
                }
            }
            Verdict::Decline => {
                let text =
                    "the file system of the source reports errors there; other nodes read it";
                let decline = WorkOp::Decline {
                    epoch: self.epoch,
                    node: self.node.runner.node.clone(),
                    why: Reason::new(FailureCode::Io, text),
                };
                self.report(decline);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: (bool, bool) = (false, true);
    const BAD_ENTRY: (bool, bool) = (true, true);
    const NOTHING: (bool, bool) = (true, false);

    fn judge(reads: &mut Reads, items: &[u64], read: (bool, bool), others: usize) -> Verdict {
        reads.judge(items.iter().copied(), read, others)
    }

    #[test]
    fn items_with_an_entry_that_no_node_reads_return_once() {
        let mut reads = Reads::default();
        assert_eq!(judge(&mut reads, &[1], WELL, 2), Verdict::Keep);
        assert_eq!(judge(&mut reads, &[2, 3], BAD_ENTRY, 2), Verdict::Back);
        assert_eq!(judge(&mut reads, &[2, 3], BAD_ENTRY, 2), Verdict::Keep);
        // The same without anything else in the lease.
        assert_eq!(judge(&mut reads, &[4], WELL, 2), Verdict::Keep);
        assert_eq!(judge(&mut reads, &[3], NOTHING, 2), Verdict::Keep);
    }

    #[test]
    fn a_node_that_reads_nothing_leaves_the_job_to_the_others() {
        let mut reads = Reads::default();
        let verdicts = [1, 1, 2].map(|item| judge(&mut reads, &[item], NOTHING, 1));
        assert_eq!(verdicts, [Verdict::Back, Verdict::Back, Verdict::Decline]);
    }

    #[test]
    fn the_only_node_brings_what_it_can() {
        let mut reads = Reads::default();
        for item in 0..9 {
            assert_eq!(judge(&mut reads, &[item], NOTHING, 0), Verdict::Keep);
        }
    }
}
