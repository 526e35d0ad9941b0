//! Does the items of a job from memory to memory: each lease is one transfer of as many bytes as its parts have together.
//! Walks nothing, and finishes nothing: nothing is kept.

use godwit_api::event::{Status, Summary, TransferSummary};
use godwit_api::failure::Failure;
use godwit_state::{Found, Settled, Settlement, Task, WorkOp, WorkPath};

use super::leased::{LeaseOutcome, Leased, back, trouble};
use super::{JobContext, To, measure};
use crate::batch::{BatchOutcome, closed};

impl JobContext<'_> {
    /// Cuts the bytes into parts, or transfers the leased parts.
    pub(super) fn measure(&self, leased: &Leased<'_>) -> Result<LeaseOutcome, Failure> {
        let root = leased
            .root_of()
            .ok_or_else(|| Failure::usage("the job has no such root"))?;
        let whole = measure::bytes_of(root)?;
        let mut lease_outcome = LeaseOutcome::default();
        let mut share = 0;
        for item in leased.items {
            let outcome = match &item.task {
                Task::Scan { .. } => {
                    let found = WorkOp::Found {
                        number: item.number,
                        lease: leased.lease,
                        finds: vec![Found::File {
                            path: WorkPath::from(measure::BYTES),
                            bytes: whole,
                            generation: 0,
                        }],
                    };
                    if whole > 0 && !self.report(found) {
                        return Ok(back(leased.items, None));
                    }
                    lease_outcome.looked = lease_outcome.looked.plus(measure::found(whole));
                    Settlement::Done { digest: None }
                }
                Task::Part { bytes, .. } => {
                    share += bytes;
                    Settlement::Done {
                        digest: Some(measure::BYTES.to_owned()),
                    }
                }
                Task::Assemble { .. } => {
                    lease_outcome.files += 1;
                    lease_outcome.looked.done_files += 1;
                    Settlement::Done { digest: None }
                }
                Task::Close {} | Task::Region { .. } => {
                    let none = BatchOutcome::default();
                    let closed = closed(leased.root, &nothing_left(), none);
                    Settlement::Closed(Box::new(closed))
                }
            };
            let number = item.number;
            lease_outcome.settled.push(Settled { number, outcome });
        }
        if share == 0 {
            return Ok(lease_outcome);
        }
        let make = |to: To| measure::memory_transfer(self.base, &to, share);
        let sent = self.sending(leased.root).transfer(&make, None, true);
        match sent.ended {
            Ok(Summary::Transfer(summary)) => {
                lease_outcome.bytes = summary.bytes.unwrap_or(0);
                lease_outcome.looked.done_bytes = lease_outcome.bytes;
                Ok(lease_outcome)
            }
            Ok(Summary::Verify(_)) => Ok(back(leased.items, None)),
            Err(failure) => {
                let is_trouble = self.goes_on() && !sent.gives_back;
                let why = is_trouble.then(|| trouble(&failure));
                Ok(LeaseOutcome {
                    trouble: why,
                    ..back(leased.items, None)
                })
            }
        }
    }
}

/// The summary of a close that has nothing left to do: no files, no bytes, no failures.
pub(super) fn nothing_left() -> Summary {
    Summary::Transfer(Box::new(TransferSummary {
        status: Status::Complete,
        began: true,
        ..TransferSummary::default()
    }))
}
