//! Makes the summary of a divided job, from the counts of the state and the time of its attempt.
//! Reports no end: `ending` does.

use std::time::{Duration, Instant};

use godwit_api::event::{Blame, Event, EventSink as _, Status, Summary, TransferSummary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_controller::{Base, notes, summed};
use godwit_state::{FailureGroup, Job, Reason, Work, Works};

use super::Context;
use super::flights::Flights;
use crate::attempt::AttemptEvents;

/// Reports the end of all work to the events of the attempt. The attempt began at this time.
pub(super) fn ended(
    work: &Work,
    base: &Base,
    (began, flights): (Instant, &Flights),
    events: &AttemptEvents,
) -> Summary {
    let counts = &work.counts;
    events.note(&format!(
        "divided: {} scans, {} parts and {} assembled files in {} batches; {} parts, {} files and {} scans were done at the end, in {} closes",
        counts.scans,
        counts.parts,
        counts.assembled,
        counts.leases,
        counts.parts_left,
        counts.files_left,
        counts.scans_failed,
        counts.closes.max(work.closed.len() as u64)
    ));
    notes(work).iter().for_each(|note| events.note(note));
    let (mut summary, groups) = whole(work, base, began.elapsed());
    summary.bottleneck = flights.limited();
    let mut observed = events.lock();
    observed.add_groups(groups);
    observed.sums_up();
    drop(observed);
    let summary = Summary::Transfer(Box::new(summary));
    events.emit(Event::Summary(summary.clone()));
    summary
}

/// Reports why an attempt cannot continue. Its summary has the amounts that the state has counted.
pub(super) fn failed(
    (context, job): (&Context, &Job),
    failure: &Failure,
    (began, flights): (Instant, &Flights),
    events: &AttemptEvents,
) {
    events.error(failure);
    let work = Works(&context.this.reader()).of(&job.id).ok().flatten();
    // Without work no transfer has begun.
    let Some(work) = work else {
        return;
    };
    let mut summary = unfinished(&work, failure.code, began.elapsed());
    summary.bottleneck = flights.limited();
    events.lock().sums_up();
    events.emit(Event::Summary(Summary::Transfer(Box::new(summary))));
}

/// The summary of an attempt that failed.
fn unfinished(work: &Work, code: FailureCode, took: Duration) -> TransferSummary {
    let (summary, _) = summed(work);
    TransferSummary {
        status: match code.is_interruption() {
            true => Status::Interrupted,
            false => Status::Failed,
        },
        blame: Blame::from(code),
        seconds: in_seconds(took),
        ..summary
    }
}

/// Seconds in whole milliseconds, as in the summary of one transfer.
fn in_seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1_000.0).round() / 1_000.0
}

/// The summary of all nodes and the failures. The seconds are those of the attempt: a close is only its last part.
fn whole(work: &Work, base: &Base, took: Duration) -> (TransferSummary, Vec<FailureGroup>) {
    let (mut summary, mut groups) = summed(work);
    summary.seconds = in_seconds(took);
    if let Some(group) = undeleted(work.counts.scans_failed, base) {
        groups.push(group);
        summary.status = Status::Partial;
        summary.failed += work.counts.scans_failed;
    }
    // The last close may be complete beside one that is not.
    if summary.status == Status::Partial {
        summary.blame = Blame::from(FailureCode::Partial);
    }
    (summary, groups)
}

/// The failure of a job that was to delete, and did not.
pub(super) fn undeleted(scans_failed: u64, base: &Base) -> Option<FailureGroup> {
    let text = "nothing more was deleted, because a directory of the source could not be read";
    (scans_failed > 0 && base.deletes).then(|| FailureGroup {
        reason: Reason::new(FailureCode::NotDeleted, text),
        count: scans_failed,
        examples: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use godwit_api::job::JobKind;
    use godwit_state::{Closed, WorkCounts, WorkTargets};

    use super::*;

    #[test]
    fn the_summary_has_the_time_of_the_attempt_and_the_failure_of_any_close() {
        let closed = |status, seconds| Closed {
            root: 0,
            files: 0,
            bytes: 0,
            summary: serde_json::to_string(&Summary::Transfer(Box::new(TransferSummary {
                status,
                bytes: Some(3),
                seconds,
                ..TransferSummary::default()
            })))
            .expect("text"),
            failures: Vec::new(),
        };
        let work = Work {
            job: "j".to_owned(),
            epoch: 1,
            claim: String::new(),
            roots: Vec::new(),
            pairs: Vec::new(),
            targets: WorkTargets::default(),
            trouble: None,
            closed: vec![closed(Status::Partial, 0.25), closed(Status::Complete, 0.5)],
            open: 0,
            closes: 0,
            counts: WorkCounts::default(),
        };
        let base = Base {
            deletes: false,
            kind: JobKind::Copy,
            settings: BTreeMap::new(),
            selection: None,
            manifest: None,
            retry_for: Duration::ZERO,
        };
        let took = Duration::from_micros(12_345_600);
        let (summary, groups) = whole(&work, &base, took);
        assert_eq!((summary.seconds, summary.bytes), (12.346, Some(6)));
        assert_eq!(groups.len(), 0);
        assert_eq!(summary.status, Status::Partial);
        assert_eq!(summary.blame, Blame::from(FailureCode::Partial));
        let code = FailureCode::NoSource;
        let summary = unfinished(&work, code, took);
        assert_eq!((summary.seconds, summary.bytes), (12.346, Some(6)));
        assert_eq!(summary.status, Status::Failed);
        assert_eq!(summary.blame, Blame::from(code));
    }
}
