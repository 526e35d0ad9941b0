//! `godwit top`: the jobs of a node as they run, refreshed each second.
//! Steers nothing.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::rest::JobView;
use godwit_api::units::human_rate;
use godwit_client::{Client, JobFilter};

use super::when::Clock;
use super::{JOBS_MAX, print_json, table, words};
use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::signals;

/// A table a second is as much as anybody reads.
const REFRESH: Duration = Duration::from_secs(1);

/// How soon a signal is obeyed.
const LOOK: Duration = Duration::from_millis(50);

/// Where a terminal has a second screen: go there; come back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the first line, and to the end of the screen everything away.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shows the jobs until a signal comes; once where there is no terminal.
pub(super) fn run(client: &Client, json: bool) -> Result<Exit, Failure> {
    if json {
        jobs(client)?.iter().for_each(print_json);
        return Ok(Exit::Complete);
    }
    if table::width().is_none() {
        print(&screen(client, &jobs(client)?));
        return Ok(Exit::Complete);
    }
    // Before the screen changes: a fault of the first look is to be seen after it.
    let mut found = jobs(client)?;
    let ended = Arc::new(AtomicBool::new(false));
    signals::watch(&ended).map_err(Failure::local)?;
    put(ENTER);
    let outcome = loop {
        draw(&screen(client, &found));
        let next = Instant::now() + REFRESH;
        while Instant::now() < next && !ended.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        if ended.load(Ordering::Relaxed) {
            break Ok(Exit::Complete);
        }
        match jobs(client) {
            Ok(now) => found = now,
            Err(failure) => break Err(failure),
        }
    };
    put(LEAVE);
    outcome
}

/// What moves first, then what waits.
fn jobs(client: &Client) -> Result<Vec<JobView>, Failure> {
    let filter = JobFilter {
        states: words::OPEN.to_vec(),
        ..JobFilter::default()
    };
    let mut jobs = client.jobs().list(&filter, JOBS_MAX)?;
    jobs.sort_by_key(|job| !words::is_moving(job.state));
    Ok(jobs)
}

fn screen(client: &Client, jobs: &[JobView]) -> String {
    let clock = Clock::now();
    let moving = jobs.iter().filter(|job| words::is_moving(job.state));
    let rate = moving.clone().filter_map(words::bytes_per_second).sum();
    let running = moving.count();
    let head = format!(
        "{}: {running} running, {} waiting, {}",
        client.node_name(),
        jobs.len() - running,
        human_rate(rate),
    );
    let head = table::cut(&head, table::width());
    match jobs {
        [] => head,
        jobs => format!("{head}\n\n{}", table::jobs(jobs, &clock, table::width())),
    }
}

/// Shows as much as the terminal has room for.
fn draw(text: &str) {
    let rows = table::height().unwrap_or(usize::MAX);
    let lines: Vec<&str> = text.lines().take(rows).collect();
    put(&format!("{CLEAR}{}", lines.join("\r\n")));
}

/// A terminal that went away ends the program by its signal.
fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
