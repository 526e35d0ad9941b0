//! The commands that speak to a running node: each sends requests by `godwit_client`, and shows the answers.
//! Decides nothing about jobs; the node does.

mod access;
mod account;
mod accounting;
pub(super) mod buffer;
mod choosing;
pub(super) mod cluster;
pub(super) mod connect;
mod far;
mod flow;
mod grants;
mod hosts;
mod list;
mod log;
mod places;
mod report;
mod rules;
mod schedule;
mod show;
mod steer;
mod submit;
mod table;
mod top;
mod watch;
mod webhook;
mod when;
mod window;
mod words;
mod work;

use std::ffi::OsString;
use std::time::Instant;

use clap::ArgMatches;
use godwit_api::rest::JobState;
use godwit_client::JobFilter;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::{print, print_data};
use when::Clock;

/// Most jobs of a list: one page of a node.
const JOBS_MAX: usize = 1_000;

/// Runs a command, or one of a family.
pub(super) fn run(name: &str, matches: &ArgMatches, started: Instant) -> Result<Exit, Failure> {
    let (sub, own) = matches.subcommand().unwrap_or(("", matches));
    if (name, sub) == ("node", "trust") {
        return connect::trust(own);
    }
    match name {
        "access" => return grants::run(sub, own),
        "accounting" => return accounting::run(own),
        "ls" => return list::run(own),
        _ => {}
    }
    let client = connect::connect(own)?;
    let json = own.get_flag("json");
    match (name, sub) {
        ("job", "submit") => submit::run(own, &client, started),
        ("job", "list") => list(own, &client),
        ("job", "show") => show::run(own, &client),
        ("job", "watch") => {
            let id = client.jobs().find(&text(own, "id")?)?.id;
            watch::run(&client, &id, json, started)
        }
        ("job", "log") => log::run(own, &client),
        ("job", "report") => report::run(own, &client),
        ("job", "manifest") => report::manifest(own, &client),
        ("job", verb) => steer::run(verb, own, &client),
        ("cluster", sub) => cluster::run(sub, own, &client),
        ("schedule", sub) => schedule::run(sub, own, &client),
        ("flow", sub) => flow::run(sub, own, &client),
        ("webhook", sub) => webhook::run(sub, own, &client),
        ("node", "limits") => rules::list(own, &client),
        ("node" | "site" | "user", "limit") => rules::limit(name, own, &client),
        ("user", "share") => rules::share(own, &client),
        ("top", _) => top::run(&client, json, own.get_flag("once")),
        ("mkdir" | "rm" | "mv" | "clean", _) => places::run(name, own, &client),
        _ => access::run(name, sub, own, &client),
    }
}

fn list(matches: &ArgMatches, client: &godwit_client::Client) -> Result<Exit, Failure> {
    let states = match optional(matches, "state")? {
        Some(states) => words::states(&states)?,
        None if matches.get_flag("all") => Vec::new(),
        None => words::OPEN.to_vec(),
    };
    let chosen = states.as_slice() != words::OPEN;
    let filter = JobFilter {
        states,
        owner: optional(matches, "owner")?,
        site: optional(matches, "site")?,
        label: optional(matches, "label")?,
        parent: match optional(matches, "parent")? {
            Some(id) => Some(client.jobs().find(&id)?.id),
            None => None,
        },
        id_prefix: None,
    };
    let jobs = client.jobs().list(&filter, JOBS_MAX)?;
    if matches.get_flag("json") {
        jobs.iter().for_each(print_json);
    } else if jobs.is_empty() {
        print(if chosen {
            "no job fits"
        } else {
            "no job runs or waits; --all lists those that have ended, too"
        });
    } else {
        print(&table::jobs(&jobs, &Clock::now(), table::width()));
    }
    Ok(Exit::Complete)
}

/// The exit code for a job in this final state.
fn exit_of(state: JobState) -> Exit {
    match state {
        JobState::Complete => Exit::Complete,
        JobState::Partial => Exit::Partial,
        _ => Exit::Failed,
    }
}

/// Prints a document of the API on one line.
fn print_json<T: Serialize>(document: &T) {
    // Plain fields always become JSON.
    print_data(&serde_json::to_string(document).unwrap_or_default());
}

/// Prints a list: its documents as JSON, the sentence `none` if it is empty, or a table with a row for each entry.
fn print_list<T: Serialize>(
    json: bool,
    entries: &[T],
    none: &str,
    head: &[&str],
    row: impl Fn(&T) -> Vec<String>,
) {
    if json {
        entries.iter().for_each(print_json);
    } else if entries.is_empty() {
        print(none);
    } else {
        let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
        print(&table::plain(head, &rows));
    }
}

/// An option, as text.
fn optional(matches: &ArgMatches, name: &str) -> Result<Option<String>, Failure> {
    matches
        .get_one::<OsString>(name)
        .map(|word| as_text(name, word))
        .transpose()
}

/// A required argument, as text.
fn text(matches: &ArgMatches, name: &str) -> Result<String, Failure> {
    as_text(name, super::required(matches, name)?)
}

/// All values of an argument, as text.
fn texts(matches: &ArgMatches, name: &str) -> Result<Vec<String>, Failure> {
    matches
        .get_many::<OsString>(name)
        .into_iter()
        .flatten()
        .map(|word| as_text(name, word))
        .collect()
}

fn as_text(name: &str, word: &OsString) -> Result<String, Failure> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        let shown = word.to_string_lossy();
        Failure::usage(format!("{name}: {shown}: it is not UTF-8"))
    })
}
