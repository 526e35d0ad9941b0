//! `godwit job report`: parameters, attempts and failed entries of a job, or the node's page with plots; and `godwit job manifest`.
//! Computes no figure.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use clap::ArgMatches;
use godwit_api::rest::{AttemptView, FailureGroup};
use godwit_api::units::{counted, human_size};
use godwit_client::Client;

use super::when::Clock;
use super::{print_json, show, table, text, words};
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
        print_json(&jobs.report(&job.id)?);
        return Ok(Exit::Complete);
    }
    let (attempts, failures) = (jobs.attempts(&job.id)?, jobs.failures(&job.id)?);
    let clock = Clock::now();
    let mut parts = vec![show::text(&job, &clock)];
    if !attempts.is_empty() {
        parts.push(attempts_table(&attempts, &clock));
    }
    parts.extend(failures.iter().map(failure));
    print(&parts.join("\n\n"));
    Ok(Exit::Complete)
}

/// Prints the manifest of a job while it arrives.
pub(super) fn manifest(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let jobs = client.jobs();
    let job = jobs.find(&text(matches, "id")?)?;
    let mut manifest = jobs.manifest(&job.id)?;
    while let Some(piece) = manifest.piece()? {
        if !print_bytes(&piece)? {
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
                printable(attempt.outcome.as_deref().unwrap_or("runs")),
                printable(reason.map_or("", |reason| &reason.text)),
            ]
        })
        .collect();
    let head = [
        "ATTEMPT", "NODE", "STARTED", "TOOK", "BYTES", "FILES", "ENDED", "WHY",
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
