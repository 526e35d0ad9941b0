//! `godwit job log`: the events of a job, a line each; of a dry run that has ended, the summary and then the entries by name.
//! Keeps nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ArgMatches;
use godwit_api::event::Event;
use godwit_api::rest::{JobView, LogLine};
use godwit_client::Client;

use super::when::Clock;
use super::{print_json, text, words};
use crate::exit::{Exit, Failure};
use crate::output::{DryList, complain, line_of, print, printable};

/// Lines of a page.
const PAGE: usize = 1_000;

/// Interval between looks at a followed log.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Prints the log, and follows it if asked to.
pub(super) fn run(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let jobs = client.jobs();
    let job = jobs.find(&text(matches, "id")?)?;
    let json = matches.get_flag("json");
    let mut dry = DryLog::of(&job).filter(|_| !json);
    let id = job.id;
    let mut after = 0;
    let mut missing = BTreeMap::new();
    // A job writes its last lines before it ends, so the log is read once more after the end.
    let mut ended = !matches.get_flag("follow");
    loop {
        let page = jobs.log(&id, after, PAGE)?;
        missing.extend(
            page.missing
                .iter()
                .map(|missing| (missing.node.clone(), missing.why.clone())),
        );
        let clock = Clock::now();
        for line in &page.lines {
            if json {
                print_json(line);
            } else if let Ok(event) = serde_json::from_value(line.event.clone()) {
                match &mut dry {
                    Some(dry) => dry.add(line, &event, &clock),
                    None => shown(line, &event, &clock)
                        .iter()
                        .for_each(|text| print(text)),
                }
            }
            after = after.max(line.seq);
        }
        if !page.lines.is_empty() {
            continue;
        }
        if ended {
            dry.iter_mut().for_each(DryLog::print);
            for (node, why) in &missing {
                complain(&printable(&format!("the log of {node} is missing: {why}")));
            }
            return Ok(match missing.is_empty() {
                true => Exit::Complete,
                false => Exit::Partial,
            });
        }
        ended = words::has_ended(jobs.get(&id)?.state);
        if !ended {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The log of a dry run that has ended, until all of it is read.
struct DryLog {
    attempt: u32,
    summary: Option<String>,
    others: Vec<String>,
    entries: DryList,
}

impl DryLog {
    fn of(job: &JobView) -> Option<Self> {
        words::is_dry(job).then(|| Self {
            attempt: job.attempts,
            summary: None,
            others: Vec::new(),
            entries: DryList::default(),
        })
    }

    fn add(&mut self, line: &LogLine, event: &Event, clock: &Clock) {
        match event {
            // Each attempt names all entries.
            Event::Item(item) if line.attempt == self.attempt => {
                print_lines(&self.entries.add(item));
            }
            Event::Item(_) => {}
            Event::Summary(_) => self.summary = shown(line, event, clock),
            _ => self.others.extend(shown(line, event, clock)),
        }
    }

    fn print(&mut self) {
        let lines = self.summary.take().into_iter();
        print_lines(&lines.chain(self.others.drain(..)).collect::<Vec<_>>());
        print_lines(&self.entries.sorted());
    }
}

fn print_lines(lines: &[String]) {
    lines.iter().for_each(|line| print(line));
}

fn shown(line: &LogLine, event: &Event, clock: &Clock) -> Option<String> {
    let text = line_of(event)?;
    let site = line.from.as_ref();
    let site = site.map_or_else(String::new, |from| format!("{}: ", from.site));
    let node = line.node.as_ref();
    let node = node.map_or_else(String::new, |node| format!("{}: ", printable(node)));
    Some(format!(
        "{} #{} {node}{site}{text}",
        clock.show(line.at),
        line.attempt
    ))
}
