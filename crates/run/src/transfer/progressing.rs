//! Reports the progress of a running transfer.
//! Measures nothing itself.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use godwit_api::event::{Event, Progress};
use godwit_api::rest::Moved;
use godwit_engine::session::{Client, ClientReport, Engine, Refusal, Watch, run};
use godwit_engine::{Chosen, Counters, End, Snapshot};
use godwit_proto::{Open, Opened, TransferId};
use godwit_tree::Arrived;

use super::channels::{ChannelReports, shown};
use super::connection::{Following, Look};
use super::limited::{chosen, chosen_here, limited, limited_here};
use super::rate::RecentRate;
use super::stages::stages;
use super::window::Window;
use super::{Job, elapsed_seconds};

/// The counters of this side, summed over all engines of one command, and the amounts of earlier
/// runs.
#[derive(Clone, Default)]
pub(super) struct Totals(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    engines: Vec<Arc<Counters>>,
    lost_bytes: u64,
    /// Amounts of earlier runs, which the first engine reports.
    held: Option<Moved>,
}

impl Totals {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, counters: &Arc<Counters>, arrived: Arrived) {
        let mut inner = self.lock();
        inner.engines.push(Arc::clone(counters));
        inner.lost_bytes = inner.lost_bytes.saturating_add(arrived.lost_bytes);
        let held = Moved {
            bytes: arrived.held_bytes,
            files: arrived.held_files,
            bytes_again: 0,
        };
        inner.held.get_or_insert(held);
    }

    /// Amounts that earlier runs had delivered.
    pub(super) fn held(&self) -> Moved {
        self.lock().held.unwrap_or_default()
    }

    pub(super) fn sum(&self, field: impl Fn(&Snapshot) -> u64) -> u64 {
        let inner = self.lock();
        inner
            .engines
            .iter()
            .map(|counters| field(&counters.snapshot()))
            .sum()
    }

    /// The sum over all engines except the last, that is, the work before the last restart.
    pub(super) fn earlier(&self, field: impl Fn(&Snapshot) -> u64) -> u64 {
        let inner = self.lock();
        let engines = inner.engines.split_last();
        let earlier = engines.map_or(&[][..], |(_, earlier)| earlier);
        earlier
            .iter()
            .map(|counters| field(&counters.snapshot()))
            .sum()
    }

    pub(super) fn lost_bytes(&self) -> u64 {
        self.lock().lost_bytes
    }

    pub(super) fn last(&self) -> Option<Snapshot> {
        let inner = self.lock();
        inner.engines.last().map(|counters| counters.snapshot())
    }
}

/// Shows the progress of a transfer.
pub(super) struct Progressing<'a> {
    job: &'a Job<'a>,
    totals: Totals,
    window: Window,
    rate: RecentRate,
    files_rate: RecentRate,
    channels: ChannelReports,
    local: bool,
    /// Bytes shown last, which resent bytes never decrease.
    shown: u64,
    connection: Following,
    /// Bytes of a block, as agreed by both ends.
    block_bytes: u64,
    /// Settings that advice depends on.
    chosen: Option<Chosen>,
    /// The last report; repeated without a rate if there is no engine.
    last: Option<Progress>,
}

impl<'a> Progressing<'a> {
    /// Progress of a transfer with both ends here.
    pub(super) fn local(job: &'a Job<'a>, counters: Arc<Counters>, arrived: Arrived) -> Self {
        let totals = Totals::default();
        totals.add(&counters, arrived);
        Self {
            local: true,
            ..Self::with(job, totals)
        }
    }

    pub(super) fn with(job: &'a Job<'a>, totals: Totals) -> Self {
        Self {
            job,
            totals,
            window: Window::default(),
            rate: RecentRate::new(),
            files_rate: RecentRate::new(),
            channels: ChannelReports::default(),
            local: false,
            shown: 0,
            connection: Following::default(),
            block_bytes: 0,
            chosen: None,
            last: None,
        }
    }

    pub(super) fn show(&mut self, engine: Option<&Engine>) {
        self.report(engine, false);
    }

    /// Shows the final progress, if the transfer reached its end.
    pub(super) fn show_end(&mut self, engine: Option<&Engine>, end: &End) {
        if matches!(end, End::Finished(_)) {
            let regained = self.connection.regain(Instant::now());
            self.report_connection(regained);
            self.report(engine, true);
        }
    }

    /// Reports losses and progress.
    fn watch(&mut self, watch: &Watch<'_>) {
        let look = watch.engine.map(|engine| self.look(engine));
        let retry_for = self.job.settings.retry_for;
        let event = self
            .connection
            .follow(Instant::now(), watch.outage, look, retry_for);
        self.report_connection(event);
        if watch.engine.is_some() {
            self.show(watch.engine);
        } else if self.connection.is_lost()
            && let Some(last) = &mut self.last
        {
            last.streams = 0;
            last.seconds = elapsed_seconds(self.job.env.started);
            self.job.run.events.emit(Event::Progress(last.clone()));
        }
    }

    fn look(&self, engine: &Engine) -> Look {
        let streams = engine.stream_count() as u64;
        let channels = engine.counters().channels();
        Look {
            peer_elapsed_ns: engine.peer_counters().map_or(0, |peer| peer.elapsed_ns),
            bytes: channels.iter().map(|channel| channel.bytes).sum(),
            unfinished_bytes: streams.saturating_mul(self.block_bytes),
        }
    }

    fn report_connection(&mut self, event: Option<Event>) {
        let Some(mut event) = event else { return };
        let now = elapsed_seconds(self.job.env.started);
        match &mut event {
            Event::ConnectionLost(lost) => lost.seconds = now,
            Event::ConnectionRegained(regained) => {
                regained.seconds = now;
                // The rate before the loss does not predict the rate afterwards.
                self.rate = RecentRate::new();
                self.files_rate = RecentRate::new();
                self.window = Window::default();
            }
            _ => {}
        }
        self.job.run.events.emit(event);
    }

    /// Runs a transfer with another machine to its end, and reports its progress.
    pub(super) fn run(
        &mut self,
        client: &Client,
        open: &Open,
        begin: &mut dyn FnMut(&Opened, TransferId) -> Result<Engine, Refusal>,
    ) -> ClientReport {
        let job = self.job;
        let block_bytes = Cell::new(0);
        let mut begin = |opened: &Opened, transfer: TransferId| {
            block_bytes.set(opened.block_bytes);
            begin(opened, transfer)
        };
        let report = run(client, open, &mut begin, &mut |watch| {
            self.block_bytes = block_bytes.get().into();
            self.watch(&watch);
            job.run.goes_on()
        });
        if let Ok(end) = &report.end {
            self.show_end(report.engine.as_ref(), end);
        }
        report
    }

    /// Amounts of this run so far.
    fn moved(&self, engine: &Engine) -> Moved {
        let resent = match engine {
            Engine::Sender(_) => self.totals.sum(|counters| counters.bytes_resent),
            Engine::Receiver(receiver) => {
                let peer = receiver.peer_counters();
                peer.map_or(0, |peer| peer.bytes_resent)
            }
        };
        Moved {
            bytes: self.totals.sum(|counters| counters.bytes_durable),
            files: self.totals.sum(|counters| counters.files_done),
            bytes_again: resent.saturating_add(self.totals.lost_bytes()),
        }
    }

    fn report(&mut self, engine: Option<&Engine>, at_end: bool) {
        let Some(engine) = engine else { return };
        let Some(last) = self.totals.last() else {
            return;
        };
        let own = engine.counters().snapshot();
        // Only the sender knows which parts of a file it omits.
        let (bytes_total, unmoved) = match engine {
            Engine::Sender(sender) => (
                sender.scan_done().then_some(own.bytes_scanned),
                own.bytes_unmoved,
            ),
            Engine::Receiver(receiver) => (
                receiver.bytes_announced(),
                receiver
                    .peer_counters()
                    .map_or(0, |peer| peer.bytes_unmoved),
            ),
        };
        let channels = engine.counters().channels();
        let (end_counters, rates) =
            self.window
                .add(Instant::now(), engine.end_counters(), &channels);
        let settings = &self.job.settings;
        let chosen = self.chosen.get_or_insert_with(|| match engine {
            _ if self.local => chosen_here(settings),
            Engine::Sender(_) => chosen(settings, true),
            Engine::Receiver(_) => chosen(settings, false),
        });
        let bottleneck = end_counters.finding(&rates, chosen).and_then(|finding| {
            if self.local {
                limited_here(finding)
            } else {
                Some(limited(finding))
            }
        });
        let settled = last
            .bytes_written
            .max(last.bytes_durable)
            .saturating_add(last.bytes_skipped)
            .saturating_add(unmoved);
        // Bytes that were sent more than once count once.
        self.shown = settled.min(bytes_total.unwrap_or(u64::MAX)).max(self.shown);
        let bytes = self.shown;
        self.job.run.control.watch(engine, bytes);
        // Bytes that are settled without being sent appear at once, and do not count in the rate.
        let moved = self.totals.sum(|counters| counters.bytes_written);
        let rate = self.rate.follow(Instant::now(), moved);
        let delivered_before = self.totals.earlier(|counters| counters.files_done);
        let files = delivered_before.saturating_add(last.files_done);
        // Files delivered before a restart exist now.
        let settled_files = files.max(last.files_done.saturating_add(last.files_skipped));
        let files_rate = self.files_rate.follow(Instant::now(), settled_files);
        // During a loss, the last figures are outdated.
        let lost = self.connection.is_lost();
        let current = engine.counters().current_entry();
        let current = current.map(|(root, path)| self.job.run.reports.name_of(root, &path));
        let progress = Progress {
            bytes,
            bytes_total: bytes_total.map(|total| total.max(bytes)),
            bytes_per_second: rate.map(f64::round).filter(|_| !lost),
            files,
            files_total: own.files_scanned.max(files),
            files_settled: settled_files,
            files_per_second: files_rate.map(f64::round).filter(|_| !lost),
            scanning: bytes_total.is_none(),
            streams: u32::try_from(engine.stream_count()).unwrap_or(u32::MAX),
            bottleneck: bottleneck.filter(|_| !lost),
            stages: if lost {
                BTreeMap::new()
            } else {
                stages(&end_counters)
            },
            seconds: elapsed_seconds(self.job.env.started),
            channels: shown(channels.clone()),
            seconds_left: None,
            name: current.unwrap_or_default(),
            at_end,
            moved: self.moved(engine),
            held: self.totals.held(),
            written: moved,
        };
        self.last = Some(Progress {
            bytes_per_second: None,
            files_per_second: None,
            bottleneck: None,
            stages: BTreeMap::new(),
            name: Vec::new(),
            ..progress.clone()
        });
        let events = &*self.job.run.events;
        events.emit(Event::Progress(progress));
        if !at_end {
            let (started, retry_for) = (self.job.env.started, self.job.settings.retry_for);
            self.channels.report(events, channels, started, retry_for);
        }
    }
}
