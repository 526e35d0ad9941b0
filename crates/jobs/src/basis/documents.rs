//! Turns objects of the state into the documents of the API.
//! Reads nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use godwit_api::event::{Limited, Summary};
use godwit_api::failure::FailureCode;
use godwit_api::job::JobKind;
use godwit_api::rest::{AttemptView, JobView, Place, ProgressView};
use godwit_state::{Attempt, Job, Moved, StoredPlace};
use serde::Deserialize as _;
use serde_json::Value;

use crate::basis::error::JobsError;

/// The place as users write it.
pub(crate) fn place(place: &StoredPlace) -> String {
    format!("{}:{}", place.site, place.path)
}

/// The place with its parts.
///
/// # Errors
/// An older version kept a text that names no place.
pub(crate) fn parts(place: &StoredPlace) -> Result<Place, JobsError> {
    Place::at(&place.site, place.path.as_bytes()).map_err(|_error| {
        let text = self::place(place);
        JobsError::invalid(FailureCode::Invalid, format!("{text:?} is not a place"))
    })
}

/// A place of this node as its exports know it.
pub(crate) fn exported_path(place: &Place) -> PathBuf {
    Path::new("/")
        .join(&place.export)
        .join(OsStr::from_bytes(&place.path))
}

/// The job as clients see it.
pub(crate) fn job(
    job: Job,
    kind: JobKind,
    progress: Option<ProgressView>,
    ended: Moved,
) -> JobView {
    let running = progress.as_ref().map(|progress| progress.moved);
    JobView {
        moved: ended.plus(running.unwrap_or_default()),
        sources: job.sources.iter().map(place).collect(),
        destination: place(&job.destination),
        destinations: None,
        parent: None,
        id: job.id,
        label: job.label,
        owner: job.owner,
        kind,
        state: job.state,
        reason: job.reason,
        since: job.since,
        next_attempt: job.next_attempt,
        priority: job.priority,
        limit: job.limit,
        not_before: job.not_before,
        deadline: job.deadline,
        attempts: job.attempts,
        node: job.runner.map(|runner| runner.node),
        request: job.request,
        created: job.created,
        started: job.started,
        ended: job.ended,
        progress,
        summary: job
            .summary
            .and_then(|summary| serde_json::from_str(&summary).ok()),
        buffered: None,
    }
}

/// The fields of a summary that the program knows; None if it is no whole summary.
pub(crate) fn summary_of_program(reported: &Value) -> Option<Value> {
    let known = Summary::deserialize(reported).ok()?;
    serde_json::to_value(known).ok()
}

/// An attempt as clients see it.
pub(crate) fn attempt(attempt: Attempt) -> AttemptView {
    AttemptView {
        number: attempt.number,
        node: attempt.node,
        started: attempt.started,
        ended: attempt.ended,
        outcome: attempt.outcome,
        reason: attempt.reason,
        bytes: attempt.moved.bytes,
        files: attempt.moved.files,
        bytes_again: attempt.moved.bytes_again,
    }
}

/// Adds the running attempt, of which the state has no amounts yet.
pub(crate) fn add_running(attempts: &mut [AttemptView], progress: Option<&ProgressView>) {
    let last = attempts.last_mut().filter(|last| last.ended.is_none());
    if let (Some(progress), Some(last)) = (progress, last) {
        let moved = progress.moved;
        last.bytes = last.bytes.max(moved.bytes);
        last.files = last.files.max(moved.files);
        last.bytes_again = last.bytes_again.max(moved.bytes_again);
    }
}

/// The stage that limits a transfer and the advice, as a sentence.
pub(crate) fn limited(limited: &Limited) -> String {
    let advice = limited.evidence.advice.as_deref();
    let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
    format!(
        "{}: {}{advice}",
        limited.stage.words(),
        limited.evidence.figure
    )
}
