//! Jobs in words: their states, their progress, and why they wait.
//! Prints nothing.

use godwit_api::failure::FailureCode;
use godwit_api::rest::{Bottleneck, JobState, JobView, ProgressView, Reason};
use godwit_api::units::{human_rate, human_size};

use super::when::Clock;
use crate::exit::Failure;
use crate::output::printable;

/// The states of jobs that have not ended.
pub(super) const OPEN: [JobState; 6] = [
    JobState::Queued,
    JobState::Scheduled,
    JobState::Scanning,
    JobState::Running,
    JobState::Paused,
    JobState::Verifying,
];

/// The states of jobs that have ended.
const ENDED: [JobState; 4] = [
    JobState::Complete,
    JobState::Partial,
    JobState::Failed,
    JobState::Cancelled,
];

/// The word for a state.
pub(super) const fn state(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Scheduled => "scheduled",
        JobState::Scanning => "scanning",
        JobState::Running => "running",
        JobState::Paused => "paused",
        JobState::Verifying => "verifying",
        JobState::Complete => "complete",
        JobState::Partial => "partial",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// The word for the state of a job. Nothing is at the destination after a dry run; data on flash is durable, and not there yet.
pub(super) fn state_of(job: &JobView) -> String {
    let state = state(job.state);
    let is_buffered = has_ended(job.state) && job.buffered.is_some();
    match (is_dry(job), is_buffered) {
        (true, _) => format!("{state} (dry run)"),
        (false, true) => format!("{state} (buffered)"),
        (false, false) => state.to_owned(),
    }
}

/// Whether the job was a dry run, and has ended.
pub(super) fn is_dry(job: &JobView) -> bool {
    let summary = job.summary.as_ref();
    summary.is_some_and(|summary| summary["dry_run"] == true)
}

/// States from a user's list, separated by commas.
pub(super) fn states(text: &str) -> Result<Vec<JobState>, Failure> {
    let known = || OPEN.into_iter().chain(ENDED);
    text.split(',')
        .map(str::trim)
        .map(|word| {
            known().find(|known| state(*known) == word).ok_or_else(|| {
                let words: Vec<&str> = known().map(state).collect();
                Failure::usage(format!(
                    "--state: {word:?} is not a job state; the states are: {}",
                    words.join(", ")
                ))
            })
        })
        .collect()
}

/// Whether the job has ended.
pub(super) fn has_ended(state: JobState) -> bool {
    ENDED.contains(&state)
}

/// Whether a node works at the job now.
pub(super) const fn is_moving(state: JobState) -> bool {
    matches!(
        state,
        JobState::Scanning | JobState::Running | JobState::Verifying
    )
}

/// The done amount, as a part of the whole if that is known.
pub(super) fn done(job: &JobView) -> String {
    let Some(progress) = &job.progress else {
        return String::new();
    };
    match progress.bytes_total {
        Some(total) if total > 0 => {
            let percent = u128::from(progress.bytes.min(total)) * 100 / u128::from(total);
            format!("{percent}%")
        }
        _ => human_size(progress.bytes),
    }
}

/// The rate of the job.
pub(super) fn rate(job: &JobView) -> String {
    bytes_per_second(job).map_or_else(String::new, human_rate)
}

/// The rate of the last seconds in whole bytes.
pub(super) fn bytes_per_second(job: &JobView) -> Option<u64> {
    job.progress.as_ref()?.bytes_per_second.map(whole)
}

/// A rate in whole bytes: rates fit, and a fraction of a byte does not matter.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and no rate is negative"
)]
pub(super) const fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

/// The stage that limits the job now, and whether it is behind other destinations.
pub(super) fn limited(job: &JobView) -> String {
    let Some(progress) = &job.progress else {
        return String::new();
    };
    let stage = progress.bottleneck.map_or("", Bottleneck::words);
    match (stage, progress.behind) {
        ("", true) => "behind".to_owned(),
        (stage, true) => format!("{stage}, behind"),
        (stage, false) => stage.to_owned(),
    }
}

/// The likely remaining time, as the node foretells it.
pub(super) fn left(job: &JobView) -> String {
    let progress = job.progress.as_ref();
    let left = progress
        .and_then(seconds_left)
        .map(|left| whole(left.ceil()));
    let left = left.filter(|seconds| *seconds < LEFT_MAX && bytes_per_second(job).is_some());
    left.map_or_else(String::new, span)
}

/// The likely remaining time in seconds, from the time of the figures on.
pub(super) fn seconds_left(progress: &ProgressView) -> Option<f64> {
    let likely = progress.forecast?.likely;
    // Times in milliseconds are exact in 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "exact")]
    Some(likely.0.saturating_sub(progress.at.0).max(0) as f64 / 1_000.0)
}

/// The forecast of the end: the likely time, and the span in which eight of ten jobs end.
pub(super) fn ends(progress: &ProgressView, clock: &Clock) -> String {
    let Some(forecast) = &progress.forecast else {
        return String::new();
    };
    format!(
        "about {} (8 of 10 end between {} and {})",
        clock.show(forecast.likely),
        clock.show(forecast.earliest),
        clock.show(forecast.latest)
    )
}

/// A hundred days: longer times are not estimated.
const LEFT_MAX: u64 = 100 * 86_400;

/// A time span as `1:02:03` or `2:03`.
pub(super) fn span(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// The source and the destination of the job.
pub(super) fn places(job: &JobView) -> String {
    let sources = match job.sources.as_slice() {
        [first, _, ..] => format!("{first} and {} more", job.sources.len() - 1),
        _ => job.sources.join(", "),
    };
    let others = match job.destinations {
        Some(count) if count.gather => format!(", {} of {} complete", count.complete, count.total),
        Some(count) => format!(
            " and {} more, {} of {} complete",
            count.total.saturating_sub(1),
            count.complete,
            count.total
        ),
        None => String::new(),
    };
    let of = match &job.parent {
        Some(parent) => format!(" (of {parent})"),
        None => String::new(),
    };
    printable(&format!("{sources} -> {}{others}{of}", job.destination))
}

/// Why a job waits, since when, and its next attempt. None without a reason.
pub(super) fn why(job: &JobView, clock: &Clock) -> Option<String> {
    let reason = job.reason.as_ref().map(|reason| printable(&reason.text));
    if job.state == JobState::Complete {
        // A reason is shown only if it adds something.
        let says_more = |reason: &Reason| reason.code != FailureCode::Complete;
        return reason.filter(|_| job.reason.as_ref().is_some_and(says_more));
    }
    if is_moving(job.state) {
        return reason;
    }
    let since = clock.show(job.since);
    let mut text = match (has_ended(job.state), reason) {
        (true, reason) => return reason.map(|reason| format!("since {since}: {reason}")),
        (false, Some(reason)) => format!("waits since {since}: {reason}"),
        (false, None) => format!("waits since {since}"),
    };
    if let Some(next) = job.next_attempt {
        text.push_str(&format!("; next attempt {}", clock.show(next)));
    }
    Some(text)
}
