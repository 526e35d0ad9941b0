//! Finishes the tree of a root, by the counts that stand when the close is leased.
//! Leases nothing.

use std::thread;

use godwit_api::event::Summary;
use godwit_api::failure::Failure;
use godwit_state::{Looked, Settled, Settlement, Work, WorkItem, Works};

use super::leased::{Brought, Leased, back};
use super::{JobContext, LOOK_EVERY};
use crate::batch::{To, closed};

impl JobContext<'_> {
    /// The work as it is with this lease. An earlier read may lack the last settlements, and with them a scan that failed.
    pub(super) fn as_leased(&self, lease: u64) -> Option<Work> {
        let replica = &self.node.replica;
        while replica.applied_index() < lease {
            if !self.goes_on() {
                return None;
            }
            thread::sleep(LOOK_EVERY);
        }
        let reader = replica.reader();
        let work = Works(&reader).of(self.job).ok().flatten();
        work.filter(|work| work.epoch == self.epoch)
    }

    pub(super) fn close(&self, leased: &Leased<'_>, item: &WorkItem) -> Result<Brought, Failure> {
        // A source that was unmounted meanwhile would be an empty tree.
        self.look(leased.work)?;
        let make = |to: To| self.way(leased, to)?.close(deletes(leased.work));
        let sent = self.sending().transfer(&make, None, false);
        let ended = match sent.ended {
            Ok(ended) => ended,
            Err(failure) => {
                let why = self.goes_on().then_some(&failure);
                return Ok(Brought {
                    cut: true,
                    ..back(leased.items, why)
                });
            }
        };
        let mut brought = Brought::default();
        if let Summary::Transfer(summary) = &ended {
            self.count(&mut brought, Some(summary));
        }
        let heard = sent.heard.with_lack(&ended, &leased.work.counts);
        let outcome = Settlement::Closed(Box::new(closed(leased.root, &ended, heard)));
        let settled = vec![Settled {
            number: item.number,
            outcome,
        }];
        Ok(Brought {
            settled,
            cut: sent.cut,
            // The summary of a close counts its deliveries.
            files: 0,
            bytes: 0,
            looked: Looked {
                again: 0,
                ..brought.looked
            },
            ..brought
        })
    }
}

/// Whether a close deletes: not if a part of the source could not be read.
fn deletes(work: &Work) -> bool {
    work.counts.scans_failed == 0
}

#[cfg(test)]
mod tests;
