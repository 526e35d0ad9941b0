//! What a verification says: each entry that differs, and a summary.
//! Judges nothing. May be called from any thread.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_api::event::{Blame, Different, Event, EventSink, Summary, Verdict, VerifySummary};
use godwit_api::failure::FailureCode;
use godwit_proto::{EntryKind, Fault, FaultCode, Record};

use crate::reports::{code, locked};
use crate::transfer::elapsed_seconds;

/// Sums up while it tells.
pub(super) struct Findings {
    events: Arc<dyn EventSink>,
    started: Instant,
    totals: Mutex<Totals>,
}

/// What was found so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    /// Entries checked.
    pub(super) entries: u64,
    /// Contents of the files among them.
    pub(super) bytes: u64,
    /// Those that are not what they should be.
    pub(super) different: u64,
    /// Entries that nobody expected.
    pub(super) extra: u64,
}

impl Findings {
    pub(super) fn new(events: Arc<dyn EventSink>, started: Instant) -> Self {
        Self {
            events,
            started,
            totals: Mutex::default(),
        }
    }

    /// An entry was checked; `None` if it is what it should be.
    pub(super) fn checked(&self, record: &Record, fault: Option<&Fault>) {
        let mut totals = locked(&self.totals);
        totals.entries += 1;
        if record.kind == EntryKind::FILE && fault.is_none_or(|fault| was_read(fault.code)) {
            totals.bytes = totals.bytes.saturating_add(record.bytes);
        }
        let Some(fault) = fault else { return };
        totals.different += 1;
        drop(totals);
        self.events.tell(Event::Different(Different {
            path: shown(&record.path),
            kind: kind(fault.code).to_owned(),
            message: fault.message.clone(),
        }));
    }

    /// An entry is there that is not in the manifest.
    pub(super) fn extra(&self, path: &[u8]) {
        locked(&self.totals).extra += 1;
        self.events.tell(Event::Extra { path: shown(path) });
    }

    pub(super) fn totals(&self) -> Totals {
        *locked(&self.totals)
    }

    /// Tells the last word, and gives it.
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
            bytes: totals.bytes,
            different: totals.different,
            extra: totals.extra,
            seconds: elapsed_seconds(self.started),
        };
        let event = Event::Summary(Summary::Verify(summary.clone()));
        self.events.tell(event);
        summary
    }
}

/// The root has no name of its own.
fn shown(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        b".".to_vec()
    } else {
        path.to_vec()
    }
}

/// Whether contents had to be read to find it: what was not read must not pass for speed.
fn was_read(fault: FaultCode) -> bool {
    matches!(fault, FaultCode::DIGEST | FaultCode::METADATA)
}

/// The word for a difference.
fn kind(fault: FaultCode) -> &'static str {
    match fault {
        FaultCode::NOT_FOUND => "missing",
        FaultCode::DIGEST => "content",
        FaultCode::SIZE | FaultCode::METADATA | FaultCode::TYPE_CONFLICT | FaultCode::CHANGED => {
            code(fault)
        }
        _ => "unread",
    }
}
