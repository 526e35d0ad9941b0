//! Hears the events of an attempt's transfer, and keeps them: figures, log, samples, failed entries, and the phase of the job.
//! Decides nothing about the end of the attempt.

mod hindered;
mod moved;
mod sampled;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use godwit_api::ask::{JobPast, Peer};
use godwit_api::event::{Channel, Event, EventSink, Progress};
use godwit_api::failure::{Code, FailureCode};
use godwit_api::job::JobKind;
use godwit_api::rest::{ChannelView, ProgressView, SampleView, Timestamp};
use godwit_api::units::human_size;
use godwit_history::{Host, Recorder};
use godwit_run::Control;
use godwit_state::{FailureGroup, Job, JobAmounts, JobOp, JobState, Moved, Reason};

use super::foresight::Foresight;
use super::shared::IsBehind;
use super::space::{Shortage, SpaceWatch};
use super::veil::SiteNames;
use super::{after_crash, record::AttemptTotals, reports::Reports, veil};
use crate::asking::manifest;
use crate::basis::{clock::now, documents, words::clip};
pub(super) use sampled::per_second;

/// Groups of failed entries that are listed; further ones are counted under one.
const GROUPS_MAX: usize = 60;

/// Paths that a group names.
pub(super) const EXAMPLES_MAX: usize = 16;

/// Hears the events of the transfer.
pub(crate) struct AttemptEvents {
    pub(super) reports: Arc<Reports>,
    id: String,
    epoch: u64,
    attempt: u32,
    control: Control,
    progress: Arc<Mutex<Option<ProgressView>>>,
    observed: Mutex<Observed>,
}

/// State from all events so far.
pub(crate) struct Observed {
    recorder: Recorder,
    host: Host,
    foresight: Foresight,
    /// Copies are read back.
    verifies: bool,
    /// The job copies nothing: it checks a copy.
    is_check: bool,
    /// The phase that the state knows.
    phase: JobState,
    /// The state knows that nothing reaches the other end.
    lost: bool,
    space: Option<SpaceWatch>,
    /// The attempt was stopped because it cannot fit.
    short: bool,
    groups: BTreeMap<Code, FailureGroup>,
    failed: u64,
    /// Amounts of this attempt.
    pub(super) moved: Moved,
    /// Amounts of earlier attempts, as the state knows.
    earlier: Moved,
    /// Amounts of earlier attempts that the state does not know.
    unreported: Moved,
    /// The transfer reports sums over all attempts.
    is_sum: bool,
    /// Amounts that earlier runs had moved when this attempt began, by the destination's report.
    held: Moved,
    /// Bytes of all files, by the latest event.
    total: Option<u64>,
    /// Bytes that this attempt has delivered, known at its end.
    delivered: Option<u64>,
    /// Bytes that this attempt has written at the destination, or has read of a copy that it checks.
    written: u64,
    /// Time and bytes of the last sample, from which the next rate is computed.
    sampled: Option<(Timestamp, u64)>,
    pub(super) summary: Option<String>,
    /// Note about late writes after the end.
    pub(crate) late: Option<String>,
    /// The reason of a complete job that went on without some nodes of the destination.
    pub(super) without: Option<Reason>,
    /// Network paths of the latest event, if there are several.
    channels: Vec<Channel>,
    /// Asks whether the job is behind others; None for a job that shares no reads.
    pub(super) is_behind: Option<IsBehind>,
    /// The names of the job's sites in place of addresses.
    pub(super) names: SiteNames,
    /// The node at the other end of the transfer.
    other_end: Option<Peer>,
    /// The samples come from the site that runs the job.
    copies: bool,
}

impl Observed {
    pub(super) fn groups(&self) -> Vec<FailureGroup> {
        self.groups.values().cloned().collect()
    }

    /// Takes failed entries that were grouped elsewhere.
    pub(crate) fn add_groups(&mut self, groups: Vec<FailureGroup>) {
        for group in groups {
            self.failed = self.failed.saturating_add(group.count);
            self.groups.insert(group.reason.code.clone(), group);
        }
    }

    /// Entries that failed with this code.
    pub(super) fn failed_with(&self, code: FailureCode) -> u64 {
        self.groups.get(&code.into()).map_or(0, |group| group.count)
    }

    /// Whether the attempt was stopped because it cannot fit.
    pub(super) fn is_short(&self) -> bool {
        self.short
    }

    /// The present lack of space at a destination of this node.
    pub(super) fn shortage(&self) -> Option<Shortage> {
        self.space.as_ref()?.shortage(self.delivered)
    }

    /// The missing space if space was not watched: the figure of a divided job's close, or the size of all data that has not arrived.
    pub(super) fn lacking(&self) -> Option<String> {
        let group = self.groups.get(&FailureCode::NoSpace.into())?;
        if let Some(text) = group.reason.text.strip_prefix("no room: ") {
            return Some(text.to_owned());
        }
        let bytes = self.total?.saturating_sub(self.delivered?);
        Some(format!("up to {} more are needed", human_size(bytes)))
    }

    /// Sets the kind of the attempt for the events to come.
    pub(super) fn begin(&mut self, verifies: bool, space: Option<SpaceWatch>) {
        self.verifies = verifies;
        self.space = space;
    }

    fn failed(&mut self, code: &Code, message: &str, path: &[u8]) {
        self.failed += 1;
        let full = self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(code);
        let code = match full {
            true => FailureCode::Other.into(),
            false => code.clone(),
        };
        let group = self
            .groups
            .entry(code.clone())
            .or_insert_with(|| FailureGroup {
                reason: Reason::new(code, clip(message)),
                count: 0,
                examples: Vec::new(),
            });
        group.count += 1;
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(clip(&String::from_utf8_lossy(path)));
        }
    }

    /// The phase of a transfer. A copy that is read back is verified once all of it is written.
    fn phase_of(&self, progress: &Progress) -> JobState {
        match progress.bytes_total {
            _ if self.is_check => JobState::Verifying,
            None => self.phase,
            Some(total) if self.verifies && progress.bytes >= total => JobState::Verifying,
            Some(_) => JobState::Running,
        }
    }
}

impl AttemptEvents {
    pub(super) fn new(
        reports: &Arc<Reports>,
        job: &Job,
        epoch: u64,
        control: Control,
        progress: Arc<Mutex<Option<ProgressView>>>,
    ) -> Arc<Self> {
        let attempt = job.attempts + 1;
        Arc::new(Self {
            id: job.id.clone(),
            epoch,
            attempt,
            control,
            progress,
            observed: Mutex::new(Observed {
                recorder: Recorder::open(&reports.this.directory, &job.id, attempt),
                host: Host::begin(),
                foresight: Foresight::begin(job),
                verifies: false,
                is_check: false,
                phase: JobState::Scanning,
                lost: false,
                space: None,
                short: false,
                groups: BTreeMap::new(),
                failed: 0,
                moved: Moved::default(),
                earlier: JobAmounts(&reports.this.reader())
                    .of(&job.id)
                    .unwrap_or_default(),
                unreported: Moved::default(),
                is_sum: false,
                held: Moved::default(),
                total: None,
                delivered: None,
                written: 0,
                sampled: None,
                summary: None,
                late: None,
                without: None,
                channels: Vec::new(),
                is_behind: None,
                names: SiteNames::default(),
                other_end: None,
                copies: false,
            }),
            reports: Arc::clone(reports),
        })
    }

    /// Amounts of the attempt so far.
    pub(super) fn totals(&self) -> AttemptTotals {
        let progress = self.progress.lock();
        let progress = progress.unwrap_or_else(PoisonError::into_inner).clone();
        let observed = self.lock();
        // Of a job that runs elsewhere, only the progress has the number until the end.
        let elsewhere = progress.as_ref().map_or(0, |progress| progress.failed);
        AttemptTotals {
            moved: observed.moved,
            failed: observed.failed.max(elsewhere),
            progress,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job of this kind begins.
    pub(super) fn begins(&self, kind: JobKind) {
        if kind == JobKind::Verify {
            self.lock().is_check = true;
            self.enter(JobState::Verifying);
        }
    }

    /// Tells the state of the phase, if it is news.
    pub(crate) fn enter(&self, phase: JobState) {
        let mut observed = self.lock();
        if observed.phase == phase {
            return;
        }
        observed.phase = phase;
        drop(observed);
        self.report(phase, None);
    }

    /// The attempt waits for this reason before it moves data; None once it does not wait any more.
    pub(super) fn waits(&self, reason: Option<Reason>) {
        let phase = self.lock().phase;
        self.report(phase, reason);
    }

    /// The destination reports the amounts of earlier runs. An attempt that a crash ended may have moved more than its last sample shows.
    fn recover(&self, held: Moved) {
        let mut observed = self.lock();
        if held == observed.held || observed.held != Moved::default() {
            return;
        }
        observed.held = held;
        let Some(before) = observed.recorder.before() else {
            return;
        };
        // An older version did not report the amounts of an attempt.
        if before.moved == Moved::default() {
            return;
        }
        let due = held.minus(before.held);
        let attempt = before.attempt;
        // The state may answer late.
        drop(observed);
        if let Some(earlier) = after_crash::amend(&self.reports, &self.id, attempt, due) {
            self.lock().earlier = earlier;
        }
    }

    fn report(&self, state: JobState, reason: Option<Reason>) {
        let report = JobOp::Report {
            epoch: self.epoch,
            state,
            reason,
        };
        // A report that the state does not take may be lost: the next report has the end of the attempt.
        let _ = self.reports.this.propose_for(&self.id, report);
    }

    fn progress(&self, progress: &Progress) {
        self.recover(progress.held);
        // Asked outside of the lock.
        let asks = self.lock().is_behind.clone();
        let behind = asks.is_some_and(|is_behind| is_behind());
        let mut observed = self.lock();
        observed.progressed(progress);
        let at = now();
        let bottleneck = progress.bottleneck.as_ref();
        let mut view = ProgressView {
            at,
            bytes: progress.bytes,
            bytes_total: progress.bytes_total,
            bytes_per_second: progress.bytes_per_second,
            files: progress.files,
            files_total: progress.files_total,
            files_settled: progress.files_settled,
            scanning: progress.scanning,
            behind,
            streams: progress.streams,
            bottleneck: bottleneck.map(|limited| limited.stage),
            bottleneck_text: bottleneck.map(documents::limited),
            failed: observed.failed,
            stages: progress.stages.clone(),
            channels: ChannelView::of(progress, &observed.channels),
            moved: observed.moved,
            ..ProgressView::default()
        };
        self.foresee(&mut observed, &mut view);
        self.sampled(&mut observed, &mut view);
        observed.total = progress.bytes_total;
        let short = observed
            .space
            .as_mut()
            .is_some_and(|space| space.is_short(progress, Instant::now()));
        observed.short |= short;
        let phase = observed.phase_of(progress);
        drop(observed);
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
        if short {
            self.control.cancel();
        }
        self.enter(phase);
    }

    /// Takes the progress of another site, or of all nodes of a divided job, and the amounts of all attempts. `rate` returns the rate
    /// since its last call; None where only the amounts are known.
    pub(crate) fn seen(
        &self,
        mut view: ProgressView,
        moved: Moved,
        rate: &dyn Fn() -> Option<f64>,
    ) {
        self.read_earlier();
        let mut observed = self.lock();
        observed.sums_up();
        observed.seen(moved);
        view.moved = observed.moved;
        self.foresee(&mut observed, &mut view);
        // A site that sends its samples knows its host, too; this node has no part in the transfer.
        if !observed.copies && observed.recorder.is_due() {
            let done = observed.rate(view.at, view.bytes);
            let sample = self.sample(&mut observed, &view, rate().unwrap_or(done));
            // The node that controls a divided job also moves a part of it.
            let host = match view.nodes.is_empty() {
                true => BTreeMap::new(),
                false => sample.host.clone(),
            };
            observed.recorder.sample(SampleView { host, ..sample });
        }
        drop(observed);
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    /// The next line of the log and the next sample to ask another site for.
    pub(crate) fn copied(&self, site: &str, job: &str) -> (u64, Timestamp) {
        let recorder = &self.lock().recorder;
        (
            recorder.copied_line(site, job),
            recorder.copied_sample(site),
        )
    }

    /// Copies log lines and samples of another site. Returns whether any of them was new.
    pub(crate) fn copy(&self, site: &str, job: &str, past: JobPast) -> bool {
        let before = self.copied(site, job);
        let mut observed = self.lock();
        observed.copies = true;
        for line in past.lines {
            observed.recorder.copy_line(site, job, line);
        }
        for sample in past.samples {
            observed.recorder.copy_sample(site, sample);
        }
        drop(observed);
        self.copied(site, job) != before
    }

    /// Takes the sum of the amounts of all attempts; returns the amounts of this attempt.
    pub(crate) fn ends(&self, sum: Moved) -> Moved {
        self.read_earlier();
        let mut observed = self.lock();
        observed.sums_up();
        observed.seen(sum);
        observed.moved
    }

    /// Reads the amounts of earlier attempts. If a user paused and resumed the job, the attempt before this one may report them late.
    fn read_earlier(&self) {
        let Ok(attempts) = self.reports.this.reader().attempts(&self.id) else {
            return;
        };
        let earlier = attempts.iter().filter(|one| one.number < self.attempt);
        let sum = earlier.fold(Moved::default(), |sum, one| sum.plus(one.moved));
        self.lock().earlier = sum;
    }

    /// Amounts of this attempt so far.
    pub(crate) fn moved(&self) -> Moved {
        self.lock().moved
    }

    fn foresee(&self, observed: &mut Observed, view: &mut ProgressView) {
        let limits = self.reports.live.limits(&self.id);
        let reader = self.reports.this.reader();
        view.forecast = observed.foresight.foresee(&reader, view, &limits);
    }
}

impl EventSink for AttemptEvents {
    fn emit(&self, mut event: Event) {
        if let Event::Summary(summary) = &mut event {
            manifest::hide_path(summary);
        }
        veil::hide_home(&self.reports.this.directory, &mut event);
        self.lock().names.name(&mut event);
        match &event {
            Event::Progress(progress) => return self.progress(progress),
            Event::Channels(list) => self.lock().channels.clone_from(&list.channels),
            Event::ConnectionLost(lost) => self.connection_lost(lost),
            Event::ConnectionRegained(regained) if regained.channel.is_none() => {
                self.connection_regained();
            }
            Event::Failed(failed) => {
                let code = failed.code.clone();
                let code = code.unwrap_or_else(|| FailureCode::Other.into());
                self.lock().failed(&code, &failed.message, &failed.path);
            }
            Event::Different(different) => {
                self.lock()
                    .failed(&different.kind, &different.message, &different.path);
            }
            Event::Extra { path } => {
                self.lock().failed(
                    &FailureCode::Extra.into(),
                    "The entry is not in the manifest.",
                    path,
                );
            }
            Event::Summary(summary) => {
                self.read_earlier();
                let mut observed = self.lock();
                observed.ended(summary);
                let unreported = std::mem::take(&mut observed.unreported);
                // The state may answer late.
                drop(observed);
                after_crash::credit(&self.reports, &self.id, self.attempt, unreported);
            }
            _ => {}
        }
        if let Ok(value) = serde_json::to_value(&event) {
            self.lock().recorder.log(value);
        }
    }
}
