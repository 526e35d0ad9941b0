//! Repeats the events of a godwit process on another machine as our own. Trusts none of their contents:
//! names are bytes, numbers are numbers, and lines that are not events are skipped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use godwit_api::event::{
    Blame, ErrorEvent, Event, EventSink, Failed, Progress, Stats, Summary, TransferSummary,
};
use godwit_engine::{EndCounters, Snapshot};
use godwit_proto::CHANNELS_MAX;
use godwit_store::digest::DigestKind;

use super::connection::{Following, SILENT_AFTER};
use super::elapsed_seconds;
use crate::env::UNREACHABLE;
use crate::reports::{ReportRoots, Reports};
use godwit_api::failure::{Failure, FailureCode};

/// State that is kept across attempts.
pub(super) struct AcrossAttempts {
    connection: Following,
    progress: Option<Progress>,
    retry_for: Duration,
}

impl AcrossAttempts {
    pub(super) fn new(retry_for: Duration) -> Self {
        Self {
            connection: Following::default(),
            progress: None,
            retry_for,
        }
    }

    /// Records that the reporting machine has been lost since `since`.
    pub(super) fn note_loss(
        &mut self,
        events: &dyn EventSink,
        since: Instant,
        began: Instant,
        why: &str,
    ) {
        let event = self
            .connection
            .note_loss(Instant::now(), since, self.retry_for, false, why);
        report_lost(events, event, self.progress.as_ref(), began);
    }
}

/// Reports a loss, and progress without its outdated figures.
fn report_lost(
    events: &dyn EventSink,
    event: Option<Event>,
    progress: Option<&Progress>,
    began: Instant,
) {
    let Some(mut event) = event else { return };
    let seconds = elapsed_seconds(began);
    if let Event::ConnectionLost(lost) = &mut event {
        lost.seconds = seconds;
    }
    events.emit(event);
    if let Some(progress) = progress {
        events.emit(Event::Progress(Progress {
            bytes_per_second: None,
            files_per_second: None,
            bottleneck: None,
            stages: BTreeMap::new(),
            streams: 0,
            seconds,
            ..progress.clone()
        }));
    }
}

/// The events repeated so far.
pub(super) struct Retold<'a> {
    events: &'a dyn EventSink,
    /// The time zero of the seconds in our events.
    began: Instant,
    reports: &'a Reports,
    /// The digest of the files that this side requested.
    digest: DigestKind,
    /// Prefix of the paths of the other machine.
    prefix: String,
    /// The connection to that machine, over all attempts.
    connection: &'a mut Following,
    /// The last reported progress.
    progress: &'a mut Option<Progress>,
    retry_for: Duration,
    moved: bool,
    unreachable: bool,
    /// When a connection between the two machines was last seen.
    joined: Option<Instant>,
    ended: bool,
    end_counters: EndCounters,
    summary: Option<TransferSummary>,
    /// The last error of the other machine.
    error: ErrorEvent,
    failure: Option<Failure>,
}

impl<'a> Retold<'a> {
    pub(super) fn new(
        machine: &str,
        events: &'a dyn EventSink,
        began: Instant,
        reports: &'a Reports,
        digest: DigestKind,
        across: &'a mut AcrossAttempts,
    ) -> Self {
        Self {
            events,
            began,
            reports,
            digest,
            prefix: format!("{machine}:"),
            connection: &mut across.connection,
            progress: &mut across.progress,
            retry_for: across.retry_for,
            moved: false,
            unreachable: false,
            joined: None,
            ended: false,
            end_counters: EndCounters::default(),
            summary: None,
            error: ErrorEvent::default(),
            failure: None,
        }
    }

    /// Whether bytes have arrived.
    pub(super) fn moved(&self) -> bool {
        self.moved
    }

    /// Whether the two machines could not reach each other.
    pub(super) fn unreachable(&self) -> bool {
        self.unreachable
    }

    /// How long a running transfer has been without a connection between the two machines.
    pub(super) fn apart_for(&self) -> Duration {
        match self.joined {
            Some(since) if !self.ended && self.summary.is_none() => since.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Records a time without an event. A running transfer sends several a second.
    pub(super) fn quiet(&mut self, time: Duration) {
        let runs = self.joined.is_some() && !self.ended && self.summary.is_none();
        if !runs || time < SILENT_AFTER {
            return;
        }
        let now = Instant::now();
        let since = now.checked_sub(time).unwrap_or(now);
        let why = format!("{} does not answer", self.prefix.trim_end_matches(':'));
        let event = self
            .connection
            .note_loss(now, since, self.retry_for, true, &why);
        report_lost(self.events, event, self.progress.as_ref(), self.began);
    }

    /// Records that the reporting machine answers; reports that if the machine was lost before.
    fn note_answer(&mut self) {
        let regained = self.connection.regain(Instant::now());
        if let Some(Event::ConnectionRegained(mut regained)) = regained {
            regained.seconds = elapsed_seconds(self.began);
            self.events.emit(Event::ConnectionRegained(regained));
        }
    }

    /// The error of the other machine, if it has failed.
    pub(super) fn error(&mut self) -> ErrorEvent {
        std::mem::take(&mut self.error)
    }

    /// The failure of this side to record an event, if there was one.
    pub(super) fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The summary, if it has arrived, and the counters of both ends.
    pub(super) fn summary(self) -> Option<(TransferSummary, EndCounters)> {
        let end_counters = self.end_counters;
        self.summary.map(|summary| (summary, end_counters))
    }

    /// Processes one line; skips lines that are not events of ours.
    pub(super) fn take(&mut self, line: &[u8]) {
        let Some(mut event) = Event::from_line(line) else {
            return;
        };
        let seconds = elapsed_seconds(self.began);
        match &mut event {
            Event::Started(started) => {
                self.begins();
                for source in &mut started.sources {
                    *source = self.prefixed(source);
                }
            }
            Event::Progress(progress) => {
                self.moved |= progress.bytes > 0;
                if progress.streams > 0 {
                    self.joined = Some(Instant::now());
                }
                progress.seconds = seconds;
                self.note_answer();
                *self.progress = Some(progress.clone());
                progress.at_end = progress.bytes_total == Some(progress.bytes);
            }
            Event::Failed(Failed { path, .. }) => *path = self.prefixed(path),
            Event::Tuning(tuning) => tuning.seconds = seconds,
            Event::Channels(channels) => {
                channels.channels.truncate(CHANNELS_MAX as usize);
                channels.seconds = seconds;
            }
            Event::ConnectionLost(lost) => lost.seconds = seconds,
            Event::ConnectionRegained(regained) => regained.seconds = seconds,
            Event::Error(error) => {
                // An older version sends no code.
                let code = error.blame.known();
                error.blame = code.map(Blame::from).unwrap_or_default();
                self.unreachable |= match code {
                    Some(code) => code == FailureCode::Unreachable,
                    None => error.message.starts_with(UNREACHABLE),
                };
                error.message = format!("{} {}", self.prefix, error.message);
                self.error.clone_from(error);
            }
            Event::Item(_)
            | Event::Note { .. }
            | Event::Paused {}
            | Event::WorkDone(_)
            | Event::WorkFailed(_) => {}
            Event::Fault(fault) => return self.reports.add_fault(fault),
            Event::Entry { line } => return self.reports.add_line(line),
            Event::Ended {} => {
                self.ended = true;
                return;
            }
            Event::Stats(stats) => {
                self.end_counters = end_counters_of(stats);
                return;
            }
            Event::Summary(Summary::Transfer(summary)) => {
                summary.began = true;
                summary.manifest = None;
                self.summary = Some((**summary).clone());
                return;
            }
            Event::Different(_)
            | Event::Extra { .. }
            | Event::Summary(Summary::Verify(_))
            | Event::Unknown => return,
        }
        self.events.emit(event);
    }

    /// A name on the other machine, in messages on this one.
    fn prefixed(&self, name: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), name].concat()
    }

    /// Called when the transfer begins or restarts. Earlier records are dropped.
    fn begins(&mut self) {
        self.joined = Some(Instant::now());
        self.ended = false;
        if let Err(failure) = self.reports.begin(ReportRoots::default(), self.digest) {
            self.failure.get_or_insert(failure);
        }
    }
}

/// The counters of both ends; missing ones are zero.
fn end_counters_of(stats: &Stats) -> EndCounters {
    let side = |counters: &Option<BTreeMap<String, u64>>| {
        let counters = counters.as_ref()?;
        let find = |name: &str| counters.get(name).copied().unwrap_or_default();
        Some(Snapshot::of_fields(find))
    };
    EndCounters {
        source: side(&stats.source),
        destination: side(&stats.destination),
    }
}
