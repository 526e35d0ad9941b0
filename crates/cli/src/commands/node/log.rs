//! `godwit job log`: the events of a job, a line each.
//! Keeps nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ArgMatches;
use godwit_api::event::Event;
use godwit_api::rest::LogLine;
use godwit_client::Client;

use super::when::Clock;
use super::{print_json, text, words};
use crate::exit::{Exit, Failure};
use crate::output::{complain, line_of, print, printable};

/// Lines of a page.
const PAGE: usize = 1_000;

/// Interval between looks at a followed log.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Prints the log, and follows it if asked to.
pub(super) fn run(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let jobs = client.jobs();
    let id = jobs.find(&text(matches, "id")?)?.id;
    let json = matches.get_flag("json");
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
            } else if let Some(text) = shown(line, &clock) {
                print(&text);
            }
            after = after.max(line.seq);
        }
        if !page.lines.is_empty() {
            continue;
        }
        if ended {
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

fn shown(line: &LogLine, clock: &Clock) -> Option<String> {
    let event: Event = serde_json::from_value(line.event.clone()).ok()?;
    let text = line_of(&event)?;
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
