//! One transfer from its description to its end: its two ends, its summary and its reports. Does not move data or print.

mod admission;
mod apart;
mod attempts;
mod before;
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
mod running;
mod selection;
mod stages;
mod third;
mod window;
pub(crate) mod work;

use std::sync::Arc;
use std::time::Instant;

use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::event::{Blame, Event, EventSink, Stats, Status, Summary, TransferSummary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::JobSpec;
use godwit_api::settings::CpSettings;
use godwit_engine::{Share, Snapshot};
use godwit_tree::WorkItem;

use crate::check::{Checked, check_transfer};
use crate::control::Control;
use crate::env::Env;
use crate::reports::{Finished, Reports, refuse_source};
pub(crate) use by_ssh::ssh_client;
use ends::Ends;
pub(crate) use from_settings::access_of;
pub use from_settings::bounds_of;
pub use reach::{ciphers, client_tls, known_identity};
use report::Report;
pub use report::{refusal_of, refused};
use running::Run;
use selection::Chosen;
pub(crate) use selection::select_of;
pub use stages::STAGE_FIGURES;
use third::Between;

/// One transfer: its description, its environment, and its run.
pub(crate) struct Job<'a> {
    spec: &'a JobSpec,
    settings: CpSettings,
    env: &'a Env,
    chosen: Chosen,
    /// Parts of files to send, and files to assemble.
    items: Vec<WorkItem>,
    /// The source is standard input, or the destination standard output. Neither can be used a second time.
    from_input: bool,
    to_output: bool,
    /// Number of named sources.
    source_count: usize,
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
        let items = work::items_of(spec, &settings)?;
        let chosen = Chosen::of(spec.selection.as_ref(), env.list.as_ref())?
            .with_items(!items.is_empty())
            .suits(&sources)?;
        let reports = match env.tells {
            Some(tells) => Reports::told(events, tells, env)?,
            None => Reports::open(&settings.reports, env)?,
        };
        let from_input = sources.contains(&Endpoint::Stdio);
        let to_output = destination == Endpoint::Stdio;
        let job = Job {
            spec,
            settings,
            env,
            chosen,
            items,
            from_input,
            to_output,
            source_count: sources.len(),
            run: Run::new(
                control,
                events,
                reports,
                !from_input && !to_output,
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
        source: side(report.shares.source),
        destination: side(report.shares.destination),
        max_rss_bytes: report.summary.max_rss_bytes,
    })
}

impl Job<'_> {
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
            self.run.events.tell(Event::Ended {});
        }
        let mut report = self.finish_reports(report);
        // A dry run does not read the input to its end, so the size is unknown.
        if self.from_input && self.settings.comparison.dry_run && report.summary.files > 0 {
            report.summary.bytes = None;
        }
        if self.settings.reports.stats && report.summary.began {
            self.run.events.tell(stats_of(&report));
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
        // A usage error is not a transfer and has no summary. But another program always waits for a summary.
        if !failure.as_ref().is_some_and(is_usage) || self.env.tells.is_some() {
            self.run.events.tell(Event::Summary(summary.clone()));
        }
        failure.map_or(Ok(summary), Err)
    }

    /// Makes a failure final if the transfer used a pipe, because a pipe cannot be resumed.
    fn without_resuming(&self, mut report: Report) -> Report {
        if let Some(failure) = &mut report.failure
            && failure.code.is_interruption()
            && (self.from_input || self.to_output)
        {
            failure.code = FailureCode::CannotResume;
            report.summary.status = Status::Failed;
            self.run.events.note(if self.from_input {
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

    /// Name of a destination without files.
    fn nowhere(&self) -> Vec<u8> {
        if self.to_output { &b"-"[..] } else { b"null:" }.to_vec()
    }

    /// The message of a transfer that cannot restart, if this is one.
    fn once(&self) -> Option<&'static str> {
        if self.from_input {
            Some(INPUT_IS_GONE)
        } else {
            self.to_output.then_some(OUTPUT_IS_GONE)
        }
    }

    /// Memory for blocks, including blocks that wait for their turn in a pipe.
    fn memory_bytes(&self) -> usize {
        usize::try_from(self.settings.memory_bytes).unwrap_or(usize::MAX)
    }

    /// The transfer's share of the network.
    fn share(&self) -> Share {
        let sharing = &self.settings.sharing;
        Share {
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

/// Why a transfer from standard input does not restart.
const INPUT_IS_GONE: &str = "the other side stopped or forgot the transfer, and standard input cannot be read again; give the whole input once more";

/// Why a transfer to standard output does not restart.
const OUTPUT_IS_GONE: &str = "the other side stopped or forgot the transfer, and data already written to standard output cannot be taken back; start again";

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
