//! Owns the items that a node leased of one root, and their outcome.
//! Brings nothing.

use godwit_api::failure::{Failure, FailureCode};
use godwit_state::{Looked, Reason, Settled, Settlement, Task, Work, WorkItem, WorkRoot};

use super::reads::Verdict;
use crate::batch::clip;

/// Outcome of the items of one root.
#[derive(Default)]
pub(super) struct LeaseOutcome {
    pub(super) settled: Vec<Settled>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) trouble: Option<Reason>,
    /// A transfer was cut.
    pub(super) cut: bool,
    pub(super) looked: Looked,
    /// The verdict about entries that this node could not read.
    pub(super) unread: Verdict,
}

/// Whether the pace of nodes is measured by this item.
pub(super) const fn is_paced(task: &Task) -> bool {
    matches!(task, Task::Scan { .. } | Task::Part { .. })
}

/// Items that a node leased of one root.
pub(super) struct Leased<'a> {
    pub(super) work: &'a Work,
    pub(super) lease: u64,
    pub(super) root: u32,
    pub(super) items: &'a [WorkItem],
}

impl<'a> Leased<'a> {
    pub(super) fn root_of(&self) -> Option<&'a WorkRoot> {
        let root = usize::try_from(self.root).ok()?;
        self.work.roots.get(root)
    }
}

/// All items return.
pub(super) fn back(items: &[WorkItem], why: Option<&Failure>) -> LeaseOutcome {
    let settled = items.iter().map(|item| Settled {
        number: item.number,
        outcome: Settlement::Back {},
    });
    LeaseOutcome {
        settled: settled.collect(),
        trouble: why.map(trouble),
        ..LeaseOutcome::default()
    }
}

pub(super) fn trouble(failure: &Failure) -> Reason {
    // The next attempt retries a transfer that was cancelled from outside.
    let code = match failure.code {
        FailureCode::Cancelled => FailureCode::ConnectionLost,
        code => code,
    };
    Reason::new(code, clip(&failure.message))
}
