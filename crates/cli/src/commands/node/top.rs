//! `godwit top`: nodes, jobs, channels, hosts, divided jobs, flows and the transfer buffer as they are, refreshed each second.
//! Steers nothing.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::rest::{
    Bottleneck, BufferView, ClusterView, FlowView, JobView, NodeProgress, WorkView,
};
use godwit_api::units::{counted, human_rate, human_size};
use godwit_client::{Buffer, Client, Flows, JobFilter};
use serde::Serialize;

use super::when::Clock;
use super::{JOBS_MAX, flow, hosts, print_json, table, words, work};
use crate::exit::{Exit, Failure};
use crate::output::{print, printable};
use godwit_api::shown::printable_lines;
use godwit_node::signals;

/// Interval between two tables; faster ones cannot be read.
const REFRESH: Duration = Duration::from_secs(1);

/// Most running jobs whose work and hosts are shown: more than fit a screen.
const WORKS_MAX: usize = 16;

/// Interval between looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Switches a terminal to its second screen, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Moves to the first line, and clears to the end of the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

/// The state shown at one moment.
#[derive(Serialize)]
struct Seen {
    /// The nodes; None if the node knows no cluster.
    cluster: Option<ClusterView>,
    /// Running jobs first, then waiting ones.
    jobs: Vec<JobView>,
    /// The work of divided jobs.
    work: Vec<WorkView>,
    /// The transfer buffer of the node; None if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer: Option<BufferView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flows: Vec<FlowView>,
    #[serde(skip)]
    at: Instant,
}

/// Shows running jobs until a signal comes; only once if asked to, or without a terminal.
pub(super) fn run(client: &Client, json: bool, once: bool) -> Result<Exit, Failure> {
    if json {
        print_json(&look(client)?);
        return Ok(Exit::Complete);
    }
    if once || table::width().is_none() {
        print(&screen(client, &look(client)?, None));
        return Ok(Exit::Complete);
    }
    // Before the screen changes, so that an error of the first look stays visible.
    let mut seen = look(client)?;
    let mut before = None;
    let ended = Arc::new(AtomicBool::new(false));
    signals::watch(&ended).map_err(Failure::local)?;
    put(ENTER);
    let outcome = loop {
        draw(&screen(client, &seen, before.as_ref()));
        let next = Instant::now() + REFRESH;
        while Instant::now() < next && !ended.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        if ended.load(Ordering::Relaxed) {
            break Ok(Exit::Complete);
        }
        match look(client) {
            Ok(now) => before = Some(std::mem::replace(&mut seen, now)),
            Err(failure) => break Err(failure),
        }
    };
    put(LEAVE);
    outcome
}

fn look(client: &Client) -> Result<Seen, Failure> {
    let filter = JobFilter {
        states: words::OPEN.to_vec(),
        ..JobFilter::default()
    };
    let calls = client.jobs();
    let mut jobs = calls.list(&filter, JOBS_MAX)?;
    jobs.sort_by_key(|job| !words::is_moving(job.state));
    let cluster = match client.cluster().view() {
        Ok(view) => Some(view),
        // A node of an earlier version, or one without a cluster.
        Err(error) if error.status() == Some(404) => None,
        Err(error) => return Err(error.into()),
    };
    let buffer = match Buffer::of(client).view() {
        Ok(view) => Some(view).filter(|view| !view.volumes.is_empty()),
        Err(error) if error.status() == Some(404) => None,
        Err(error) => return Err(error.into()),
    };
    let flows = match Flows::of(client).list() {
        Ok(flows) => flows,
        Err(error) if error.status() == Some(404) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut work = Vec::new();
    let moving = jobs.iter().filter(|job| words::is_moving(job.state));
    for job in moving.take(WORKS_MAX) {
        work.extend(calls.work(&job.id)?);
    }
    Ok(Seen {
        cluster,
        jobs,
        work,
        buffer,
        flows,
        at: Instant::now(),
    })
}

fn screen(client: &Client, seen: &Seen, before: Option<&Seen>) -> String {
    let (clock, jobs) = (Clock::now(), &seen.jobs);
    let moving = jobs.iter().filter(|job| words::is_moving(job.state));
    // A job with several destinations is counted by the job of each.
    let single = jobs.iter().filter(|job| job.destinations.is_none());
    let running = single.clone().filter(|job| words::is_moving(job.state));
    let rate = running.clone().filter_map(words::bytes_per_second).sum();
    let running = running.count();
    let nodes = seen.cluster.as_ref();
    let nodes = nodes.filter(|cluster| cluster.nodes.len() > 1);
    let of = nodes.map_or_else(String::new, |cluster| {
        format!("{} nodes, ", cluster.nodes.len())
    });
    let head = format!(
        "{}: {of}{running} running, {} waiting, {}",
        client.node_name(),
        single.count() - running,
        human_rate(rate),
    );
    let mut parts = vec![table::cut(&head, table::width())];
    if let Some(now) = &seen.buffer {
        let earlier = before.and_then(|before| Some((before.buffer.as_ref()?, before.at)));
        let earlier = earlier.map(|(view, at)| (view, seen.at.saturating_duration_since(at)));
        parts.push(buffer(now, earlier));
    }
    parts.extend(nodes.map(work::cluster));
    if !seen.flows.is_empty() {
        parts.push(flow::rows(&seen.flows, &clock));
    }
    if !jobs.is_empty() {
        parts.push(table::jobs(jobs, &clock, table::width()));
    }
    parts.extend(moving.clone().filter_map(nodes_of));
    parts.extend(moving.clone().filter_map(channels));
    parts.extend(moving.take(WORKS_MAX).filter_map(hosts_of));
    let works = seen.work.iter();
    parts.extend(works.map(|work| format!("{} is {}", printable(&work.job), work::text(work))));
    let text = parts.join("\n\n");
    let lines = text.lines().map(|line| table::cut(line, table::width()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The transfer buffer in a line: its contents, and its rates since an earlier look.
fn buffer(now: &BufferView, earlier: Option<(&BufferView, Duration)>) -> String {
    let held = now.bytes_total.saturating_sub(now.bytes_free);
    let (held, all) = (human_size(held), human_size(now.bytes_total));
    let mut parts = vec![format!("buffer: {held} of {all} in use")];
    for (bytes, what) in [(now.bytes_dirty, "undrained"), (now.bytes_kept, "kept")] {
        if bytes > 0 {
            parts.push(format!("{} {what}", human_size(bytes)));
        }
    }
    if let Some((before, time)) = earlier {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = |of: fn(&BufferView) -> u64| {
            let bytes = u128::from(of(now).saturating_sub(of(before)));
            u64::try_from(bytes * 1_000 / u128::from(millis)).unwrap_or(u64::MAX)
        };
        for (rate, what) in [
            (rate(|view| view.filled_bytes), "fills"),
            (rate(|view| view.drained_bytes), "drains"),
            (rate(|view| view.hit_bytes), "serves"),
        ] {
            if rate > 0 {
                parts.push(format!("{what} {}", human_rate(rate)));
            }
        }
    }
    let volumes = now.volumes.iter();
    let troubled = volumes.filter(|volume| volume.state != "well").count() as u64;
    if troubled > 0 {
        parts.push(format!("{} not well", counted(troubled, "volume")));
    }
    for stall in &now.stalled {
        parts.push(format!("export {} takes no data", printable(&stall.export)));
    }
    if now.is_nearly_full() {
        parts.push("nearly full".to_owned());
    }
    table::cut(&parts.join(", "), table::width())
}

/// The nodes that run a divided job.
fn nodes_of(job: &JobView) -> Option<String> {
    let nodes = &job.progress.as_ref()?.nodes;
    let row = |node: &NodeProgress| {
        vec![
            printable(&job.id),
            printable(&node.node),
            printable(&node.to),
            node.streams.to_string(),
            human_rate(words::whole(node.bytes_per_second)),
            node.bottleneck.map_or("", Bottleneck::words).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    let head = ["JOB", "NODE", "TO", "STREAMS", "RATE", "LIMITED BY"];
    (!rows.is_empty()).then(|| table::plain(&head, &rows))
}

/// The hosts at both ends of a job.
fn hosts_of(job: &JobView) -> Option<String> {
    let hosts = hosts::lines(job, job.progress.as_ref()?);
    let lines: Vec<String> = hosts
        .iter()
        .map(|host| format!("{} {}", printable(&job.id), printable(host)))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The network paths of a job that has several.
fn channels(job: &JobView) -> Option<String> {
    let channels = &job.progress.as_ref()?.channels;
    if channels.len() < 2 {
        return None;
    }
    let rows: Vec<Vec<String>> = channels
        .iter()
        .map(|channel| {
            let rate = channel.bytes_per_second.map(words::whole);
            vec![
                printable(&job.id),
                printable(&channel.name),
                channel.streams.to_string(),
                rate.map_or_else(String::new, human_rate),
                match channel.cuts {
                    0 => String::new(),
                    cuts => cuts.to_string(),
                },
            ]
        })
        .collect();
    let head = ["JOB", "CHANNEL", "STREAMS", "RATE", "CUTS"];
    Some(table::plain(&head, &rows))
}

/// Shows as much as fits the terminal.
fn draw(text: &str) {
    let rows = table::height().unwrap_or(usize::MAX);
    let text = printable_lines(text);
    let lines: Vec<&str> = text.lines().take(rows).collect();
    put(&format!("{CLEAR}{}", lines.join("\r\n")));
}

/// Writes to the terminal. A terminal that is gone ends the program by its signal.
fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
