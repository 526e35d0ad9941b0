//! Finishes the tree of a root, by the counts that stand when the close is leased.
//! Leases nothing.

mod refusal;

use std::thread;

use godwit_api::event::Summary;
use godwit_api::failure::Failure;
use godwit_api::job::{Region, Text};
use godwit_run::NameList;
use godwit_run::walk::{Tally, Unread, Walk, WalkLimits};
use godwit_state::{
    CLOSE_SHARES_MAX, Closed, Found, Looked, Settled, Settlement, Task, Work, WorkItem, WorkOp,
    WorkPath, Works,
};

use self::refusal::{is_last, is_too_old, refused, was_refused};
use super::leased::{LeaseOutcome, Leased, back};
use super::memory::nothing_left;
use super::reads::Verdict;
use super::{JobContext, LOOK_EVERY};
use crate::batch::{BatchOutcome, To, add_unread, closed, name_holder, names_of};
use crate::lease_transfer::Sent;

/// A close with more entries is divided. A smaller close takes less than a second.
const REGION_ENTRIES: u64 = 10_000;

/// Most shares that a close leaves to others at once.
const FAN: u32 = 16;

impl JobContext<'_> {
    /// The work as of this lease. An earlier read may lack the last settlements, which may report a failed scan.
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

    /// Finishes a tree, or the region of an item. Leaves regions of a large tree to others first.
    pub(super) fn close(
        &self,
        leased: &Leased<'_>,
        item: &WorkItem,
    ) -> Result<LeaseOutcome, Failure> {
        // A source that was unmounted meanwhile would be an empty tree.
        self.look(leased.work)?;
        let (region, unread) = match self.region(leased, &item.task)? {
            Part::Of(region, unread) => (region, unread),
            Part::Left(find) => {
                let found = WorkOp::Found {
                    number: item.number,
                    lease: leased.lease,
                    finds: vec![find],
                };
                if !self.report(found) {
                    thread::sleep(LOOK_EVERY);
                }
                // The item returns after the work that was found.
                return Ok(back(leased.items, None));
            }
        };
        if region.as_ref().is_some_and(|one| one.within.is_empty()) {
            let (mut summary, mut batch) = (nothing_left(), BatchOutcome::default());
            add_unread(&mut summary, &mut batch, &unread);
            return Ok(LeaseOutcome {
                settled: settled(item, closed(leased.root, &summary, batch)),
                ..LeaseOutcome::default()
            });
        }
        let mut sent = self.finish(leased, region.as_ref());
        if region.is_some() && is_too_old(&sent.ended) {
            if !is_last(&item.task) {
                return Ok(LeaseOutcome {
                    settled: settled(item, refused(leased.root)),
                    cut: sent.cut,
                    ..LeaseOutcome::default()
                });
            }
            sent = self.finish(leased, None);
        }
        let mut ended = match sent.ended {
            Ok(ended) => ended,
            Err(failure) => {
                let why = self.goes_on().then_some(&failure);
                return Ok(LeaseOutcome {
                    cut: true,
                    ..back(leased.items, why)
                });
            }
        };
        let is_faulty = sent.batch.is_unread;
        let verdict = self.judge(leased, is_faulty, !is_faulty);
        if verdict != Verdict::Keep {
            return Ok(LeaseOutcome {
                cut: sent.cut,
                unread: verdict,
                ..back(leased.items, None)
            });
        }
        name_holder(&mut ended, &self.node.runner.node);
        let mut lease_outcome = LeaseOutcome::default();
        if let Summary::Transfer(summary) = &ended {
            self.count(&mut lease_outcome, Some(summary));
        }
        let mut batch = sent.batch.with_lack(&ended, &leased.work.counts);
        add_unread(&mut ended, &mut batch, &unread);
        Ok(LeaseOutcome {
            settled: settled(
                item,
                closed(leased.root, &ended, batch.bounded(leased.work)),
            ),
            cut: sent.cut,
            // The summary of a close counts its deliveries.
            files: 0,
            bytes: 0,
            looked: Looked {
                again: 0,
                ..lease_outcome.looked
            },
            ..lease_outcome
        })
    }

    /// Runs the transfer that finishes a region, or the whole tree.
    fn finish(&self, leased: &Leased<'_>, region: Option<&Region>) -> Sent {
        let deletes = deletes(leased.work);
        match region {
            None => {
                let make = |to: To| self.transfer_of(leased, to)?.close(deletes);
                self.sending(leased.root).transfer(&make, None, false)
            }
            Some(region) => {
                let make = |to: To| self.transfer_of(leased, to)?.region(region, deletes);
                let list = NameList::in_memory(names_of(region));
                self.sending(leased.root).transfer(&make, Some(list), false)
            }
        }
    }

    /// The part of the tree that the item finishes: a region, or all of it.
    fn region(&self, leased: &Leased<'_>, task: &Task) -> Result<Part, Failure> {
        let (path, share, shares, flat) = match task {
            Task::Region {
                path,
                share,
                shares,
                flat,
            } => (path.0.as_slice(), *share, *shares, *flat),
            _ if !self.divides(leased) => return Ok(Part::Of(None, Vec::new())),
            _ => (&b""[..], 0, 1, false),
        };
        let region = |within| Some(Region { within, flat });
        let none = || Ok(Part::Of(region(Vec::new()), Vec::new()));
        if was_refused(leased.work, leased.root) {
            return match is_last(task) {
                true => Ok(Part::Of(None, Vec::new())),
                false => none(),
            };
        }
        // The close of the parent directory handles the entries in a share.
        if flat && shares > 1 {
            return none();
        }
        let bare = self.transfer_of(leased, To::nowhere())?;
        let bare = bare.members(Vec::new(), false)?;
        let walk = Walk::open(&bare, &(self.node.make_env)(&[]), WalkLimits::default())?;
        let whole = || region(vec![Text(path.to_vec())]);
        let tally = match (walk.has_directory(path), flat) {
            // The close of the directory above notices a directory that was removed meanwhile.
            (Ok(false), _) => return none(),
            (_, true) => return Ok(Part::Of(whole(), Vec::new())),
            (Ok(true), false) => walk.tally(path, (share, shares), REGION_ENTRIES),
            (Err(unread), false) => Err(unread),
        };
        let tally = match tally {
            Ok(tally) => tally,
            // The transfer looks again, and reports each entry that fails.
            Err(_) if shares == 1 => return Ok(Part::Of(whole(), Vec::new())),
            Err(unread) => return Ok(Part::Of(region(Vec::new()), vec![unread])),
        };
        if let Some(find) = left(&tally, path, shares) {
            return Ok(Part::Left(find));
        }
        Ok(match (shares, path) {
            (1, b"") => Part::Of(None, Vec::new()),
            (1, _) => Part::Of(whole(), Vec::new()),
            _ => {
                let within = tally.directories.into_iter().map(Text).collect();
                Part::Of(region(within), tally.unread)
            }
        })
    }

    /// Whether the close of a root is divided: for several nodes, and where no work needs the whole tree.
    fn divides(&self, leased: &Leased<'_>) -> bool {
        let work = leased.work;
        let (counts, selection) = (&work.counts, self.base.selection.as_ref());
        let senders = work.pairs.iter().filter(|pair| !pair.to.is_empty()).count();
        let is_tree = leased.root_of().is_some_and(|root| root.file.is_none());
        let has_links = !counts.reports_names || counts.looked.names > 0 || counts.scans_failed > 0;
        let is_bounded = selection.is_some_and(|selection| selection.one_file_system);
        let is_one = self.base.settings.contains_key("max-delete") || self.base.manifest.is_some();
        senders > 1 && is_tree && !has_links && !is_bounded && !is_one
    }
}

/// The part of the tree that a close finishes.
enum Part {
    /// A region, and the entries in it that its transfer does not report; None is the whole tree.
    Of(Option<Region>, Vec<Unread>),
    /// The directory is left to other nodes for now.
    Left(Found),
}

/// The work that a close leaves to other nodes. The item closes this directory, or one share of the directories in it.
fn left(tally: &Tally, path: &[u8], shares: u32) -> Option<Found> {
    let directories = tally.directories.as_slice();
    let fan = u32::try_from(directories.len()).unwrap_or(FAN).min(FAN);
    match directories {
        _ if !tally.is_large => None,
        [] => None,
        // A close of this directory alone would report none of the others.
        [_] if !tally.unread.is_empty() => None,
        [one] => Some(Found::Close {
            path: WorkPath(one.clone()),
            shares: 1,
        }),
        _ => (shares.saturating_mul(fan) <= CLOSE_SHARES_MAX).then(|| Found::Close {
            path: WorkPath(path.to_vec()),
            shares: fan,
        }),
    }
}

fn settled(item: &WorkItem, closed: Closed) -> Vec<Settled> {
    vec![Settled {
        number: item.number,
        outcome: Settlement::Closed(Box::new(closed)),
    }]
}

/// Whether a close deletes: not if a part of the source could not be read, or an entry failed.
fn deletes(work: &Work) -> bool {
    work.counts.scans_failed == 0 && work.closed.iter().all(|one| one.failures.is_empty())
}

#[cfg(test)]
mod tests;
