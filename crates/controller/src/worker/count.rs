//! Counts what a lease found and did beyond its settlements.
//! Settles nothing.

use godwit_api::event::TransferSummary;
use godwit_run::walk::Walked;
use godwit_state::{Agreed, LEVEL_MOVED, LEVEL_USAGE, Looked, Usage};

use super::JobContext;
use super::leased::LeaseOutcome;

impl JobContext<'_> {
    /// Whether all nodes of the cluster know what came with this level.
    pub(super) fn knows(&self, level: u32) -> bool {
        let all = Agreed(&self.node.replica.reader()).level();
        all.is_ok_and(|all| all >= level)
    }

    /// The report of a lease that the nodes of the cluster understand, with the figures of its tries.
    pub(super) fn reported(&self, looked: Looked) -> Option<Looked> {
        let usage = match self.knows(LEVEL_USAGE) {
            true => self.shared.flight().usage,
            false => Usage::default(),
        };
        self.knows(LEVEL_MOVED)
            .then_some(Looked { usage, ..looked })
    }

    /// Counts the amounts of a transfer. For a transfer that was cut, only the last progress has them.
    pub(super) fn count(&self, lease_outcome: &mut LeaseOutcome, ended: Option<&TransferSummary>) {
        let flight = self.shared.flight();
        let moved = match ended {
            Some(summary) => flight.earlier.plus(summary.moved()),
            None => flight.moved(),
        };
        (lease_outcome.files, lease_outcome.bytes) = (moved.files, moved.bytes);
        lease_outcome.looked.again = moved.bytes_again;
        if let Some(summary) = ended {
            let (there_bytes, there_files) = match flight.closes {
                true => (0, 0),
                false => (flight.bytes, summary.skipped),
            };
            lease_outcome.looked.done_bytes = moved.bytes.max(there_bytes);
            lease_outcome.looked.done_files = moved.files.saturating_add(there_files);
        }
    }
}

/// Entries that a walk found, for any node to move.
pub(crate) fn found_by(walked: &Walked) -> Looked {
    let large = walked.large.iter().map(|file| file.bytes);
    Looked {
        found_files: (walked.files + walked.large.len()) as u64,
        found_bytes: large.fold(walked.bytes, u64::saturating_add),
        names: walked.several as u64,
        ..Looked::default()
    }
}
