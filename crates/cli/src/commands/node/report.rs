//! `godwit job report`: parameters, attempts and failed entries of a job, or the node's page with plots; and `godwit job manifest`.
//! Computes no figure.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use clap::ArgMatches;
use godwit_api::rest::{
    AttemptOutcome, AttemptView, Bottleneck, FailureGroup, HERE, JobReport, NodeShare,
};
use godwit_api::units::{counted, human_rate, human_size};
use godwit_client::Client;

use super::when::Clock;
use super::{hosts, print_json, show, table, text, words};
use crate::exit::{Exit, Failure};
use crate::output::{print, printable};

/// Prints the report, or writes the page.
pub(super) fn run(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let jobs = client.jobs();
    let job = jobs.find(&text(matches, "id")?)?;
    if let Some(file) = matches.get_one::<OsString>("html") {
        write(Path::new(file), &jobs.report_page(&job.id)?)?;
        return Ok(Exit::Complete);
    }
    if matches.get_flag("json") {
        print_json(&jobs.report::<serde_json::Value>(&job.id)?);
        return Ok(Exit::Complete);
    }
    let report: JobReport = jobs.report(&job.id)?;
    let clock = Clock::now();
    let mut parts = vec![show::text(&job, &clock)];
    if report.description.gather {
        parts.push(report.description.merge.sentence().to_owned());
    }
    if !report.destinations.is_empty() {
        parts.push(table::destinations(&report.destinations, &clock));
    }
    if !report.bottlenecks.is_empty() {
        parts.push(format!("limited by {}", report.limits_text()));
    }
    if let Some(joules) = report.joules_per_terabyte {
        parts.push(format!(
            "energy {joules:.0} J for each terabyte (processor packages)"
        ));
    }
    let runner = report.attempts.last();
    let runner = runner.map_or(HERE, |attempt| attempt.node.as_str());
    let unread = hosts::unread(runner, &report.job, &report.samples);
    parts.extend(unread.iter().map(|why| printable(why)));
    if !report.attempts.is_empty() {
        parts.push(attempts_table(&report.attempts, &clock));
    }
    if !report.nodes.is_empty() {
        parts.push(nodes_table(&report.nodes, &clock));
    }
    parts.extend(report.evenness.map(|even| printable(&even.words())));
    parts.extend(report.failures.iter().map(failure));
    print(&parts.join("\n\n"));
    Ok(Exit::Complete)
}

/// Prints the manifest of a job while it arrives.
pub(super) fn manifest(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let jobs = client.jobs();
    let job = jobs.find(&text(matches, "id")?)?;
    let mut manifest = jobs.manifest(&job.id)?;
    while let Some(chunk) = manifest.chunk()? {
        if !print_bytes(&chunk)? {
            break;
        }
    }
    Ok(Exit::Complete)
}

fn write(file: &Path, page: &[u8]) -> Result<(), Failure> {
    if file == Path::new("-") {
        return print_bytes(page).map(drop);
    }
    fs::write(file, page).map_err(|error| Failure::local(format!("{}: {error}", file.display())))
}

/// Writes to standard output; false once its reader is gone.
fn print_bytes(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::local(format!("standard output: {error}"))),
    }
}

fn attempts_table(attempts: &[AttemptView], clock: &Clock) -> String {
    let rows: Vec<Vec<String>> = attempts
        .iter()
        .map(|attempt| {
            let seconds = attempt
                .ended
                .and_then(|ended| u64::try_from((ended.0 - attempt.started.0) / 1_000).ok());
            let reason = attempt.reason.as_ref();
            vec![
                attempt.number.to_string(),
                printable(&attempt.node),
                clock.show(attempt.started),
                seconds.map_or_else(String::new, words::span),
                human_size(attempt.bytes),
                attempt.files.to_string(),
                printable(
                    attempt
                        .outcome
                        .as_ref()
                        .map_or("runs", AttemptOutcome::as_str),
                ),
                printable(reason.map_or("", |reason| &reason.text)),
            ]
        })
        .collect();
    let head = [
        "ATTEMPT", "NODE", "STARTED", "TOOK", "BYTES", "FILES", "ENDED", "WHY",
    ];
    table::plain(&head, &rows)
}

/// The nodes of a divided job.
fn nodes_table(nodes: &[NodeShare], clock: &Clock) -> String {
    let rows: Vec<Vec<String>> = nodes
        .iter()
        .map(|node| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a float cast saturates, and a rate is never negative"
            )]
            let rate = node.bytes_per_second as u64;
            vec![
                printable(&node.node),
                clock.show(node.began),
                clock.show(node.ended),
                human_rate(rate),
                format!("{:.0} %", node.share * 100.0),
                node.bottleneck.map_or("", Bottleneck::words).to_owned(),
                printable(&node.interfaces_text()),
            ]
        })
        .collect();
    let head = [
        "NODE",
        "FIRST SEEN",
        "LAST SEEN",
        "RATE",
        "SHARE",
        "LIMITED BY",
        "INTERFACES",
    ];
    table::plain(&head, &rows)
}

fn failure(group: &FailureGroup) -> String {
    let mut lines = vec![format!(
        "{} failed: {}",
        counted(group.count, "entry"),
        printable(&group.reason.text)
    )];
    lines.extend(
        group
            .examples
            .iter()
            .map(|path| format!("    {}", printable(path))),
    );
    let shown = u64::try_from(group.examples.len()).unwrap_or(u64::MAX);
    if group.count > shown && shown > 0 {
        lines.push(format!("    and {} more", group.count - shown));
    }
    lines.join("\n")
}
