//! `godwit mkdir`, `rm`, `mv` and `clean`: entries at places of a node and of its known sites.
//! Touches no file of this machine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::ArgMatches;
use godwit_api::ask::{Cleaned, EntryKind, FailedPlace, Removed, code};
use godwit_api::duration::parse_duration;
use godwit_api::failure::FailureCode;
use godwit_api::job::Text;
use godwit_api::rest::{CleanEntries, NewDirectory, Place, RemoveEntry, RenameEntry};
use godwit_api::units::human_size;
use godwit_client::{Client, ClientError};
use godwit_store::RelPath;

use super::{optional, print_json};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// Temporary files of a transfer that another machine may continue rarely rest for longer.
const OLDER_THAN: &str = "1h";

/// Runs one of the commands.
pub(super) fn run(name: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    match name {
        "mkdir" => make_directories(matches, client),
        "rm" => remove(matches, client),
        "mv" => rename(matches, client),
        _ => clean(matches, client),
    }
}

fn make_directories(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    for place in places(matches) {
        known_form(&place)?;
        let made = client.places().make_directory(&NewDirectory {
            place: Text(place),
            parents: matches.get_flag("parents"),
        })?;
        if matches.get_flag("json") {
            print_json(&made);
        }
    }
    Ok(Exit::Complete)
}

fn remove(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let mut exit = Exit::Complete;
    for place in places(matches) {
        known_form(&place)?;
        let removed: Removed = client.places().remove(&RemoveEntry {
            place: Text(place.clone()),
            recursive: matches.get_flag("recursive"),
        })?;
        if matches.get_flag("json") {
            print_json(&removed);
        }
        if removed.failed > 0 {
            complain_of(&place, &removed.failures, removed.failed);
            exit = Exit::Partial;
        }
    }
    Ok(exit)
}

fn rename(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let both = places(matches);
    let [from, to] = &both[..] else {
        return Err(Failure::usage("name one SOURCE and one DESTINATION"));
    };
    let source = known_form(from)?;
    let destination = known_form(to)?;
    let mut to = to.clone();
    // As with mv: into an existing directory.
    let is_directory = destination.directory
        || match client.places().stat(&to) {
            Ok(there) => there.kind == EntryKind::Directory,
            Err(error) if is(&error, code::NOT_FOUND) => false,
            Err(error) => return Err(error.into()),
        };
    if is_directory {
        let name = source.path.rsplit(|byte| *byte == b'/').next();
        while to.ends_with(b"/") {
            to.pop();
        }
        to.push(b'/');
        to.extend_from_slice(name.unwrap_or_default());
    }
    let renamed = client.places().rename(&RenameEntry {
        from: Text(from.clone()),
        to: Text(to),
        replace: matches.get_flag("force"),
    })?;
    if matches.get_flag("json") {
        print_json(&renamed);
    }
    Ok(Exit::Complete)
}

fn clean(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let age = optional(matches, "older-than")?.unwrap_or_else(|| OLDER_THAN.to_owned());
    let age =
        parse_duration(&age).map_err(|error| Failure::usage(format!("--older-than: {error}")))?;
    let dry_run = matches.get_flag("dry-run");
    let job = optional(matches, "job")?;
    let job = job.map(|id| client.jobs().find(&id)).transpose()?;
    let mut exit = Exit::Complete;
    let wishes = match &job {
        Some(job) => vec![(job.destination.clone().into_bytes(), Some(job.id.clone()))],
        None => places(matches)
            .into_iter()
            .map(|place| (place, None))
            .collect(),
    };
    for (place, job) in wishes {
        known_form(&place)?;
        let cleaned = client.places().clean(&CleanEntries {
            place: match job {
                Some(_) => Text::default(),
                None => Text(place.clone()),
            },
            job,
            dry_run,
            older_than_seconds: age.as_secs(),
        })?;
        if matches.get_flag("json") {
            print_json(&cleaned);
        } else {
            show(&cleaned, dry_run);
        }
        if cleaned.failed > 0 {
            complain_of(&place, &cleaned.failures, cleaned.failed);
            exit = Exit::Partial;
        }
    }
    Ok(exit)
}

/// Prints the cleaned files, and the remaining ones with the reasons.
fn show(cleaned: &Cleaned, dry_run: bool) {
    let verb = if dry_run { "would remove" } else { "removed" };
    let files = |count: u64| match count {
        1 => "1 temporary file".to_owned(),
        count => format!("{count} temporary files"),
    };
    print(&format!(
        "{verb} {}, {}",
        files(cleaned.files),
        human_size(cleaned.bytes)
    ));
    names(&cleaned.paths, cleaned.files);
    for kept in &cleaned.kept {
        print(&format!("left {}: {}", files(kept.files), kept.reason));
        names(&kept.paths, kept.files);
    }
}

fn names(paths: &[Text], count: u64) {
    for path in paths {
        print(&format!("  {}", shown(&path.0)));
    }
    let more = count.saturating_sub(paths.len() as u64);
    if more > 0 {
        print(&format!("  and {more} more"));
    }
}

fn complain_of(place: &[u8], failures: &[FailedPlace], count: u64) {
    let place = shown(place);
    for failure in failures {
        complain(&format!("{place}: {}", printable(&failure.message)));
    }
    let more = count.saturating_sub(failures.len() as u64);
    if more > 0 {
        complain(&format!("{place}: {more} more failed"));
    }
}

/// The typed places, as bytes.
pub(super) fn places(matches: &ArgMatches) -> Vec<Vec<u8>> {
    let given = matches.get_many::<OsString>("places").into_iter().flatten();
    given.map(|place| place.as_bytes().to_vec()).collect()
}

/// Parses a place.
pub(super) fn known_form(place: &[u8]) -> Result<Place, Failure> {
    Place::from_bytes(place).map_err(Failure::usage)
}

/// Whether the node refused with this code.
pub(super) fn is(error: &ClientError, code: FailureCode) -> bool {
    matches!(error, ClientError::Refused { problem, .. } if problem.code == code)
}

/// A name for people: bytes that are not UTF-8, or that would steer a terminal, are escaped.
pub(super) fn shown(name: &[u8]) -> String {
    match RelPath::parse(name) {
        Ok(path) => printable(&path.to_string()),
        Err(_) => printable(&String::from_utf8_lossy(name)),
    }
}
