//! `godwit flow`: files that a node passes on from place to place.
//! Decides no start of a run; the node does.

use clap::ArgMatches;
use godwit_api::duration::parse_duration;
use godwit_api::job::Text;
use godwit_api::rest::{FlowHopView, FlowView, NewFlow, NewJob, Place};
use godwit_api::units::{human_rate, human_size};
use godwit_client::{Client, Flows};

use super::when::Clock;
use super::{choosing, optional, print_json, print_list, submit, table, text, texts, words};
use crate::exit::{Exit, Failure};
use crate::output::{print, printable};

/// Runs one of the commands.
pub(super) fn run(sub: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    match sub {
        "list" => list(json, client)?,
        "remove" => {
            let id = text(matches, "id")?;
            Flows::of(client).remove(&id)?;
            print(&format!("flow {} removed", printable(&id)));
        }
        _ => {
            let flow = match sub {
                "add" => add(matches, client)?,
                "show" => find(&text(matches, "id")?, client)?,
                _ => switch(&text(matches, "id")?, sub == "pause", client)?,
            };
            match json {
                true => print_json(&flow),
                false => print(&shown(&flow, &Clock::now())),
            }
        }
    }
    Ok(Exit::Complete)
}

fn add(matches: &ArgMatches, client: &Client) -> Result<FlowView, Failure> {
    let places = [
        vec![text(matches, "from")?, text(matches, "to")?],
        texts(matches, "then")?,
    ]
    .concat();
    for place in &places {
        place.parse::<Place>().map_err(Failure::usage)?;
    }
    let all = submit::transfer(matches, choosing::read_lasting(matches)?)?;
    let hop = |pair: &[String]| match pair {
        [from, to] => Some(NewJob {
            sources: vec![from.clone()],
            destination: to.clone(),
            ..all.clone()
        }),
        _ => None,
    };
    let mut hops: Vec<NewJob> = places.windows(2).filter_map(hop).collect();
    if let Some(first) = hops.first_mut() {
        // A later hop would remove the files with which the preceding hop compares its source.
        first.remove_source_after = submit::number(matches, "remove-source-after")?;
    }
    for word in texts(matches, "hop")? {
        set(&mut hops, &word)?;
    }
    let every = optional(matches, "every")?;
    let every = every.map(|text| seconds(&text)).transpose()?;
    let (id, flows) = (text(matches, "id")?, Flows::of(client));
    // A change of a paused flow does not start it.
    let paused = (flows.list()?.iter()).any(|flow| flow.id == id && flow.paused);
    let flow = NewFlow {
        hops,
        every_seconds: every.unwrap_or(NewFlow::EVERY_SECONDS),
        paused,
        comment: optional(matches, "comment")?.unwrap_or_default(),
    };
    Ok(flows.put(&id, &flow)?)
}

/// Seconds of a duration, at least one.
fn seconds(text: &str) -> Result<u32, Failure> {
    let failed = |what: String| Failure::usage(format!("--every {text:?}: {what}"));
    let span = parse_duration(text).map_err(|error| failed(error.to_string()))?;
    let seconds = u32::try_from(span.as_secs()).ok();
    seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| failed("write 1s or more, as in 60s".to_owned()))
}

/// Sets one value of one hop, as `N:NAME=VALUE` says; a name alone is a switch.
fn set(hops: &mut [NewJob], word: &str) -> Result<(), Failure> {
    let failed = |what: &str| Failure::usage(format!("--hop {word:?}: {what}"));
    let form = || failed("write N:NAME=VALUE, as in 2:limit=100MB");
    let (number, rest) = word.split_once(':').ok_or_else(form)?;
    let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
    let number: usize = number.parse().map_err(|_error| form())?;
    let (count, at) = (hops.len(), number.checked_sub(1).ok_or_else(form)?);
    let hop = hops.get_mut(at);
    let hop = hop.ok_or_else(|| failed(&format!("the flow has hops 1 to {count}")))?;
    let whole = || failed("the value must be an allowed whole number");
    match name.trim_start_matches('-') {
        "" => return Err(form()),
        // A limit of 0 is none.
        "limit" => hop.limit = Some(submit::limit(value)?).filter(|limit| *limit > 0),
        "priority" => hop.priority = value.parse().map_err(|_error| whole())?,
        "retries" => hop.retries_max = Some(value.parse().map_err(|_error| whole())?),
        "label" => value.clone_into(&mut hop.label),
        name => {
            hop.settings
                .insert(name.to_owned(), vec![Text::from(value)]);
        }
    }
    Ok(())
}

fn find(id: &str, client: &Client) -> Result<FlowView, Failure> {
    let flows = Flows::of(client).list()?;
    let found = flows.into_iter().find(|flow| flow.id == id);
    found.ok_or_else(|| {
        Failure::usage(format!(
            "there is no flow {}; list the flows with: godwit flow list",
            printable(id)
        ))
    })
}

/// Pauses or resumes a flow, and changes nothing else.
fn switch(id: &str, paused: bool, client: &Client) -> Result<FlowView, Failure> {
    let found = find(id, client)?;
    let hops: Option<Vec<NewJob>> = found.hops.into_iter().map(|hop| hop.job).collect();
    let hops = hops.ok_or_else(|| {
        Failure::local(format!(
            "a job of the flow {} cannot be read; add the flow again",
            printable(id)
        ))
    })?;
    let flow = NewFlow {
        hops,
        every_seconds: found.every_seconds,
        paused,
        comment: found.comment,
    };
    Ok(Flows::of(client).put(id, &flow)?)
}

/// The columns of a list of flows.
const HEAD: [&str; 6] = ["NAME", "OWNER", "HOPS", "WAITING", "OLDEST", "WAY"];

fn list(json: bool, client: &Client) -> Result<(), Failure> {
    let flows = Flows::of(client).list()?;
    let clock = Clock::now();
    let none = "there are no flows; godwit flow add makes one";
    print_list(json, &flows, none, &HEAD, |flow| row(flow, &clock));
    Ok(())
}

/// A row for each flow.
pub(super) fn rows(flows: &[FlowView], clock: &Clock) -> String {
    let rows: Vec<Vec<String>> = flows.iter().map(|flow| row(flow, clock)).collect();
    table::plain(&HEAD, &rows)
}

fn row(flow: &FlowView, clock: &Clock) -> Vec<String> {
    let files: u64 = flow.hops.iter().map(|hop| hop.backlog_files).sum();
    let bytes: u64 = flow.hops.iter().map(|hop| hop.backlog_bytes).sum();
    let oldest = flow.hops.iter().filter_map(|hop| hop.oldest).min();
    let hops = flow.hops.iter().map(|hop| hop.state.word());
    vec![
        printable(&flow.id),
        printable(&flow.owner),
        hops.collect::<Vec<_>>().join(", "),
        waiting(files, bytes),
        oldest.map_or_else(String::new, |oldest| {
            words::span(clock.seconds_since(oldest))
        }),
        way(flow),
    ]
}

/// All places of a flow.
fn way(flow: &FlowView) -> String {
    let mut places: Vec<&str> = Vec::new();
    for hop in &flow.hops {
        let Some(job) = &hop.job else {
            places.push("cannot be read");
            continue;
        };
        if places.is_empty() {
            places.extend(job.sources.first().map(String::as_str));
        }
        places.push(&job.destination);
    }
    printable(&places.join(" -> "))
}

fn waiting(files: u64, bytes: u64) -> String {
    match files {
        0 => String::new(),
        1 => format!("1 file, {}", human_size(bytes)),
        files => format!("{files} files, {}", human_size(bytes)),
    }
}

/// A flow in full: a row for each hop, and below them why one does not move.
fn shown(flow: &FlowView, clock: &Clock) -> String {
    let row = |(number, hop): (usize, &FlowHopView)| {
        let to = hop.job.as_ref().map(|job| printable(&job.destination));
        vec![
            number.to_string(),
            hop.state.word().to_owned(),
            hop.bytes_per_second
                .map_or_else(String::new, |rate| human_rate(words::whole(rate))),
            format!("{} files, {}", hop.files, human_size(hop.bytes)),
            waiting(hop.backlog_files, hop.backlog_bytes),
            hop.oldest.map_or_else(String::new, |oldest| {
                words::span(clock.seconds_since(oldest))
            }),
            hop.run.as_deref().map_or_else(String::new, printable),
            to.unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = (1..).zip(&flow.hops).map(row).collect();
    let head = [
        "HOP", "STATE", "RATE", "MOVED", "WAITING", "OLDEST", "JOB", "TO",
    ];
    let paused = if flow.paused { ", paused" } else { "" };
    let mut lines = vec![
        format!(
            "{}, of {}{paused}: {}",
            printable(&flow.id),
            printable(&flow.owner),
            way(flow)
        ),
        table::plain(&head, &rows),
    ];
    for (number, hop) in (1..).zip(&flow.hops) {
        if let Some(reason) = &hop.reason {
            lines.push(format!("hop {number}: {}", printable(&reason.text)));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops() -> Vec<NewJob> {
        let job = serde_json::json!({"sources": ["a:/b"], "destination": "c:/d"});
        let job: NewJob = serde_json::from_value(job).expect("a job");
        vec![job.clone(), job]
    }

    #[test]
    fn a_value_is_for_one_hop_alone() {
        let mut all = hops();
        for word in [
            "2:limit=100MB",
            "1:limit=none",
            "2:priority=-3",
            "2:retries=4",
            "1:label=raw",
            "2:verify=false",
            "2:no-sync",
        ] {
            set(&mut all, word).unwrap_or_else(|failure| panic!("{word}: {failure:?}"));
        }
        assert_eq!((all[0].limit, all[1].limit), (None, Some(100_000_000)));
        assert_eq!((all[1].priority, all[1].retries_max), (-3, Some(4)));
        assert_eq!((all[0].label.as_str(), all[1].label.as_str()), ("raw", ""));
        assert_eq!(all[1].settings["verify"], [Text::from("false")]);
        assert_eq!(all[1].settings["no-sync"], [Text::from("true")]);
        assert!(all[0].settings.is_empty());
        for wrong in [
            "limit=5",
            "0:limit=5",
            "3:limit=5",
            "x:limit=5",
            "1:",
            "1:priority=x",
        ] {
            assert!(set(&mut hops(), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_interval_is_a_whole_second_or_more() {
        assert_eq!(seconds("90s").expect("a time"), 90);
        assert_eq!(seconds("2min").expect("a time"), 120);
        for wrong in ["0s", "100ms", "often"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
