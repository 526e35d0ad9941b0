//! Owns the case of a destination whose program is too old to finish a region: the close of the root finishes the whole tree.
//! Asks no node.
//!
//! A refused region counts as closed, with a note in its summary. The state keeps the note, because it adds up summaries field by field. The
//! close of the root comes last, alone, and reads the note.

use godwit_api::event::Summary;
use godwit_api::failure::{Failure, FailureCode};
use godwit_state::{Closed, Task, Work};
use serde_json::{Map, Value};

use super::super::memory::nothing_left;
use crate::batch::{BatchOutcome, closed};

/// Field of a summary: regions that the destination refused.
const REFUSED: &str = "regions_refused";

/// Whether a transfer failed because the other side has an older program.
pub(super) fn is_too_old(ended: &Result<Summary, Failure>) -> bool {
    matches!(ended, Err(failure) if failure.code == FailureCode::VersionMismatch)
}

/// Whether this is the close of a root, which comes after all regions of the root.
pub(super) fn is_last(task: &Task) -> bool {
    match task {
        Task::Region { path, shares, .. } => path.0.is_empty() && *shares == 1,
        _ => true,
    }
}

/// The report of a refused region.
pub(super) fn refused(root: u32) -> Closed {
    let summary = nothing_left();
    let closed = closed(root, &summary, BatchOutcome::default());
    let mut noted = serde_json::to_value(summary).unwrap_or_default();
    if let Value::Object(fields) = &mut noted {
        fields.insert(REFUSED.to_owned(), 1.into());
    }
    Closed {
        summary: noted.to_string(),
        ..closed
    }
}

/// Whether the destination has refused a region of a root.
pub(super) fn was_refused(work: &Work, root: u32) -> bool {
    let mut closed = work.closed.iter().filter(|closed| closed.root == root);
    closed.any(|closed| {
        serde_json::from_str::<Map<String, Value>>(&closed.summary)
            .is_ok_and(|summary| summary.contains_key(REFUSED))
    })
}
