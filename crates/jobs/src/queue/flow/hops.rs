//! Reads what the hops of a flow are like now: their latest runs, what has moved and what waits.
//! Starts no run, and keeps nothing.

use godwit_api::rest::{Amount, Moved, ProgressView};
use godwit_state::{Flow, Hop, Job, JobState, Reader, Timestamp};

use super::due::{self, Facts, Latest, Next};
use crate::basis::error::JobsError;
use crate::basis::spec;
use crate::queue::reasons::Now;
use crate::rights::access;

/// A hop as it is now.
pub(crate) struct HopNow {
    /// The job of the latest run, if there is one.
    pub(crate) job: Option<Job>,
    /// The progress of the running job.
    pub(crate) progress: Option<ProgressView>,
    /// Amount that the hop has moved since the flow was added.
    pub(crate) moved: Amount,
    /// Amount that is known to wait at the source of the hop.
    pub(crate) backlog: Amount,
    /// When the last complete run began. Every file that existed then has been passed on.
    clear: Option<Timestamp>,
    /// The earliest time at which the oldest file of the backlog can have arrived.
    pub(crate) oldest: Option<Timestamp>,
    /// Amount that the hop before has moved; None for the first hop.
    pub(crate) arrived: Option<Amount>,
    /// When the next run starts.
    pub(crate) next: Next,
}

/// The hops of a flow as they are at a time.
///
/// # Errors
/// The state cannot be read.
pub(crate) fn read(
    now: &Now<'_>,
    reader: &Reader,
    flow: &Flow,
    at: Timestamp,
) -> Result<Vec<HopNow>, JobsError> {
    let mut hops: Vec<HopNow> = Vec::with_capacity(flow.hops.len());
    for hop in &flow.hops {
        let job = match hop.runs.last() {
            Some(id) => reader.job(id)?,
            None => None,
        };
        let (progress, ended) = match &job {
            Some(job) => now.amounts_of(job)?,
            None => (None, Moved::default()),
        };
        let running = progress.as_ref().map(|progress| progress.moved);
        let latest = ended.plus(running.unwrap_or_default());
        let latest = Amount {
            files: latest.files,
            bytes: latest.bytes,
        };
        let moved = hop.moved.plus(latest);
        let before = hops.last();
        let facts = Facts {
            latest: latest_of(hop, job.as_ref()),
            has_source: before.is_none_or(|before| before.has_given(hop)),
            arrived: before.map(|before| before.moved),
            seen: hop.seen,
            every: i64::from(flow.every) * 1_000,
        };
        let is_through = job
            .as_ref()
            .is_some_and(|job| job.state == JobState::Complete);
        let left = match &job {
            Some(_) if !is_through => hop.waited.minus(latest),
            _ => Amount::default(),
        };
        let backlog = backlog(hop, progress.as_ref(), left, facts.arrived);
        let clear = if is_through { hop.started } else { hop.clear };
        hops.push(HopNow {
            oldest: (!backlog.is_none())
                .then_some(clear.or(flow.created))
                .flatten(),
            clear,
            next: due::next(&facts, at),
            arrived: facts.arrived,
            job,
            progress,
            moved,
            backlog,
        });
    }
    Ok(hops)
}

impl HopNow {
    /// Whether the next hop has something to read. If that hop deletes, its first run needs all files: compared with a part,
    /// files at its destination would be extra.
    fn has_given(&self, next: &Hop) -> bool {
        let takes_part = || next.started.is_some() || !deletes(next);
        self.clear.is_some() || (self.moved.files > 0 && takes_part())
    }
}

/// Whether the job of a hop deletes. One that cannot be read does not start.
fn deletes(hop: &Hop) -> bool {
    spec::parse(&hop.template).is_ok_and(|new| access::deletes(&new))
}

/// The latest run. A job whose row history has deleted has ended; its end is not known.
fn latest_of(hop: &Hop, job: Option<&Job>) -> Latest {
    match (hop.started, job) {
        (None, _) => Latest::Never,
        (Some(_), Some(job)) if !job.state.ended() => Latest::Open,
        (Some(started), job) => Latest::Ended {
            started,
            at: job.and_then(|job| job.ended).unwrap_or(started),
            failed: job
                .is_some_and(|job| matches!(job.state, JobState::Failed | JobState::Cancelled)),
        },
    }
}

/// Amount that is known to wait: entries that the running scan found and the run has not moved, and data that arrived since the
/// run began.
/// Until the scan has ended, `left` may exceed its findings: the amount that waited when the run began, without the amount that
/// it moved.
fn backlog(
    hop: &Hop,
    progress: Option<&ProgressView>,
    left: Amount,
    arrived: Option<Amount>,
) -> Amount {
    let since = arrived.map_or_else(Amount::default, |arrived| arrived.minus(hop.seen));
    let found = progress.map_or_else(Amount::default, |progress| Amount {
        files: progress.files_total.saturating_sub(progress.files_settled),
        bytes: progress
            .bytes_total
            .map_or(0, |total| total.saturating_sub(progress.bytes)),
    });
    let is_scanned = progress.is_some_and(|progress| progress.bytes_total.is_some());
    since.plus(if is_scanned { found } else { found.max(left) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(files: u64) -> Amount {
        Amount {
            files,
            bytes: 100 * files,
        }
    }

    #[test]
    fn the_backlog_is_what_the_scan_found_and_what_came_since() {
        let hop = Hop {
            seen: amount(5),
            ..Hop::default()
        };
        let none = amount(0);
        assert_eq!(backlog(&hop, None, none, None), none, "a first hop at rest");
        assert_eq!(backlog(&hop, None, none, Some(amount(8))), amount(3));
        // History may have deleted the runs of the hop before.
        assert_eq!(backlog(&hop, None, none, Some(amount(4))), none);
        // A run that failed has left some behind.
        let failed = backlog(&hop, None, amount(5), Some(amount(8)));
        assert_eq!(failed, amount(8));
        let mut progress = ProgressView {
            bytes: 200,
            files_total: 9,
            files_settled: 2,
            ..ProgressView::default()
        };
        let found = backlog(&hop, Some(&progress), none, None);
        assert_eq!(found, Amount { files: 7, bytes: 0 }, "the scan goes on");
        let known = backlog(&hop, Some(&progress), amount(9), None);
        assert_eq!(known, amount(9), "the scan has not found all of it yet");
        progress.bytes_total = Some(900);
        let all = backlog(&hop, Some(&progress), amount(9), Some(amount(8)));
        assert_eq!(all, amount(10));
    }

    #[test]
    fn a_run_that_history_has_deleted_has_ended() {
        let mut hop = Hop::default();
        assert_eq!(latest_of(&hop, None), Latest::Never);
        hop.started = Some(Timestamp(7));
        let ended = Latest::Ended {
            started: Timestamp(7),
            at: Timestamp(7),
            failed: false,
        };
        assert_eq!(latest_of(&hop, None), ended);
    }
}
