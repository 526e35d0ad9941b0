//! `godwit job show`: a job, with one fact a line.
//! Requests only the job and, if nodes share it, their work.

use clap::ArgMatches;
use godwit_api::event::Encryption;
use godwit_api::failure::Scope;
use godwit_api::job::JobKind;
use godwit_api::rest::{Bottleneck, JobState, JobView, WorkView};
use godwit_api::units::{counted, human_rate, human_size};
use godwit_client::{Client, JobFilter};
use serde::Serialize;

use super::when::Clock;
use super::{JOBS_MAX, hosts, print_json, table, text as argument, words, work};
use crate::exit::{Exit, Failure};
use crate::output::{print, printable};

/// Shows a job.
pub(super) fn run(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let jobs = client.jobs();
    let job = jobs.find(&argument(matches, "id")?)?;
    // Work ends with its job.
    let work = match words::has_ended(job.state) {
        true => None,
        false => jobs.work(&job.id)?,
    };
    let destinations = destinations(client, &job)?;
    if matches.get_flag("json") {
        print_json(&Shown {
            job: &job,
            destinations: &destinations,
            work: work.as_ref(),
        });
        return Ok(Exit::Complete);
    }
    let clock = Clock::now();
    print(&text(&job, &clock));
    if !destinations.is_empty() {
        print(&format!("\n{}", table::destinations(&destinations, &clock)));
    }
    if let Some(work) = &work {
        print(&format!("\n{}", work::text(work)));
    }
    Ok(Exit::Complete)
}

/// The job of each destination, in their order; none of a job with one destination.
pub(super) fn destinations(client: &Client, job: &JobView) -> Result<Vec<JobView>, Failure> {
    let Some(count) = job.destinations else {
        return Ok(Vec::new());
    };
    let filter = JobFilter {
        parent: Some(job.id.clone()),
        ..JobFilter::default()
    };
    let most = usize::try_from(count.total).unwrap_or(usize::MAX);
    let mut jobs = client.jobs().list(&filter, most.min(JOBS_MAX))?;
    jobs.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(jobs)
}

/// The job for programs, with its work and its destinations beside the other fields.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: &'a JobView,
    #[serde(rename = "jobs", skip_serializing_if = "<[JobView]>::is_empty")]
    destinations: &'a [JobView],
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<&'a WorkView>,
}

/// The job for people.
pub(super) fn text(job: &JobView, clock: &Clock) -> String {
    let mut lines = Lines::default();
    lines.add("job", &job.id);
    lines.add("label", &job.label);
    lines.add("owner", &job.owner);
    lines.add(
        "does",
        match job.kind {
            JobKind::Copy => "",
            JobKind::Sync => "sync",
            JobKind::Verify => "verify",
        },
    );
    for source in &job.sources {
        lines.add("from", source);
    }
    match job.destinations {
        Some(count) if count.gather => {
            lines.add("to", &job.destination);
            let all = counted(count.total, "source");
            lines.add("", &format!("{all}, {} of them complete", count.complete));
        }
        Some(count) => lines.add(
            "to",
            &format!(
                "{}, {} of them complete",
                counted(count.total, "destination"),
                count.complete
            ),
        ),
        None => lines.add("to", &job.destination),
    }
    lines.add("part of", job.parent.as_deref().unwrap_or_default());
    lines.add("state", &words::state_of(job));
    lines.add("", &words::why(job, clock).unwrap_or_default());
    lines.add("fault", &fault(job));
    progress(job, clock, &mut lines);
    if job.moved.bytes_again > 0 {
        lines.add("sent again", &human_size(job.moved.bytes_again));
    }
    if let Some(bytes) = job.buffered {
        let size = human_size(bytes);
        lines.add(
            "buffered",
            &format!("{size} on flash, on the way to the export"),
        );
    }
    lines.add("limit", &job.limit.map_or_else(String::new, human_rate));
    if job.priority != 0 {
        lines.add("priority", &job.priority.to_string());
    }
    lines.add("submitted", &clock.show(job.created));
    for (name, time) in [
        ("not before", job.not_before),
        ("deadline", job.deadline),
        ("started", job.started),
        ("ended", job.ended),
    ] {
        lines.add(
            name,
            &time.map_or_else(String::new, |time| clock.show(time)),
        );
    }
    if let (Some(started), Some(ended)) = (job.started, job.ended) {
        let seconds = u64::try_from((ended.0 - started.0) / 1_000).unwrap_or(0);
        lines.add("took", &words::span(seconds));
    }
    if job.attempts > 1 {
        lines.add("attempts", &job.attempts.to_string());
    }
    lines.add("node", job.node.as_deref().unwrap_or_default());
    lines.add("request", job.request.as_deref().unwrap_or_default());
    lines.0.join("\n")
}

/// Fault and advice of the catalogue for a job that failed or waits after a failure.
fn fault(job: &JobView) -> String {
    let code = job.reason.as_ref().and_then(|reason| reason.code.known());
    // A reason of the state alone has no culprit.
    let code = code.filter(|code| matches!(code.scope(), Scope::Job | Scope::Request));
    let is_fault = !matches!(job.state, JobState::Complete | JobState::Cancelled);
    match code.filter(|code| is_fault && !code.is_interruption()) {
        Some(code) => {
            let whose = code.culprit().as_str().replace('_', " ");
            format!("{whose}; what to do: {}", code.advice())
        }
        None => String::new(),
    }
}

/// Adds the running attempt, or the result of the last one.
fn progress(job: &JobView, clock: &Clock, lines: &mut Lines) {
    if let Some(progress) = &job.progress {
        let of = progress
            .bytes_total
            .map_or_else(String::new, |total| format!(" of {}", human_size(total)));
        // An older node does not report the total.
        let files = match progress.files_total.max(progress.files) {
            total if total > progress.files => {
                format!("{} of {}", progress.files, counted(total, "file"))
            }
            total => counted(total, "file"),
        };
        let done = format!("{}{of}, {files}", human_size(progress.bytes));
        lines.add("done", &done);
        lines.add("rate", &words::rate(job));
        lines.add("left", &words::left(job));
        lines.add("ends", &words::ends(progress, clock));
        lines.add("streams", &progress.streams.to_string());
        let stage = progress.bottleneck.map_or("", Bottleneck::words);
        let bottleneck = progress.bottleneck_text.as_deref().unwrap_or(stage);
        lines.add("limited by", bottleneck);
        if progress.behind && job.destinations.is_none() {
            let what = "it reads again what the other destinations have read, because it is slower";
            lines.add("behind", what);
        }
        for node in &progress.nodes {
            let limited = node.bottleneck.map_or_else(String::new, |stage| {
                format!(", limited by {}", stage.words())
            });
            let to = match node.to.as_str() {
                "" => String::new(),
                to => format!(" to {to}"),
            };
            let rate = human_rate(words::whole(node.bytes_per_second));
            lines.add("node", &format!("{}{to}: {rate}{limited}", node.node));
        }
        for host in hosts::lines(job, progress) {
            lines.add("host", &host);
        }
        if progress.failed > 0 {
            lines.add("failed", &counted(progress.failed, "entry"));
        }
    } else if let Some(summary) = &job.summary {
        let number = |name: &str| summary.get(name).and_then(serde_json::Value::as_u64);
        let is_dry = summary["dry_run"] == true;
        if is_dry {
            lines.add(
                "",
                "a dry run: nothing is changed, and job log lists what would be",
            );
        }
        if let (Some(bytes), Some(files)) = (number("bytes"), number("files")) {
            let files = counted(files, "file");
            let done = match job.kind {
                JobKind::Verify => "checked",
                JobKind::Copy | JobKind::Sync if is_dry => "would copy",
                JobKind::Copy | JobKind::Sync => "copied",
            };
            lines.add(done, &format!("{} in {files}", human_size(bytes)));
        }
        let deleted = if is_dry { "to delete" } else { "deleted" };
        for (name, shown) in [
            ("skipped", "unchanged"),
            ("deleted", deleted),
            ("failed", "failed"),
        ] {
            if let Some(count) = number(name).filter(|count| *count > 0) {
                lines.add(shown, &counted(count, "entry"));
            }
        }
        lines.add("lost", &lost(summary));
        let manifest = &summary["manifest"];
        if let Some(digest) = manifest["digest"].as_str() {
            let entries = counted(manifest["entries"].as_u64().unwrap_or(0), "entry");
            let size = human_size(manifest["bytes"].as_u64().unwrap_or(0));
            lines.add("manifest", &format!("{digest}, {entries}, {size}"));
        }
        if let Some(by) = Encryption::words_of(summary) {
            lines.add("encrypted", &by);
        }
    } else if job.moved.bytes > 0 {
        let files = counted(job.moved.files, "file");
        let moved = human_size(job.moved.bytes);
        lines.add("copied", &format!("{moved} in {files} so far"));
    }
}

/// Parts of metadata that did not arrive, each with the number of its entries.
fn lost(summary: &serde_json::Value) -> String {
    let kinds = summary.get("not_kept").and_then(|kinds| kinds.as_object());
    let kinds = kinds.into_iter().flatten();
    let lost = kinds.filter_map(|(kind, count)| {
        let count = count.as_u64().filter(|count| *count > 0)?;
        Some(format!(
            "{} of {}",
            kind.replace('_', " "),
            counted(count, "entry")
        ))
    });
    lost.collect::<Vec<_>>().join(", ")
}

/// Lines of a name and a value; lines without a value are left out.
#[derive(Default)]
pub(super) struct Lines(pub(super) Vec<String>);

impl Lines {
    /// Adds a line.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.0.push(format!("{name:<12}{}", printable(value)));
        }
    }
}
