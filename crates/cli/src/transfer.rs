//! Joins `godwit cp` to the engine: both ends of a transfer from two endpoints, and what is said at its end.
//! Parses nothing, and prints through the output only.

mod by_ssh;
mod channels;
mod ends;
mod kept;
mod limited;
mod list;
mod places;
mod rate;
pub(crate) mod remote;
mod report;
mod retell;
mod selection;
mod terms;
mod third;
mod told;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use godwit_api::endpoint::{Endpoint, Place};
use godwit_api::event::{Event, EventSink, Started, Stats, Status, Summary};
use godwit_api::settings::CpSettings;
use godwit_engine::Snapshot;
use godwit_engine::names::ListBytes;
use godwit_engine::session::Connector;
use godwit_proto::agent::Errand;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::reports::{Finished, Reports};
use crate::running::Steering;
use crate::signals;
pub(crate) use remote::client_tls;
use report::Report;
use selection::Chosen;
pub(crate) use terms::bounds_of;
use terms::lossy;

/// What every part of a transfer needs.
pub(crate) struct Job<'a> {
    settings: &'a CpSettings,
    home: &'a Home,
    chosen: Chosen,
    output: Arc<dyn EventSink>,
    /// When the seconds of events begin.
    started: Instant,
    reports: Arc<Reports>,
    /// The source is standard input, the destination standard output: neither can be begun anew.
    from_input: bool,
    to_output: bool,
    output_used: AtomicBool,
    steering: Steering,
    interrupted: Arc<AtomicBool>,
}

/// Runs one transfer to its end.
pub(crate) fn run(
    settings: &CpSettings,
    sources: Vec<Endpoint>,
    destination: Endpoint,
    home: &Home,
    output: Arc<dyn EventSink>,
    started: Instant,
    reports: Reports,
) -> Exit {
    godwit_sys::umask::clear();
    let chosen =
        match Chosen::of(&settings.selection, home).and_then(|chosen| chosen.suits(&sources)) {
            Ok(chosen) => chosen,
            Err(failure) => {
                output.error(&failure.message);
                return failure.exit;
            }
        };
    let job = Job {
        settings,
        home,
        chosen,
        output,
        started,
        reports: Arc::new(reports),
        from_input: sources.contains(&Endpoint::Stdio),
        to_output: destination == Endpoint::Stdio,
        output_used: AtomicBool::new(false),
        steering: Steering::default(),
        interrupted: Arc::new(AtomicBool::new(false)),
    };
    let report = job
        .prepare()
        .and_then(|()| job.transfer(&sources, &destination));
    let report = report.unwrap_or_else(|failure| {
        job.output.error(&failure.message);
        Report::failed(failure.exit)
    });
    let mut report = job.finish_reports(job.without_resuming(report));
    // A dry run does not read to where the size of the input would be known.
    if job.from_input && settings.comparison.dry_run && report.summary.files > 0 {
        report.summary.bytes = None;
    }
    if settings.reports.stats && report.summary.began {
        job.output.tell(stats_of(&report));
    }
    let exit = report.exit;
    // Wrong usage is no transfer, so it has no summary.
    if exit != Exit::Usage {
        job.say_summary(report);
    }
    exit
}

/// Runs what another machine's godwit wants: sources of this one, to an agent that `connector` reaches.
pub(crate) fn run_errand(
    settings: &CpSettings,
    errand: &Errand,
    connector: Arc<dyn Connector>,
    list: Option<Arc<dyn ListBytes>>,
    home: &Home,
    output: Arc<dyn EventSink>,
    interrupted: Arc<AtomicBool>,
) -> Exit {
    let started = Instant::now();
    godwit_sys::umask::clear();
    let (entries, faults) = (errand.entries_wanted, errand.faults_wanted);
    let prepared = Chosen::told(errand, list)
        .and_then(|chosen| Ok((chosen, Reports::told(&output, entries, faults, home)?)));
    let (chosen, reports) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            output.error(&failure.message);
            say_failed(&*output, failure.exit, started);
            return failure.exit;
        }
    };
    let job = Job {
        settings,
        home,
        chosen,
        output,
        started,
        reports: Arc::new(reports),
        from_input: false,
        to_output: false,
        output_used: AtomicBool::new(false),
        steering: Steering::default(),
        interrupted,
    };
    let report = job.send_for(errand, connector).unwrap_or_else(|failure| {
        job.output.error(&failure.message);
        Report::failed(failure.exit)
    });
    job.output.tell(Event::Ended {});
    let report = job.finish_reports(report);
    if errand.stats_wanted {
        job.output.tell(stats_of(&report));
    }
    let exit = report.exit;
    job.say_summary(report);
    exit
}

/// The last word on something that never began.
pub(crate) fn say_failed(events: &dyn EventSink, exit: Exit, started: Instant) {
    let mut summary = Report::failed(exit).summary;
    summary.seconds = elapsed_seconds(started);
    events.tell(Event::Summary(Summary::Transfer(Box::new(summary))));
}

/// Seconds since `started`: milliseconds are as fine as makes sense.
fn elapsed_seconds(started: Instant) -> f64 {
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
    /// Cores, before any thread is started, and signals.
    fn prepare(&self) -> Result<(), Failure> {
        crate::cores::restrict(self.settings.threads, &self.settings.pin)?;
        signals::watch(&self.interrupted)
            .map_err(|error| Failure::failed(format!("signals cannot be handled: {error}")))
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

    /// What comes from a pipe, or has gone into one, cannot be taken up again.
    fn without_resuming(&self, mut report: Report) -> Report {
        if report.exit == Exit::Interrupted && (self.from_input || self.to_output) {
            report.exit = Exit::Failed;
            report.summary.status = Status::Failed;
            self.output.note(if self.from_input {
                "standard input cannot be read again, so this cannot be resumed; nothing of it has the final name: give the whole input once more"
            } else {
                "standard output has a part of the file, so this cannot be resumed: begin anew"
            });
        }
        report
    }

    /// Writes what is to be written about the transfer; what cannot be is told, and never passes for success.
    fn finish_reports(&self, mut report: Report) -> Report {
        let whole = report.summary.began && matches!(report.exit, Exit::Complete | Exit::Partial);
        let failed = report.summary.failed;
        let dry = self.settings.comparison.dry_run;
        let finished = self
            .reports
            .finish(whole, dry, failed, &*self.output, &|| self.goes_on());
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
                    report.exit = Exit::Partial;
                    report.summary.status = Status::Partial;
                } else if interrupted {
                    report.exit = Exit::Interrupted;
                    report.summary.status = Status::Interrupted;
                }
            }
            Err(failure) => {
                self.output.error(&failure.message);
                report.exit = failure.exit;
                report.summary.status = Status::Failed;
            }
        }
        report
    }

    /// The transfer begins, perhaps anew: tells its user, and lets other commands find it.
    fn say_started(&self, started: Started) {
        self.output.tell(Event::Started(started.clone()));
        let Started {
            transfer,
            sources,
            destination,
            ..
        } = &started;
        let sources: Vec<String> = sources.iter().map(|name| lossy(name)).collect();
        let begun = self
            .steering
            .begin(self.home, transfer, &sources, &lossy(destination));
        if let Err(message) = begun {
            self.output.note(&format!(
                "godwit limit will not find this transfer: {message}"
            ));
        }
    }

    /// The last word.
    fn say_summary(&self, report: Report) {
        let mut summary = report.summary;
        summary.seconds = elapsed_seconds(self.started);
        let summary = Summary::Transfer(Box::new(summary));
        self.output.tell(Event::Summary(summary));
    }

    /// Whether to go on.
    fn goes_on(&self) -> bool {
        !self.interrupted.load(Ordering::Relaxed)
    }
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
