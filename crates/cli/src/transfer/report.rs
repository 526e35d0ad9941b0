//! From counters to what people and programs are told: progress while it runs, a summary and an exit code at the end.
//! Measures nothing itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use godwit_engine::session::{Client, ClientReport, Engine, Refusal, run};
use godwit_engine::{ChannelFigures, ChannelRate, Counters, End, Shares, Snapshot, usage};
use godwit_proto::{ErrorCode, Open, Opened, TransferId};

use super::Job;
use super::window::Window;
use crate::exit::Exit;
use crate::output::{ChannelShown, Limited, NotKept, Pace, Progress, Sides, Status, Summary};

/// How a transfer ended.
pub(super) struct Report {
    pub(super) exit: Exit,
    /// There is something to sum up.
    pub(super) began: bool,
    pub(super) summary: Summary,
    /// Counters of both ends, as far as they are known.
    pub(super) shares: Shares,
}

/// The counters of this side over all engines of one command, and what earlier runs had lost.
#[derive(Clone, Default)]
pub(super) struct Totals(Arc<Mutex<(Vec<Arc<Counters>>, u64)>>);

impl Totals {
    pub(super) fn add(&self, counters: &Arc<Counters>, lost_bytes: u64) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.push(Arc::clone(counters));
        inner.1 += lost_bytes;
    }

    fn sum(&self, field: impl Fn(&Snapshot) -> u64) -> u64 {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .0
            .iter()
            .map(|counters| field(&counters.snapshot()))
            .sum()
    }

    fn lost_bytes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn last(&self) -> Option<Snapshot> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.last().map(|counters| counters.snapshot())
    }
}

/// Shows how far a transfer is.
pub(super) struct Progressing<'a> {
    job: &'a Job<'a>,
    totals: Totals,
    window: Window,
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
        let limited = shares.finding(&rates).and_then(|finding| {
            if self.local {
                Limited::of_local(finding)
            } else {
                Some(Limited::of(finding))
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
        self.job.steering.watch(engine, bytes);
        let progress = Progress {
            bytes,
            bytes_total: bytes_total.map(|total| total.max(bytes)),
            pace: Pace::Moved(self.totals.sum(|counters| counters.bytes_written)),
            files: last.files_done,
            streams: u32::try_from(engine.stream_count()).unwrap_or(u32::MAX),
            bottleneck: limited.as_ref(),
        };
        if at_end {
            self.job.output.progress_at_end(&progress);
        } else {
            self.job.output.progress(&progress);
            self.job.output.channels(shown(channels));
        }
    }
}

/// The channels as they are told.
fn shown(channels: Vec<ChannelFigures>) -> Vec<ChannelShown> {
    channels
        .into_iter()
        .map(|channel| ChannelShown {
            number: channel.number,
            name: channel.name,
            streams: channel.streams,
            bytes: channel.bytes,
            bytes_per_second: None,
            round_trip_seconds: channel.round_trip.as_secs_f64(),
            cuts: channel.cuts,
        })
        .collect()
}

impl Report {
    /// It never came to a transfer.
    pub(super) fn failed(exit: Exit) -> Self {
        let own = usage::process_cpu_time().as_secs_f64();
        let summary = Summary {
            status: if exit == Exit::Interrupted {
                Status::Interrupted
            } else {
                Status::Failed
            },
            bytes: 0,
            unknown_bytes: false,
            files: 0,
            skipped: 0,
            excluded: 0,
            deleted: 0,
            adjusted: 0,
            dry_run: false,
            failed: 0,
            resent_bytes: 0,
            cpu_seconds: Sides {
                source: Some(own),
                destination: None,
            },
            max_rss_bytes: Sides {
                source: usage::peak_rss_bytes(),
                destination: None,
            },
            bottleneck: None,
            manifest: None,
            not_kept: NotKept::default(),
        };
        Self {
            exit,
            began: false,
            summary,
            shares: Shares::default(),
        }
    }

    /// Both ends were elsewhere; `code` is what the one that told of it ended with.
    pub(super) fn retold(summary: Summary, shares: Shares, code: Option<i32>) -> Self {
        let exit = match (summary.status, code) {
            (Status::Complete, _) => Exit::Complete,
            (Status::Partial, _) => Exit::Partial,
            (Status::Interrupted, _) => Exit::Interrupted,
            (Status::Failed, Some(4)) => Exit::Authentication,
            (Status::Failed, _) => Exit::Failed,
        };
        Self {
            exit,
            began: true,
            summary,
            shares,
        }
    }

    /// Both ends were here.
    pub(super) fn local(
        end: &End,
        source: &Snapshot,
        destination: &Snapshot,
        lost_bytes: u64,
        missing: u64,
        job: &Job<'_>,
    ) -> Self {
        let failed = source.entries_failed + missing;
        let unread = source.sources_failed + missing;
        let (exit, status) = outcome(end, failed, job.has_no_other(unread));
        if let End::Failed { message, .. } | End::Cancelled(message) = end {
            job.output.error(message);
        }
        let rss = usage::peak_rss_bytes();
        let not_kept = tell_not_kept([Some(source), Some(destination)], job);
        let shares = Shares {
            source: Some(*source),
            destination: Some(*destination),
        };
        let summary = Summary {
            status,
            bytes: destination.bytes_durable,
            unknown_bytes: false,
            files: destination.files_done,
            skipped: destination.files_skipped,
            excluded: source.entries_excluded,
            deleted: destination.entries_deleted,
            adjusted: destination.entries_adjusted,
            dry_run: job.settings.comparison.dry_run,
            failed,
            resent_bytes: source.bytes_resent + lost_bytes,
            cpu_seconds: Sides {
                source: Some(seconds(source.cpu_ns)),
                destination: Some(seconds(destination.cpu_ns)),
            },
            max_rss_bytes: Sides {
                source: rss,
                destination: rss,
            },
            bottleneck: shares.finding(&[]).and_then(Limited::of_local),
            manifest: None,
            not_kept,
        };
        Self {
            exit,
            began: true,
            summary,
            shares,
        }
    }

    /// The other end was a daemon's; `sending` tells which end is ours.
    pub(super) fn of_client(
        report: ClientReport,
        totals: &Totals,
        missing: u64,
        sending: bool,
        job: &Job<'_>,
    ) -> Self {
        let end = match report.end {
            Ok(end) => end,
            Err(refusal) => {
                let exit = if refusal.is_authentication() {
                    Exit::Authentication
                } else {
                    Exit::Failed
                };
                job.output.error(&refusal.to_string());
                return Self::failed(exit);
            }
        };
        if let End::Failed { message, .. } | End::Cancelled(message) = &end {
            job.output.error(message);
        }
        let finished = match &end {
            End::Finished(finished) => Some(finished),
            _ => None,
        };
        let mut rates = Vec::new();
        if let Some(engine) = &report.engine {
            let took = engine.counters().age();
            let channels = engine.counters().channels();
            rates = ChannelRate::between(&[], &channels);
            job.output.channels_at_end(shown(channels), took);
        }
        let peer = report.engine.as_ref().and_then(Engine::peer_counters);
        let shares = report
            .engine
            .as_ref()
            .map(Engine::shares)
            .unwrap_or_default();
        let resent = if sending {
            totals.sum(|counters| counters.bytes_resent)
        } else {
            peer.map_or(0, |peer| peer.bytes_resent)
        };
        let failed = totals
            .last()
            .map_or(0, |last| last.entries_failed)
            .max(finished.map_or(0, |finished| finished.failed))
            .saturating_add(missing);
        let unread = totals.last().map_or(0, |last| last.sources_failed) + missing;
        let (exit, status) = outcome(&end, failed, job.has_no_other(unread));
        let not_kept = tell_not_kept([totals.last().as_ref(), peer.as_ref()], job);
        let own_cpu = Some(usage::process_cpu_time().as_secs_f64());
        let own_rss = usage::peak_rss_bytes();
        let peer_cpu = peer
            .filter(|peer| peer.cpu_ns > 0)
            .map(|peer| seconds(peer.cpu_ns));
        let peer_rss = report.engine.as_ref().and_then(Engine::peer_max_rss);
        let summary = Summary {
            status,
            bytes: totals.sum(|counters| counters.bytes_durable),
            unknown_bytes: false,
            files: finished.map_or_else(
                || totals.sum(|counters| counters.files_done),
                |finished| finished.files,
            ),
            skipped: totals.last().map_or(0, |last| last.files_skipped),
            excluded: shares.source.map_or(0, |source| source.entries_excluded),
            deleted: finished.map_or_else(
                || totals.last().map_or(0, |last| last.entries_deleted),
                |finished| finished.deleted,
            ),
            adjusted: finished.map_or_else(
                || totals.last().map_or(0, |last| last.entries_adjusted),
                |finished| finished.adjusted,
            ),
            dry_run: job.settings.comparison.dry_run,
            failed,
            resent_bytes: resent.saturating_add(totals.lost_bytes()),
            cpu_seconds: sides(sending, own_cpu, peer_cpu),
            max_rss_bytes: sides(sending, own_rss, peer_rss),
            bottleneck: shares.finding(&rates).map(Limited::of),
            manifest: None,
            not_kept,
        };
        Self {
            exit,
            began: true,
            summary,
            shares,
        }
    }
}

/// Tells what arrived without, once for each kind.
fn tell_not_kept(ends: [Option<&Snapshot>; 2], job: &Job<'_>) -> NotKept {
    let not_kept = NotKept::of(ends);
    for note in not_kept.notes() {
        job.output.note(&note);
    }
    not_kept
}

fn sides<T>(sending: bool, own: Option<T>, peer: Option<T>) -> Sides<T> {
    if sending {
        Sides {
            source: own,
            destination: peer,
        }
    } else {
        Sides {
            source: peer,
            destination: own,
        }
    }
}

/// `in_vain` says that no source could be read.
fn outcome(end: &End, failed: u64, in_vain: bool) -> (Exit, Status) {
    match end {
        End::Finished(_) if failed == 0 => (Exit::Complete, Status::Complete),
        End::Finished(_) if in_vain => (Exit::Failed, Status::Failed),
        End::Finished(_) => (Exit::Partial, Status::Partial),
        End::Cancelled(_) => (Exit::Interrupted, Status::Interrupted),
        End::Failed { code, .. }
            if matches!(ErrorCode(*code), ErrorCode::AUTH | ErrorCode::NOT_GRANTED) =>
        {
            (Exit::Authentication, Status::Failed)
        }
        End::Failed { .. } => (Exit::Failed, Status::Failed),
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64()
}
