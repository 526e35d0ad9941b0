//! Turns what the state holds into the documents of the API.
//! Reads nothing.

use godwit_api::job::JobKind;
use godwit_api::rest::{
    AttemptView, FailureView, JobStateName, JobView, ProgressView, ReasonView, Timestamp,
};
use godwit_state::{Attempt, FailureGroup, Job, JobState, Place, Reason, UnixMillis};

use crate::stored::Stored;

const fn time(at: UnixMillis) -> Timestamp {
    Timestamp(at.0)
}

fn reason(reason: Reason) -> ReasonView {
    ReasonView {
        code: reason.code,
        text: reason.text,
    }
}

/// The place as users write it.
pub(crate) fn place(place: &Place) -> String {
    format!("{}:{}", place.site, place.path)
}

const fn state(state: JobState) -> JobStateName {
    match state {
        JobState::Queued => JobStateName::Queued,
        JobState::Scheduled => JobStateName::Scheduled,
        JobState::Scanning => JobStateName::Scanning,
        JobState::Running => JobStateName::Running,
        JobState::Paused => JobStateName::Paused,
        JobState::Verifying => JobStateName::Verifying,
        JobState::Complete => JobStateName::Complete,
        JobState::Partial => JobStateName::Partial,
        JobState::Failed => JobStateName::Failed,
        JobState::Cancelled => JobStateName::Cancelled,
    }
}

/// The job as clients see it.
pub(crate) fn job(job: Job, kind: JobKind, progress: Option<ProgressView>) -> JobView {
    JobView {
        sources: job.sources.iter().map(place).collect(),
        destination: place(&job.destination),
        id: job.id,
        label: job.label,
        owner: job.owner,
        kind,
        state: state(job.state),
        reason: job.reason.map(reason),
        since: time(job.since),
        next_attempt: job.next_attempt.map(time),
        priority: job.priority,
        limit: job.limit,
        not_before: job.not_before.map(time),
        deadline: job.deadline.map(time),
        attempts: job.attempts,
        node: job.runner.map(|runner| runner.node),
        request: job.request,
        created: time(job.created),
        started: job.started.map(time),
        ended: job.ended.map(time),
        progress,
        summary: job
            .summary
            .and_then(|summary| serde_json::from_str(&summary).ok()),
    }
}

/// What the job does, as its stored description says.
pub(crate) fn kind_of(spec: Option<&str>) -> JobKind {
    spec.and_then(|spec| Stored::parse(spec).ok())
        .map_or(JobKind::Copy, |stored| stored.new.kind)
}

/// An attempt as clients see it.
pub(crate) fn attempt(attempt: Attempt) -> AttemptView {
    AttemptView {
        number: attempt.number,
        node: attempt.node,
        started: time(attempt.started),
        ended: attempt.ended.map(time),
        outcome: attempt.outcome,
        reason: attempt.reason.map(reason),
        bytes: attempt.bytes,
        files: attempt.files,
    }
}

/// Failed entries as clients see them.
pub(crate) fn failure(group: FailureGroup) -> FailureView {
    FailureView {
        reason: reason(group.reason),
        count: group.count,
        examples: group.examples,
    }
}
