//! One transfer from its description to its end: which ends it has, and what is told at its end.
//! Moves no data itself, and prints nothing.

mod admission;
mod by_ssh;
mod channels;
mod connection;
mod ends;
mod entry_events;
mod from_settings;
mod kept;
mod limited;
mod list;
mod places;
mod progressing;
mod rate;
pub(crate) mod reach;
mod remote;
mod report;
mod retell;
mod selection;
mod stages;
mod third;
mod window;
pub(crate) mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use godwit_api::endpoint::{Endpoint, Place};
use godwit_api::event::{
    Blame, Event, EventSink, Started, Stats, Status, Summary, TransferSummary,
};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::JobSpec;
use godwit_api::settings::CpSettings;
use godwit_engine::Snapshot;
use godwit_tree::WorkItem;

use admission::Places;

use crate::check::{Checked, check_transfer};
use crate::control::Control;
use crate::env::Env;
use crate::reports::{Finished, Reports, refuse_source};
pub(crate) use by_ssh::ssh_client;
pub use from_settings::bounds_of;
pub use reach::client_tls;
use report::Report;
pub use report::refusal_of;
pub(crate) use report::refused;
use selection::Chosen;

/// What every part of a transfer needs.
pub(crate) struct Job<'a> {
    spec: &'a JobSpec,
    settings: CpSettings,
    env: &'a Env,
    control: &'a Control,
    chosen: Chosen,
    /// Parts of files to send, and files to put together.
    items: Vec<WorkItem>,
    events: Arc<dyn EventSink>,
    reports: Arc<Reports>,
    places: Places,
    /// The source is standard input, the destination standard output: neither can be begun anew.
    from_input: bool,
    to_output: bool,
    /// How many sources were named.
    source_count: usize,
    output_used: AtomicBool,
    /// An attempt was stopped because the job is to pause.
    stopped_to_pause: AtomicBool,
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
        let items = work::items_of(spec, &settings)?;
        let chosen = Chosen::of(spec.selection.as_ref(), env.list.as_ref())?
            .with_items(!items.is_empty())
            .suits(&sources)?;
        let reports = match env.tells {
            Some(tells) => Reports::told(events, tells, env)?,
            None => Reports::open(&settings.reports, env)?,
        };
        let job = Job {
            spec,
            settings,
            env,
            control,
            chosen,
            items,
            events: Arc::clone(events),
            reports: Arc::new(reports),
            places: Places::default(),
            from_input: sources.contains(&Endpoint::Stdio),
            to_output: destination == Endpoint::Stdio,
            source_count: sources.len(),
            output_used: AtomicBool::new(false),
            stopped_to_pause: AtomicBool::new(false),
        };
        Ok((job, sources, destination))
    });
    match prepared {
        Ok((job, sources, destination)) => {
            let report = job.attempts(&sources, &destination);
            job.conclude(report)
        }
        Err(failure) => {
            crate::tell_refusal(env, &**events, &failure);
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

/// Seconds since `started`: milliseconds are as fine as makes sense.
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
        source: side(report.shares.source),
        destination: side(report.shares.destination),
        max_rss_bytes: report.summary.max_rss_bytes,
    })
}

impl Job<'_> {
    /// The transfer, and once more after each pause.
    fn attempts(&self, sources: &[Endpoint], destination: &Endpoint) -> Result<Report, Failure> {
        let mut before = TransferSummary::default();
        loop {
            let ended = match admission::admit(self, sources, destination) {
                Some(_places) => self.transfer(sources, destination),
                None => Err(stopped()),
            };
            let paused = self.is_pausing() && is_interrupted(&ended);
            self.stopped_to_pause.store(false, Ordering::Relaxed);
            if let Ok(report) = &ended {
                let summary = &report.summary;
                before.bytes = Some(before.bytes.unwrap_or(0) + summary.bytes.unwrap_or(0));
                before.resent_bytes += summary.resent_bytes;
                before.files += summary.files;
            }
            if paused {
                self.events.tell(Event::Paused {});
                self.control.wait_while_paused();
                if self.goes_on() {
                    continue;
                }
                self.events.error(&stopped());
            }
            return ended.map(|mut report| {
                report.summary.bytes = before.bytes;
                report.summary.resent_bytes = before.resent_bytes;
                // What the job delivered before a pause is found by what comes after it.
                let earlier = before.files - report.summary.files;
                report.summary.files = before.files;
                report.summary.skipped = report.summary.skipped.saturating_sub(earlier);
                report
            });
        }
    }

    fn transfer(&self, sources: &[Endpoint], destination: &Endpoint) -> Result<Report, Failure> {
        match (sources, destination) {
            ([Endpoint::Ssh(_), ..], Endpoint::Ssh(place)) => self.between(sources, place),
            (_, Endpoint::Ssh(place)) => self.push_by_ssh(sources, place),
            ([Endpoint::Ssh(_), ..], _) => self.pull_by_ssh(sources, destination),
            (_, Endpoint::Remote(remote)) => self.push(sources, remote),
            ([Endpoint::Remote(_), ..], _) => self.pull(sources, destination),
            _ => self.local(sources, destination),
        }
    }

    /// What is told and written at the end.
    fn conclude(&self, ended: Result<Report, Failure>) -> Result<Summary, Failure> {
        let report = ended.unwrap_or_else(|failure| {
            self.events.error(&failure);
            Report::failed(failure, self.env)
        });
        let report = self.without_resuming(report);
        if self.env.tells.is_some() {
            self.events.tell(Event::Ended {});
        }
        let mut report = self.finish_reports(report);
        // A dry run does not read to where the size of the input would be known.
        if self.from_input && self.settings.comparison.dry_run && report.summary.files > 0 {
            report.summary.bytes = None;
        }
        if self.settings.reports.stats && report.summary.began {
            self.events.tell(stats_of(&report));
        }
        let Report {
            failure,
            mut summary,
            ..
        } = report;
        let code = match summary.status {
            Status::Partial => Some(FailureCode::Partial),
            _ => None,
        };
        let code = failure.as_ref().map(|failure| failure.code).or(code);
        summary.blame = code.map(Blame::from).unwrap_or_default();
        summary.seconds = elapsed_seconds(self.env.started);
        let summary = Summary::Transfer(Box::new(summary));
        let is_usage = |failure: &Failure| failure.code == FailureCode::Usage;
        // Wrong usage is no transfer, so it has no summary; but another program waits for one.
        if !failure.as_ref().is_some_and(is_usage) || self.env.tells.is_some() {
            self.events.tell(Event::Summary(summary.clone()));
        }
        failure.map_or(Ok(summary), Err)
    }

    /// What comes from a pipe, or has gone into one, cannot be taken up again.
    fn without_resuming(&self, mut report: Report) -> Report {
        if let Some(failure) = &mut report.failure
            && failure.code.is_interruption()
            && (self.from_input || self.to_output)
        {
            failure.code = FailureCode::CannotResume;
            report.summary.status = Status::Failed;
            self.events.note(if self.from_input {
                "standard input cannot be read again, so this cannot be resumed; nothing of it has the final name: give the whole input once more"
            } else {
                "standard output has a part of the file, so this cannot be resumed: begin anew"
            });
        }
        report
    }

    /// Writes what is to be written about the transfer; what cannot be is told, and never passes for success.
    fn finish_reports(&self, mut report: Report) -> Report {
        let whole = report.summary.began && report.failure.is_none();
        let failed = report.summary.failed;
        let dry = self.settings.comparison.dry_run;
        let finished = self
            .reports
            .finish(whole, dry, failed, &*self.events, &|| self.goes_on());
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
                self.events.error(&failure);
                report.summary.status = Status::Failed;
                report.failure = Some(failure);
            }
        }
        report
    }

    /// The transfer begins, perhaps anew.
    fn say_started(&self, started: Started) {
        self.control.begins();
        self.events.tell(Event::Started(started));
    }

    /// Tells why the transfer has ended; that it was stopped to pause is no news.
    fn tell_end(&self, failure: Option<&Failure>) {
        if let Some(failure) = failure
            && !self.is_pausing()
        {
            self.events.error(failure);
        }
    }

    /// Whether the sources that are missing and those that failed as a whole are all of them. A list that cannot be read to its end
    /// fails under the name of the source, and what it named before was copied.
    fn has_no_other(&self, missing: u64, failed: u64) -> bool {
        let unread = if self.chosen.is_listed() {
            missing
        } else {
            missing + failed
        };
        unread > 0 && unread >= self.source_count as u64
    }

    /// Whether to go on.
    fn goes_on(&self) -> bool {
        if self.control.is_cancelled() {
            return false;
        }
        // What was read from a pipe, or written into one, cannot be had again.
        let pauses = self.control.is_paused() && !self.from_input && !self.to_output;
        if pauses {
            self.stopped_to_pause.store(true, Ordering::Relaxed);
        }
        !pauses
    }

    /// Whether the attempt was stopped only because the job is to pause.
    fn is_pausing(&self) -> bool {
        self.stopped_to_pause.load(Ordering::Relaxed) && !self.control.is_cancelled()
    }
}

/// What is told where the user has stopped a job.
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

/// The size of a `mem:` source, if that is what the sources are.
fn memory_bytes(sources: &[Endpoint]) -> Option<u64> {
    sources.iter().find_map(|source| match source {
        Endpoint::Memory { bytes } => Some(*bytes),
        Endpoint::Remote(remote) => match remote.place {
            Place::Memory { bytes } => Some(bytes),
            _ => None,
        },
        _ => None,
    })
}
