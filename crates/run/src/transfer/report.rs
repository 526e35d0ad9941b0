//! Converts counters to the final report for users and programs: a summary and an exit code. Does not measure.

use godwit_api::event::{Encryption, ErrorEvent, NotKept, Sides, Status, TransferSummary};
use godwit_api::failure::{Failure, FailureCode, Scope};
use godwit_api::rest::Amount;
use godwit_engine::session::{ClientReport, Engine, Refusal};
use godwit_engine::{ChannelRate, End, EndCounters, Snapshot, usage};
use godwit_proto::{ErrorCode, Finished};

use super::Job;
use super::channels::report_at_end;
use super::kept::{not_kept_of, notes};
use super::limited::{chosen, chosen_here, limited, limited_here};
use super::progressing::Totals;
use crate::env::Env;

/// How a transfer ended.
pub(super) struct Report {
    /// The reason why the transfer was not completed; `None` if at most single entries failed.
    pub(super) failure: Option<Failure>,
    /// The summary without its seconds.
    pub(super) summary: TransferSummary,
    /// Counters of both ends, if known.
    pub(super) end_counters: EndCounters,
}

impl Report {
    /// The report of a transfer that never began.
    pub(super) fn failed(failure: Failure, env: &Env) -> Self {
        let summary = TransferSummary {
            status: status_of(failure.code),
            blame: failure.code.into(),
            bytes: Some(0),
            cpu_seconds: Sides {
                source: process_cpu(env),
                destination: None,
            },
            max_rss_bytes: Sides {
                source: peak_rss(env),
                destination: None,
            },
            ..TransferSummary::default()
        };
        Self {
            failure: Some(failure),
            summary,
            end_counters: EndCounters::default(),
        }
    }

    /// The report of a transfer with both ends on other machines. `error` is the last error that the sending agent reported; `code` is
    /// the exit code of its process, which is all that older versions report.
    pub(super) fn retold(
        summary: TransferSummary,
        end_counters: EndCounters,
        code: Option<i32>,
        error: ErrorEvent,
    ) -> Self {
        let failure = match (summary.status, code) {
            (Status::Complete | Status::Partial, _) => None,
            (Status::Interrupted, _) => Some(FailureCode::Cancelled),
            (Status::Failed, Some(4)) => Some(FailureCode::Unauthorized),
            (Status::Failed, _) => Some(FailureCode::PeerFailed),
        };
        let failure = failure.map(|guessed| Failure {
            code: error
                .blame
                .known()
                .filter(|code| status_of(*code) == summary.status)
                .unwrap_or(guessed),
            message: error.message,
            detail: error.detail,
            exit: None,
        });
        Self {
            failure,
            summary,
            end_counters,
        }
    }

    /// The report of a transfer with both ends here.
    pub(super) fn local(
        end: &End,
        source: &Snapshot,
        destination: &Snapshot,
        lost_bytes: u64,
        missing: u64,
        job: &Job<'_>,
    ) -> Self {
        let failed = source.entries_failed + missing;
        let has_no_other = job.has_no_other(missing, source.sources_failed);
        let (failure, status) = outcome(end, failed, has_no_other);
        if !matches!(end, End::Finished(_)) {
            job.run.report_end(failure.as_ref());
        }
        let rss = peak_rss(job.env);
        let not_kept = report_not_kept([Some(source), Some(destination)], job);
        let end_counters = EndCounters {
            source: Some(*source),
            destination: Some(*destination),
        };
        let summary = TransferSummary {
            status,
            bytes: Some(destination.bytes_durable),
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
            bottleneck: end_counters
                .finding(&[], &chosen_here(&job.settings))
                .and_then(limited_here),
            not_kept,
            began: true,
            ..TransferSummary::default()
        };
        Self {
            failure,
            summary,
            end_counters,
        }
    }

    /// The same report, with the cipher of the connections.
    pub(super) fn encrypted(mut self, by: Option<Encryption>) -> Self {
        self.summary.encryption = by;
        self
    }

    /// The report of a transfer with a daemon; `sending` is true if our end sends.
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
                let failure = refused(&refusal);
                job.run.report_end(Some(&failure));
                return Self::failed(failure, job.env);
            }
        };
        if let Some(failure) = failure_of(&end) {
            job.run.report_end(Some(&failure));
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
            report_at_end(&*job.run.events, channels, took, job.env.started);
        }
        let peer = report.engine.as_ref().and_then(Engine::peer_counters);
        let end_counters = report.engine.as_ref().map(Engine::end_counters);
        let mut end_counters = end_counters.unwrap_or_default();
        if let (false, Some(source), Some(finished)) = (sending, &mut end_counters.source, finished)
        {
            // A sending node sends its last counters before it learns that the last files are done.
            source.files_done = finished.files;
            source.bytes_durable = finished.bytes;
        }
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
        let sources_failed = totals.last().map_or(0, |last| last.sources_failed);
        let has_no_other = job.has_no_other(missing, sources_failed);
        let (failure, status) = outcome(&end, failed, has_no_other);
        let not_kept = report_not_kept([totals.last().as_ref(), peer.as_ref()], job);
        let counted = || seconds(totals.sum(|counters| counters.cpu_ns));
        let own_cpu = process_cpu(job.env).or_else(|| Some(counted()));
        let own_rss = peak_rss(job.env);
        let peer_cpu = peer
            .filter(|peer| peer.cpu_ns > 0)
            .map(|peer| seconds(peer.cpu_ns));
        // The receiving end has the most exact counts since the transfer was last opened.
        let done = |finished: Option<u64>, field: &dyn Fn(&Snapshot) -> u64| {
            let of_peer = peer.as_ref().filter(|_| sending).map_or(0, field);
            let last = totals.last().map_or(0, |last| field(&last)).max(of_peer);
            totals
                .earlier(field)
                .saturating_add(finished.unwrap_or(last))
        };
        let peer_rss = report.engine.as_ref().and_then(Engine::peer_max_rss);
        let summary = TransferSummary {
            status,
            bytes: Some(totals.sum(|counters| counters.bytes_durable)),
            files: done(finished.map(|finished| finished.files), &|counters| {
                counters.files_done
            }),
            // Files delivered before a restart of the transfer do not count as skipped.
            skipped: totals.last().map_or(0, |last| {
                let delivered = totals.earlier(|counters| counters.files_done);
                last.files_skipped.saturating_sub(delivered)
            }),
            excluded: end_counters
                .source
                .map_or(0, |source| source.entries_excluded),
            deleted: done(finished.map(|finished| finished.deleted), &|counters| {
                counters.entries_deleted
            }),
            delivered: finished.map_or_else(Amount::default, |end| delivered(end, totals)),
            adjusted: done(finished.map(|finished| finished.adjusted), &|counters| {
                counters.entries_adjusted
            }),
            dry_run: job.settings.comparison.dry_run,
            failed,
            resent_bytes: resent.saturating_add(totals.lost_bytes()),
            cpu_seconds: sides(sending, own_cpu, peer_cpu),
            max_rss_bytes: sides(sending, own_rss, peer_rss),
            bottleneck: end_counters
                .finding(&rates, &chosen(&job.settings, sending))
                .map(limited),
            not_kept,
            began: true,
            ..TransferSummary::default()
        };
        Self {
            failure,
            summary,
            end_counters,
        }
    }
}

/// Amounts that other transfers of the job delivered. After a restart of the transfer, the destination finds the files of this transfer, too.
fn delivered(finished: &Finished, totals: &Totals) -> Amount {
    let files = totals.earlier(|counters| counters.files_done);
    let bytes = totals.earlier(|counters| counters.bytes_durable);
    Amount {
        files: finished.delivered_files.saturating_sub(files),
        bytes: finished.delivered_bytes.saturating_sub(bytes),
    }
}

/// Reports the metadata that was not kept, once for each kind.
fn report_not_kept(ends: [Option<&Snapshot>; 2], job: &Job<'_>) -> NotKept {
    let not_kept = not_kept_of(ends);
    for note in notes(&not_kept) {
        job.run.events.note(&note);
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

/// `in_vain` is true if no source could be read.
fn outcome(end: &End, failed: u64, in_vain: bool) -> (Option<Failure>, Status) {
    if let Some(failure) = failure_of(end) {
        let status = status_of(failure.code);
        return (Some(failure), status);
    }
    match failed {
        0 => (None, Status::Complete),
        _ if in_vain => {
            let failure = Failure::new(FailureCode::NoSource, "no source could be read");
            (Some(failure), Status::Failed)
        }
        _ => (None, Status::Partial),
    }
}

/// The reason why a transfer ended early.
fn failure_of(end: &End) -> Option<Failure> {
    match end {
        End::Finished(_) => None,
        End::Cancelled(message) => Some(Failure::new(FailureCode::Cancelled, message)),
        End::Failed { code, message, .. } => Some(Failure::new(code_of(*code), message)),
    }
}

/// The status of a transfer that ended with this code.
fn status_of(code: FailureCode) -> Status {
    match code.is_interruption() {
        true => Status::Interrupted,
        false => Status::Failed,
    }
}

/// The catalogue's code for a protocol error code.
pub(super) fn code_of(code: ErrorCode) -> FailureCode {
    FailureCode::of_number(Scope::Job, code.0)
}

/// Converts a refusal to a failure of the whole transfer.
#[must_use]
pub fn refused(refusal: &Refusal) -> Failure {
    let failure = Failure::new(code_of(refusal.code()), refusal);
    match refusal.peer() {
        Some(peer) => failure.about(peer),
        None => failure,
    }
}

/// Converts a failure of this side to a refusal.
#[must_use]
pub fn refusal_of(failure: Failure) -> Refusal {
    let code = failure.code.number().map_or(ErrorCode::INTERNAL, ErrorCode);
    Refusal::own(code, failure.message)
}

/// Processor time of the process, if it belongs to this job alone.
fn process_cpu(env: &Env) -> Option<f64> {
    env.alone.then(|| usage::process_cpu_time().as_secs_f64())
}

/// Peak memory of the process, if it belongs to this job alone.
fn peak_rss(env: &Env) -> Option<u64> {
    env.alone.then(usage::peak_rss_bytes).flatten()
}

fn seconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64()
}
