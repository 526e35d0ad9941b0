//! Owns one transfer from description to end: both ends, summary and reports. Does not move data or print.

mod admission;
mod apart;
mod attempts;
mod before;
mod between;
mod by_ssh;
mod channels;
mod connection;
mod ends;
mod entry_events;
mod from_settings;
mod kept;
mod limited;
mod list;
mod pipes;
mod places;
mod progressing;
mod rate;
pub(crate) mod reach;
mod remote;
mod report;
mod retell;
mod running;
mod selection;
mod stages;
mod window;
pub(crate) mod work;

use std::sync::Arc;
use std::time::Instant;

use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::event::{Blame, Event, EventSink, Stats, Status, Summary, TransferSummary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::JobSpec;
use godwit_api::settings::CpSettings;
use godwit_engine::{NetworkUse, Snapshot};
use godwit_tree::WorkItem;

use crate::check::{Checked, check_transfer};
use crate::control::Control;
use crate::env::Env;
use crate::reports::{Finished, Reports, refuse_source};
use crate::seal::{Outcome, Sealing};
use attempts::AttemptRecord;
use between::Between;
pub(crate) use by_ssh::ssh_client;
use ends::Ends;
pub(crate) use from_settings::access_of;
pub use from_settings::bounds_of;
use pipes::Pipes;
pub use reach::{ciphers, client_tls, known_identity};
use report::Report;
pub use report::{refusal_of, refused};
use running::Run;
use selection::Chosen;
pub(crate) use selection::select_of;
pub use stages::STAGE_FIGURES;

/// A transfer with its description and its environment.
pub(crate) struct Job<'a> {
    spec: &'a JobSpec,
    settings: CpSettings,
    env: &'a Env,
    chosen: Chosen,
    /// Parts of files to send, and files to assemble.
    items: Vec<WorkItem>,
    pipes: Pipes,
    /// Number of named sources.
    source_count: usize,
    /// The sealing of the copies, if the settings ask for it.
    sealing: Option<Sealing>,
    run: Run<'a>,
}

/// Runs one transfer to its end.
pub(crate) fn run(
    spec: &JobSpec,
    env: &Env,
    events: &Arc<dyn EventSink>,
    control: &Control,
) -> Result<Summary, Failure> {
    let prepared = check_transfer(spec).and_then(|checked| {
        let Checked {
            mut settings,
            sources,
            destination,
        } = checked;
        for path in [&mut settings.reports.manifest, &mut settings.reports.failed] {
            *path = path.as_deref().map(|path| env.resolve(path));
        }
        for source in &sources {
            if let Endpoint::Local(path) = source {
                refuse_source(&settings.reports, &env.resolve(path))?;
            }
        }
        let sealing = Sealing::of(&settings, env, &sources)?;
        let items = work::items_of(spec, &settings)?;
        let chosen = Chosen::of(spec.selection.as_ref(), env.list.as_ref())?
            .with_items(!items.is_empty())
            .suits(&sources)?;
        let reports = match env.tells {
            Some(tells) => Reports::as_events(events, tells, env)?,
            None => Reports::open(&settings.reports, env)?,
        };
        let pipes = Pipes::of(&sources, &destination);
        let job = Job {
            spec,
            settings,
            env,
            chosen,
            items,
            pipes,
            source_count: sources.len(),
            sealing,
            run: Run::new(
                control,
                events,
                reports,
                !pipes.any(),
                env.attempts.as_ref().and_then(|attempts| attempts.fence()),
            ),
        };
        Ok((job, sources, destination))
    });
    match prepared {
        Ok((mut job, sources, destination)) => {
            let report = before::deleted_first(&mut job, &sources, &destination);
            job.conclude(report)
        }
        Err(failure) => {
            crate::emit_refusal(env, &**events, &failure);
            Err(failure)
        }
    }
}

/// The summary of a transfer that never began.
pub(crate) fn failed_summary(env: &Env, failure: &Failure) -> TransferSummary {
    let mut summary = Report::failed(failure.clone(), env).summary;
    summary.seconds = elapsed_seconds(env.started);
    summary
}

/// Seconds since `started`, in whole milliseconds.
pub(crate) fn elapsed_seconds(started: Instant) -> f64 {
    (started.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0
}

fn stats_of(report: &Report) -> Event {
    let side = |side: Option<Snapshot>| {
        side.map(|counters| {
            let fields = counters.fields();
            fields
                .map(|(name, number)| (name.to_owned(), number))
                .collect()
        })
    };
    Event::Stats(Stats {
        source: side(report.end_counters.source),
        destination: side(report.end_counters.destination),
        max_rss_bytes: report.summary.max_rss_bytes,
    })
}

impl Job<'_> {
    /// The record that the attempts of the job share about its destination.
    fn record(&self) -> AttemptRecord<'_> {
        AttemptRecord {
            env: self.env,
            is_dry: self.settings.comparison.dry_run,
        }
    }

    /// Runs the transfer, and again after each pause.
    fn attempts(&self, sources: &[Endpoint], destination: &Endpoint) -> Result<Report, Failure> {
        let ends = Ends::new(self);
        let mut before = TransferSummary::default();
        loop {
            let ended = match ends.admit(sources, destination) {
                Some(_places) => self.transfer(&ends, sources, destination),
                None => Err(stopped()),
            };
            let paused = self.run.has_paused() && is_interrupted(&ended);
            if let Ok(report) = &ended {
                let summary = &report.summary;
                before.bytes = Some(before.bytes.unwrap_or(0) + summary.bytes.unwrap_or(0));
                before.resent_bytes += summary.resent_bytes;
                before.files += summary.files;
            }
            if paused {
                if self.run.wait_while_paused() {
                    continue;
                }
                self.run.events.error(&stopped());
            }
            return ended.map(|mut report| {
                report.summary.bytes = before.bytes;
                report.summary.resent_bytes = before.resent_bytes;
                // After a pause, the transfer finds the files that the job delivered earlier.
                let earlier = before.files - report.summary.files;
                report.summary.files = before.files;
                report.summary.skipped = report.summary.skipped.saturating_sub(earlier);
                report
            });
        }
    }

    fn transfer(
        &self,
        ends: &Ends<'_>,
        sources: &[Endpoint],
        destination: &Endpoint,
    ) -> Result<Report, Failure> {
        match (sources, destination) {
            ([Endpoint::Ssh(_), ..], Endpoint::Ssh(place)) => {
                Between::of(self, sources, place)?.run()
            }
            (_, Endpoint::Ssh(place)) => by_ssh::push(ends, sources, place),
            ([Endpoint::Ssh(_), ..], _) => by_ssh::pull(ends, sources, destination),
            (_, Endpoint::Remote(remote)) => remote::push(ends, sources, remote),
            ([Endpoint::Remote(_), ..], _) => remote::pull(ends, sources, destination),
            _ => ends.local(sources, destination),
        }
    }

    /// Reports the end of the transfer, and writes its reports.
    fn conclude(&self, ended: Result<Report, Failure>) -> Result<Summary, Failure> {
        let report = ended.unwrap_or_else(|failure| {
            self.run.events.error(&failure);
            Report::failed(failure, self.env)
        });
        let report = self.without_resuming(report);
        if self.env.tells.is_some() {
            self.run.events.emit(Event::Ended {});
        }
        let mut report = self.seal(self.finish_reports(report));
        // A dry run does not read the input to its end, so the size is unknown.
        if self.pipes.from_input && self.settings.comparison.dry_run && report.summary.files > 0 {
            report.summary.bytes = None;
        }
        if self.settings.reports.stats && report.summary.began {
            self.run.events.emit(stats_of(&report));
        }
        let Report {
            failure,
            mut summary,
            ..
        } = report;
        let code = match summary.status {
            // The transfer is complete, and the copy differs from its history.
            Status::Partial if summary.blame == Blame::from(FailureCode::Different) => {
                Some(FailureCode::Different)
            }
            Status::Partial => Some(FailureCode::Partial),
            _ => None,
        };
        let code = failure.as_ref().map(|failure| failure.code).or(code);
        summary.blame = code.map(Blame::from).unwrap_or_default();
        summary.seconds = elapsed_seconds(self.env.started);
        let summary = Summary::Transfer(Box::new(summary));
        let is_usage = |failure: &Failure| failure.code == FailureCode::Usage;
        // A usage error is not a transfer and has no summary. But another program always waits for a summary.
        if !failure.as_ref().is_some_and(is_usage) || self.env.tells.is_some() {
            self.run.events.emit(Event::Summary(summary.clone()));
        }
        failure.map_or(Ok(summary), Err)
    }

    /// Makes a failure final if the transfer used a pipe, because a pipe cannot be resumed.
    fn without_resuming(&self, mut report: Report) -> Report {
        if let Some(failure) = &mut report.failure
            && failure.code.is_interruption()
            && self.pipes.any()
        {
            failure.code = FailureCode::CannotResume;
            report.summary.status = Status::Failed;
            self.run.events.note(if self.pipes.from_input {
                "standard input cannot be read again, so the transfer cannot be resumed; no file has its final name yet: give the whole input once more"
            } else {
                "standard output already has a part of the file, so the transfer cannot be resumed: start again"
            });
        }
        report
    }

    /// Writes the reports of the transfer. If a report cannot be written, the result is an error.
    fn finish_reports(&self, mut report: Report) -> Report {
        let whole = report.summary.began && report.failure.is_none();
        let failed = report.summary.failed;
        let dry = self.settings.comparison.dry_run;
        let finished = self
            .run
            .reports
            .finish(whole, dry, failed, &*self.run.events, &|| {
                self.run.goes_on()
            });
        match finished {
            Ok(finished) => {
                let Finished {
                    manifest,
                    unreadable,
                    interrupted,
                } = finished;
                report.summary.manifest = manifest;
                report.summary.failed += unreadable;
                if unreadable > 0 {
                    report.summary.status = Status::Partial;
                } else if interrupted {
                    report.summary.status = Status::Interrupted;
                    report.failure = Some(stopped());
                }
            }
            Err(failure) => {
                self.run.events.error(&failure);
                report.summary.status = Status::Failed;
                report.failure = Some(failure);
            }
        }
        report
    }

    /// Seals the copies of a complete transfer with ASC MHL histories.
    fn seal(&self, mut report: Report) -> Report {
        let Some(sealing) = &self.sealing else {
            return report;
        };
        let is_complete = report.failure.is_none()
            && report.summary.status == Status::Complete
            && !self.settings.comparison.dry_run;
        let stop = self.run.control.cancelled();
        match sealing.end(is_complete, &*self.run.events, stop) {
            Ok(Outcome {
                generation,
                differences,
            }) => {
                report.summary.manifest = generation;
                if differences > 0 {
                    report.summary.status = Status::Partial;
                    report.summary.blame = Blame::from(FailureCode::Different);
                }
            }
            Err(failure) if report.failure.is_none() => {
                self.run.events.error(&failure);
                report.summary.status = match failure.code.is_interruption() {
                    true => Status::Interrupted,
                    false => Status::Failed,
                };
                report.failure = Some(failure);
            }
            // The transfer itself has failed, and the user has seen why.
            Err(failure) => self.run.events.note(&failure.message),
        }
        report
    }

    /// Whether every source is missing or failed as a whole. An unreadable list fails under the name of the source, although earlier names
    /// of the list may have been copied.
    fn has_no_other(&self, missing: u64, failed: u64) -> bool {
        let unread = if self.chosen.is_listed() {
            missing
        } else {
            missing + failed
        };
        unread > 0 && unread >= self.source_count as u64
    }

    /// Memory for blocks, including blocks that wait for their turn in a pipe.
    fn memory_bytes(&self) -> usize {
        usize::try_from(self.settings.memory_bytes).unwrap_or(usize::MAX)
    }

    /// How the transfer uses the network.
    fn network_use(&self) -> NetworkUse {
        let sharing = &self.settings.sharing;
        NetworkUse {
            congestion: sharing.congestion.clone(),
            background: self.run.control.background().unwrap_or(sharing.background),
        }
    }

    fn note_digest_kept(&self) {
        self.run
            .events
            .note("an unfinished transfer must be resumed with the --digest of its first run");
    }
}

/// The message for a job that the user stopped.
const INTERRUPTED: &str = "interrupted by the user";

fn stopped() -> Failure {
    Failure::new(FailureCode::Cancelled, INTERRUPTED)
}

fn is_interrupted(ended: &Result<Report, Failure>) -> bool {
    let failure = match ended {
        Ok(report) => report.failure.as_ref(),
        Err(failure) => Some(failure),
    };
    failure.is_some_and(|failure| failure.code.is_interruption())
}

/// The size of a `mem:` source, if the sources are one.
fn memory_bytes(sources: &[Endpoint]) -> Option<u64> {
    sources.iter().find_map(|source| match source {
        Endpoint::Memory { bytes } => Some(*bytes),
        Endpoint::Remote(remote) => match remote.place {
            NodePlace::Memory { bytes } => Some(bytes),
            _ => None,
        },
        _ => None,
    })
}
