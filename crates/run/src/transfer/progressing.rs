//! How far a transfer is, told while it runs.
//! Measures nothing itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use godwit_api::event::{Event, Progress};
use godwit_engine::session::{Client, ClientReport, Engine, Refusal, run};
use godwit_engine::{Counters, End, Snapshot};
use godwit_proto::{Open, Opened, TransferId};

use super::channels::ChannelsTold;
use super::limited::{limited, limited_here};
use super::rate::RecentRate;
use super::window::Window;
use super::{Job, elapsed_seconds};

/// The counters of this side over all engines of one command, and what earlier runs had lost.
#[derive(Clone, Default)]
pub(super) struct Totals(Arc<Mutex<(Vec<Arc<Counters>>, u64)>>);

impl Totals {
    pub(super) fn add(&self, counters: &Arc<Counters>, lost_bytes: u64) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.push(Arc::clone(counters));
        inner.1 += lost_bytes;
    }

    pub(super) fn sum(&self, field: impl Fn(&Snapshot) -> u64) -> u64 {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .0
            .iter()
            .map(|counters| field(&counters.snapshot()))
            .sum()
    }

    pub(super) fn lost_bytes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    pub(super) fn last(&self) -> Option<Snapshot> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.last().map(|counters| counters.snapshot())
    }
}

/// Shows how far a transfer is.
pub(super) struct Progressing<'a> {
    job: &'a Job<'a>,
    totals: Totals,
    window: Window,
    rate: RecentRate,
    channels: ChannelsTold,
    local: bool,
    /// Bytes shown last: what is sent once more, or begun anew, does not take them back.
    shown: u64,
}

impl<'a> Progressing<'a> {
    /// Both ends are here.
    pub(super) fn local(job: &'a Job<'a>, counters: Arc<Counters>) -> Self {
        let totals = Totals::default();
        totals.add(&counters, 0);
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
            channels: ChannelsTold::default(),
            local: false,
            shown: 0,
        }
    }

    pub(super) fn show(&mut self, engine: Option<&Engine>) {
        self.tell(engine, false);
    }

    /// As it was at the end, if that was reached.
    pub(super) fn show_end(&mut self, engine: Option<&Engine>, end: &End) {
        if matches!(end, End::Finished(_)) {
            self.tell(engine, true);
        }
    }

    /// Runs a transfer with another machine to its end, and shows it.
    pub(super) fn run(
        &mut self,
        client: &Client,
        open: &Open,
        begin: &mut dyn FnMut(&Opened, TransferId) -> Result<Engine, Refusal>,
    ) -> ClientReport {
        let job = self.job;
        let report = run(client, open, begin, &mut |watch| {
            self.show(watch.engine);
            job.goes_on()
        });
        if let Ok(end) = &report.end {
            self.show_end(report.engine.as_ref(), end);
        }
        report
    }

    fn tell(&mut self, engine: Option<&Engine>, at_end: bool) {
        let Some(engine) = engine else { return };
        let Some(last) = self.totals.last() else {
            return;
        };
        let own = engine.counters().snapshot();
        // The sender alone knows what it leaves out of a file.
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
        let (shares, rates) = self.window.add(Instant::now(), engine.shares(), &channels);
        let bottleneck = shares.finding(&rates).and_then(|finding| {
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
        // What was sent more than once is done with only once.
        self.shown = settled.min(bytes_total.unwrap_or(u64::MAX)).max(self.shown);
        let bytes = self.shown;
        self.job.control.watch(engine, bytes);
        // What is done with and did not move comes at once, and is no rate.
        let moved = self.totals.sum(|counters| counters.bytes_written);
        let rate = self.rate.follow(Instant::now(), moved);
        let events = &*self.job.events;
        events.tell(Event::Progress(Progress {
            bytes,
            bytes_total: bytes_total.map(|total| total.max(bytes)),
            bytes_per_second: rate.map(f64::round),
            files: last.files_done,
            streams: u32::try_from(engine.stream_count()).unwrap_or(u32::MAX),
            bottleneck,
            seconds: elapsed_seconds(self.job.env.started),
            at_end,
        }));
        if !at_end {
            self.channels.tell(events, channels, self.job.env.started);
        }
    }
}
