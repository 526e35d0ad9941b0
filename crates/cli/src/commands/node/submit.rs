//! `godwit job submit`: turns the command line into a description of a job.
//! Checks only the form; the node knows its places and settings. See `choosing` for the selection of entries.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::ArgMatches;
use godwit_api::job::{JobKind, Selection, Text};
use godwit_api::rest::{Divide, Merge, NewJob, Place, Relay};
use godwit_api::units::parse_rate;
use godwit_client::{Client, idempotency_key};

use super::when::Clock;
use super::{choosing, optional, print_json, text, texts, watch};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print};

/// Submits a job, and watches it if asked to.
pub(super) fn run(
    matches: &ArgMatches,
    client: &Client,
    started: Instant,
) -> Result<Exit, Failure> {
    let clock = Clock::now();
    let new = NewJob {
        not_before: optional(matches, "after")?
            .map(|text| clock.parse("--after", &text))
            .transpose()?,
        deadline: optional(matches, "deadline")?
            .map(|text| clock.parse_end("--deadline", &text))
            .transpose()?,
        ..describe(matches, choosing::read(matches)?)?
    };
    let key = match optional(matches, "idempotency-key")? {
        Some(key) => key,
        None => idempotency_key()?,
    };
    let job = client.jobs().submit(&new, &key)?;
    let json = matches.get_flag("json");
    if json {
        print_json(&job);
    } else {
        print(&job.id);
    }
    if !matches.get_flag("wait") {
        return Ok(Exit::Complete);
    }
    watch::run(client, &job.id, json, started).inspect_err(|_failure| {
        complain(&format!(
            "job {0} continues without this command; show it with: godwit job show {0}",
            job.id
        ));
    })
}

/// The job without its times, with its selection of entries. Without `--to`, the last place is the destination. Sources with `--from` are
/// gathered.
pub(super) fn describe(
    matches: &ArgMatches,
    (selection, list): (Option<Selection>, Vec<Text>),
) -> Result<NewJob, Failure> {
    let mut sources = texts(matches, "places")?;
    let (gathered, mut destinations) = (texts(matches, "from")?, texts(matches, "to")?);
    if matches.get_flag("manifest") && sources.first().is_some_and(|first| first == "ascmhl") {
        return Err(Failure::usage(
            "--manifest ascmhl: for a job write --setting manifest=ascmhl in its place; --manifest alone lets the node keep a manifest",
        ));
    }
    for place in sources.iter().chain(&gathered).chain(&destinations) {
        place.parse::<Place>().map_err(Failure::usage)?;
    }
    if destinations.is_empty() {
        destinations.extend(sources.pop());
    }
    let gather = !gathered.is_empty();
    let sources = [gathered, sources].concat();
    if sources.is_empty() || destinations.is_empty() {
        return Err(Failure::usage("name at least one source and a destination"));
    }
    let destination = destinations.remove(0);
    godwit_jobs::check_source_count(sources.len()).map_err(Failure::usage)?;
    let new = transfer(matches, (selection, list))?;
    Ok(NewJob {
        kind: match matches.get_flag("verify") {
            true => JobKind::Verify,
            false => new.kind,
        },
        sources,
        destination,
        more_destinations: destinations,
        gather,
        merge: merge(matches)?,
        manifest: matches.get_flag("manifest"),
        relay: relay(matches)?,
        remove_source_after: number(matches, "remove-source-after")?,
        ..new
    })
}

/// A copy without places, with the options of a transfer and a selection of entries.
pub(super) fn transfer(
    matches: &ArgMatches,
    (selection, list): (Option<Selection>, Vec<Text>),
) -> Result<NewJob, Failure> {
    Ok(NewJob {
        kind: match matches.get_flag("sync") {
            true => JobKind::Sync,
            false => JobKind::Copy,
        },
        sources: Vec::new(),
        destination: String::new(),
        more_destinations: Vec::new(),
        gather: false,
        merge: Merge::BySite,
        label: optional(matches, "label")?.unwrap_or_default(),
        settings: settings(&texts(matches, "setting")?)?,
        selection,
        list,
        manifest: false,
        divide: divide(matches)?,
        relay: Relay::Never,
        remove_source_after: None,
        priority: number(matches, "priority")?.unwrap_or(0),
        limit: optional(matches, "limit")?
            .map(|text| limit(&text))
            .transpose()?
            // A limit of 0 is none.
            .filter(|limit| *limit > 0),
        not_before: None,
        deadline: None,
        retries_max: number(matches, "retries")?,
    })
}

fn divide(matches: &ArgMatches) -> Result<Divide, Failure> {
    let word = optional(matches, "divide")?.unwrap_or_else(|| "auto".to_owned());
    Divide::from_word(&word).ok_or_else(|| {
        let words = Divide::WORDS.join(", ");
        Failure::usage(format!("--divide {word:?}: must be one of {words}"))
    })
}

fn merge(matches: &ArgMatches) -> Result<Merge, Failure> {
    let Some(word) = optional(matches, "merge")? else {
        return Ok(Merge::BySite);
    };
    Merge::from_word(&word).ok_or_else(|| {
        let words = Merge::WORDS.join(", ");
        Failure::usage(format!("--merge {word:?}: must be one of {words}"))
    })
}

fn relay(matches: &ArgMatches) -> Result<Relay, Failure> {
    let word = optional(matches, "relay")?.unwrap_or_else(|| "never".to_owned());
    Relay::from_word(&word).ok_or_else(|| {
        let words = Relay::WORDS.join(", ");
        Failure::usage(format!("--relay {word:?}: must be one of {words}"))
    })
}

/// A rate in bytes per second; 0 is no limit.
pub(super) fn limit(text: &str) -> Result<u64, Failure> {
    parse_rate(text).map_err(|error| {
        Failure::usage(format!(
            "{text:?} is not a rate: {error}; write 300MB, 2.5Gbit/s or none"
        ))
    })
}

/// A whole number of an option or argument.
pub(super) fn number<T: std::str::FromStr>(
    matches: &ArgMatches,
    name: &str,
) -> Result<Option<T>, Failure> {
    if !matches.contains_id(name) {
        return Ok(None);
    }
    let text = text(matches, name)?;
    text.parse().map(Some).map_err(|_error| {
        Failure::usage(format!("{name}: {text:?} is not an allowed whole number"))
    })
}

/// Settings as `NAME=VALUE`; a name alone is a switch. A repeated name has several values.
fn settings(words: &[String]) -> Result<BTreeMap<String, Vec<Text>>, Failure> {
    let mut settings: BTreeMap<String, Vec<Text>> = BTreeMap::new();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        let name = name.trim_start_matches('-');
        if name.is_empty() {
            return Err(Failure::usage(format!(
                "--setting {word:?}: write NAME=VALUE, as in streams=8"
            )));
        }
        let value = Text(value.as_bytes().to_vec());
        settings.entry(name.to_owned()).or_default().push(value);
    }
    Ok(settings)
}
