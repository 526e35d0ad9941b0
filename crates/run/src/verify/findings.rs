//! The events of a verification: progress, each different entry, and a summary. Does not judge. May be called from any
//! thread.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_api::event::{
    Blame, Different, Event, EventSink, Progress, Summary, Verdict, VerifySummary,
};
use godwit_api::failure::{Code, FailureCode};
use godwit_engine::Counters;
use godwit_mhl::Difference;
use godwit_proto::{EntryKind, Fault, FaultCode, Record};

use crate::reports::{code, locked};
use crate::seal;
use crate::transfer::elapsed_seconds;

/// Interval between two reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Reports results and sums them up.
pub(super) struct Findings {
    events: Arc<dyn EventSink>,
    started: Instant,
    whole: Whole,
    /// Counters of the threads that read a copy here.
    counters: Arc<Counters>,
    totals: Mutex<Totals>,
    last: Mutex<LastReport>,
}

/// The amount of data to check.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// Contents of all files.
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// The last reported progress.
struct LastReport {
    at: Instant,
    done: u64,
}

/// The findings so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    /// Entries checked.
    pub(super) entries: u64,
    /// Number of files among the checked entries.
    pub(super) files: u64,
    /// Sizes of these files, from the manifest.
    pub(super) done: u64,
    /// Bytes of the files among the checked entries.
    pub(super) bytes: u64,
    /// Entries that differ from the manifest.
    pub(super) different: u64,
    /// Entries that were not expected.
    pub(super) extra: u64,
}

impl Findings {
    pub(super) fn new(events: Arc<dyn EventSink>, started: Instant, whole: Whole) -> Self {
        Self {
            events,
            started,
            whole,
            counters: Arc::default(),
            totals: Mutex::default(),
            last: Mutex::new(LastReport {
                at: started,
                done: 0,
            }),
        }
    }

    /// The counters for the readers of a copy here.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Reports progress at `now`, unless the last report is too recent.
    pub(super) fn progress(&self, now: Instant) {
        let mut last = locked(&self.last);
        let passed = now.saturating_duration_since(last.at);
        if passed < PROGRESS_EVERY {
            return;
        }
        let totals = self.totals();
        // Parts of a large file are read before the file counts as checked. A copy may also be longer than the manifest's
        // entry.
        let done = totals.done.max(self.counters.bytes_read.get());
        let done = done.min(self.whole.bytes);
        let moved = done.saturating_sub(last.done);
        *last = LastReport { at: now, done };
        drop(last);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate needs no more than 53 bits"
        )]
        let rate = (moved > 0).then(|| moved as f64 / passed.as_secs_f64());
        self.events.emit(Event::Progress(Progress {
            bytes: done,
            bytes_total: Some(self.whole.bytes),
            bytes_per_second: rate,
            files: totals.files,
            files_total: self.whole.files,
            files_settled: totals.files,
            seconds: elapsed_seconds(self.started),
            ..Progress::default()
        }));
    }

    /// Records a checked entry; `None` means that it matches.
    pub(super) fn checked(&self, record: &Record, fault: Option<&Fault>) {
        let mut totals = locked(&self.totals);
        totals.entries += 1;
        if record.kind == EntryKind::FILE {
            totals.files += 1;
            totals.done = totals.done.saturating_add(record.bytes);
        }
        if record.kind == EntryKind::FILE && fault.is_none_or(|fault| was_read(fault.code)) {
            totals.bytes = totals.bytes.saturating_add(record.bytes);
        }
        let Some(fault) = fault else { return };
        totals.different += 1;
        drop(totals);
        self.events.emit(Event::Different(Different {
            path: shown(&record.path),
            kind: kind(fault.code),
            message: fault.message.clone(),
        }));
    }

    /// Records the files of a history, of which `bytes` were read.
    pub(super) fn files(&self, files: u64, bytes: u64) {
        let mut totals = locked(&self.totals);
        totals.entries += files;
        totals.files += files;
        totals.done = self.whole.bytes;
        totals.bytes += bytes;
    }

    /// Records a difference from a history.
    pub(super) fn differs(&self, path: String, difference: &Difference) {
        let mut totals = locked(&self.totals);
        match difference {
            Difference::Extra => totals.extra += 1,
            _ => totals.different += 1,
        }
        drop(totals);
        seal::report_difference(&*self.events, path, difference);
    }

    /// Records an entry that is missing in the manifest.
    pub(super) fn extra(&self, path: &[u8]) {
        locked(&self.totals).extra += 1;
        self.events.emit(Event::Extra { path: shown(path) });
    }

    pub(super) fn totals(&self) -> Totals {
        *locked(&self.totals)
    }

    /// Makes the summary and reports it.
    pub(super) fn summary(&self, status: Verdict) -> VerifySummary {
        let totals = self.totals();
        let code = match status {
            Verdict::Same => None,
            Verdict::Different => Some(FailureCode::Different),
            Verdict::Interrupted => Some(FailureCode::Cancelled),
        };
        let summary = VerifySummary {
            status,
            blame: code.map(Blame::from).unwrap_or_default(),
            entries: totals.entries,
            files: totals.files,
            bytes: totals.bytes,
            different: totals.different,
            extra: totals.extra,
            seconds: elapsed_seconds(self.started),
        };
        let event = Event::Summary(Summary::Verify(summary.clone()));
        self.events.emit(event);
        summary
    }
}

/// The path for messages: the root, whose path is empty, shows as a dot.
fn shown(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        b".".to_vec()
    } else {
        path.to_vec()
    }
}

/// Whether contents were read for this result. Unread bytes must not count in the rate.
fn was_read(fault: FaultCode) -> bool {
    matches!(fault, FaultCode::DIGEST | FaultCode::METADATA)
}

/// The word for a difference.
fn kind(fault: FaultCode) -> Code {
    match fault {
        FaultCode::NOT_FOUND => FailureCode::Missing.into(),
        FaultCode::DIGEST => FailureCode::Content.into(),
        FaultCode::SIZE | FaultCode::METADATA | FaultCode::TYPE_CONFLICT | FaultCode::CHANGED => {
            code(fault)
        }
        _ => FailureCode::Unread.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Recorded(Mutex<Vec<Event>>);

    impl EventSink for Recorded {
        fn emit(&self, event: Event) {
            locked(&self.0).push(event);
        }
    }

    #[test]
    fn progress_counts_what_was_checked_and_what_is_being_read() {
        let recorded = Arc::new(Recorded(Mutex::default()));
        let start = Instant::now();
        let (bytes, files) = (1_000, 2);
        let findings = Findings::new(Arc::clone(&recorded) as _, start, Whole { bytes, files });
        let after = |millis| start + Duration::from_millis(millis);
        let last = || match locked(&recorded.0).last() {
            Some(Event::Progress(reported)) => {
                (reported.bytes, reported.files, reported.bytes_per_second)
            }
            other => panic!("{other:?}"),
        };
        findings.progress(after(100));
        assert!(locked(&recorded.0).is_empty(), "too soon");
        findings.counters().bytes_read.add(300);
        findings.progress(after(1_000));
        assert_eq!(last(), (300, 0, Some(300.0)));
        let record = Record {
            kind: EntryKind::FILE,
            bytes: 800,
            ..Record::default()
        };
        findings.checked(&record, None);
        findings.progress(after(2_000));
        assert_eq!(last(), (800, 1, Some(500.0)));
        findings.progress(after(3_000));
        assert_eq!(last(), (800, 1, None));
        // A copy that is longer than the manifest's entry.
        findings.counters().bytes_read.add(5_000);
        findings.progress(after(4_000));
        assert_eq!(last().0, 1_000);
    }
}
