//! `godwit job watch`: shows the progress of a job until its end.
//! Steers nothing: the job does not depend on its watchers.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use godwit_api::event::{Event, EventSink as _, Evidence, Limited, Progress};
use godwit_api::rest::{Bottleneck, JobView, NodeProgress, ProgressView};
use godwit_api::units::counted;
use godwit_client::{Client, ClientError, Events, News};

use super::when::Clock;
use super::{exit_of, hosts, print_json, show, table, words};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Interval without news after which the job itself is requested.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Interval between looks at a job on a node without events.
const LOOK_WITHOUT_EVENTS: Duration = Duration::from_secs(1);

/// Watches a job to its end; the exit is that of the job.
pub(super) fn run(
    client: &Client,
    id: &str,
    json: bool,
    started: Instant,
) -> Result<Exit, Failure> {
    // In the other order, changes between the look and the first event would be missed.
    let mut events = match client.events(Some(id)) {
        Ok(events) => Some(events),
        // A node without events is polled.
        Err(error) if error.status() == Some(404) => None,
        Err(error) => return Err(error.into()),
    };
    let mut watched = Watched {
        output: Output::new(false, std::io::stderr().is_terminal(), started, None),
        json,
        printed: None,
        failed: 0,
        nodes: Vec::new(),
        limited: None,
        explained: Vec::new(),
    };
    let mut job = client.jobs().get(id)?;
    loop {
        watched.job(&job);
        if words::has_ended(job.state) {
            if !json {
                let clock = Clock::now();
                let mut text = show::text(&job, &clock);
                let destinations = show::destinations(client, &job)?;
                if !destinations.is_empty() {
                    let rows = table::destinations(&destinations, &clock);
                    text = format!("{text}\n\n{rows}");
                }
                watched.output.last(&text);
            }
            return Ok(exit_of(job.state));
        }
        job = loop {
            match next(events.as_mut())? {
                Some(News::Job(job)) if job.id == id => break *job,
                Some(News::Progress { job: of, progress }) if of == id => {
                    watched.progress(&job, &progress);
                }
                Some(News::Job(_) | News::Progress { .. }) => {}
                Some(News::Lost(error)) => watched
                    .output
                    .note(&format!("{error}; trying again for five minutes")),
                Some(News::Missed) | None => match client.jobs().get(id) {
                    Ok(job) => break job,
                    Err(error) if error.is_passing() => {}
                    Err(error) => return Err(error.into()),
                },
            }
        };
    }
}

/// The next news; None when it is time to look.
fn next(events: Option<&mut Events<'_>>) -> Result<Option<News>, ClientError> {
    match events {
        Some(events) => events.next(LOOK_EVERY),
        None => {
            std::thread::sleep(LOOK_WITHOUT_EVENTS);
            Ok(None)
        }
    }
}

/// The shown state of a job.
struct Watched {
    output: Output,
    json: bool,
    printed: Option<String>,
    /// The number of failed entries in the last output.
    failed: u64,
    /// The nodes at work in the last output, each with the node that it sends to.
    nodes: Vec<(String, String)>,
    /// The stage whose limit was explained last.
    limited: Option<Bottleneck>,
    /// The stages whose limit was explained with the hosts.
    explained: Vec<Bottleneck>,
}

impl Watched {
    /// Shows the job if it has changed.
    fn job(&mut self, job: &JobView) {
        if self.json {
            let line = serde_json::to_string(job).unwrap_or_default();
            if self.printed.as_ref() != Some(&line) {
                print_json(job);
                self.printed = Some(line);
            }
            return;
        }
        let clock = Clock::now();
        let text = match words::why(job, &clock) {
            Some(why) => format!("{} {}: {why}", job.id, words::state_of(job)),
            None => format!("{} {}", job.id, words::state_of(job)),
        };
        if self.printed.as_ref() != Some(&text) {
            self.output.note(&text);
            self.printed = Some(text);
        }
        if let Some(progress) = &job.progress {
            self.progress(job, progress);
        }
    }

    /// Shows the progress of the job.
    fn progress(&mut self, job: &JobView, progress: &ProgressView) {
        if self.json {
            print_json(progress);
            return;
        }
        if progress.failed > self.failed {
            self.output.note(&failures(progress.failed, &job.id));
        }
        self.failed = progress.failed;
        let nodes: Vec<_> = progress.nodes.iter().map(pair).collect();
        if !nodes.is_empty() && nodes != self.nodes {
            self.output.note(&at_work(&nodes));
        }
        self.nodes = nodes;
        if let Some(why) = &progress.bottleneck_text
            && progress.bottleneck != self.limited
        {
            self.output.note(&format!("limited by {why}"));
            self.limited = progress.bottleneck;
        }
        // Once for each stage, so that a limit that comes and goes does not fill the screen.
        if let Some(stage) = progress.bottleneck
            && !self.explained.contains(&stage)
        {
            let hosts = hosts::lines(job, progress);
            for host in &hosts {
                self.output.note(host);
            }
            if !hosts.is_empty() {
                self.explained.push(stage);
            }
        }
        self.output.emit(Event::Progress(event(progress)));
    }
}

/// The message about failed entries of a running job.
fn failures(failed: u64, id: &str) -> String {
    let failed = counted(failed, "entry");
    format!("{failed} failed so far; list them with: godwit job log {id}")
}

fn pair(node: &NodeProgress) -> (String, String) {
    (node.node.clone(), node.to.clone())
}

/// The message about the nodes that run a divided job.
fn at_work(nodes: &[(String, String)]) -> String {
    let words = nodes.iter().map(|(node, to)| match to.as_str() {
        "" => node.clone(),
        to => format!("{node} to {to}"),
    });
    let number = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
    let words = words.collect::<Vec<_>>().join(", ");
    format!("{} at work: {words}", counted(number, "node"))
}

/// The progress as an event of a transfer.
fn event(progress: &ProgressView) -> Progress {
    let limited = |stage| Limited {
        stage,
        evidence: Evidence::default(),
    };
    Progress {
        bytes: progress.bytes,
        bytes_total: progress.bytes_total,
        bytes_per_second: progress.bytes_per_second,
        files: progress.files,
        files_total: progress.files_total,
        files_settled: progress.files_settled,
        seconds_left: words::seconds_left(progress),
        scanning: progress.scanning,
        streams: progress.streams,
        bottleneck: progress.bottleneck.map(limited),
        stages: progress.stages.clone(),
        ..Progress::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_at_work_are_named_with_their_receivers() {
        let pair = |node: &str, to: &str| (node.to_owned(), to.to_owned());
        let nodes = [pair("s1", "d2"), pair("s2", "")];
        assert_eq!(at_work(&nodes), "2 nodes at work: s1 to d2, s2");
        assert_eq!(at_work(&nodes[1..]), "1 node at work: s2");
    }

    #[test]
    fn failed_entries_are_counted_in_plain_words() {
        for (number, words) in [
            (1, "1 entry failed so far; "),
            (5, "5 entries failed so far; "),
        ] {
            let text = failures(number, "j1");
            assert!(text.starts_with(words), "{text}");
            assert!(text.ends_with("godwit job log j1"), "{text}");
        }
    }
}
