//! `godwit ls`, `mkdir`, `rm`, `mv` and `clean`: entries at places of a node and of its known sites.
//! Touches no file of this machine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::ArgMatches;
use godwit_api::ask::{Cleaned, EntryKind, EntryView, FailedPlace, Removed, code, mode_text};
use godwit_api::duration::parse_duration;
use godwit_api::failure::FailureCode;
use godwit_api::job::Text;
use godwit_api::rest::{CleanEntries, NewDirectory, Place, RemoveEntry, RenameEntry, whole_site};
use godwit_api::units::human_size;
use godwit_client::{Client, ClientError};
use godwit_store::RelPath;

use super::when::Clock;
use super::{optional, print_json, table};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// Temporary files of a transfer that another machine may continue rarely rest for longer.
const OLDER_THAN: &str = "1h";

/// Runs one of the commands.
pub(super) fn run(name: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    match name {
        "ls" => list(matches, client),
        "mkdir" => make_directories(matches, client),
        "rm" => remove(matches, client),
        "mv" => rename(matches, client),
        _ => clean(matches, client),
    }
}

fn list(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    for place in places(matches) {
        if whole_site(&place).is_some() {
            exports(&place, json, client)?;
            continue;
        }
        known_form(&place)?;
        let all = json || matches.get_flag("all");
        let mut cursor: Option<Vec<u8>> = None;
        loop {
            let page = match client.places().list(&place, cursor.as_deref()) {
                Err(error) if is(&error, code::NOT_A_DIRECTORY) => {
                    show(&[client.places().stat(&place)?], json);
                    break;
                }
                page => page?,
            };
            let mut entries = page.entries;
            entries.retain(|entry| all || !entry.name.0.starts_with(b"."));
            show(&entries, json);
            // Ends on a repeated page, so that a faulty node is not asked for ever.
            match page.next {
                Some(next) if cursor.as_deref().is_none_or(|before| before < &next.0[..]) => {
                    cursor = Some(next.0);
                }
                _ => break,
            }
        }
    }
    Ok(Exit::Complete)
}

/// The exports of a site.
fn exports(site: &[u8], json: bool, client: &Client) -> Result<(), Failure> {
    let rooms = client.places().space(site)?;
    if json {
        rooms.iter().for_each(print_json);
        return Ok(());
    }
    if rooms.is_empty() {
        print("you may use none of its exports");
        return Ok(());
    }
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), human_size);
    let rows: Vec<Vec<String>> = rooms
        .iter()
        .map(|room| {
            let rights = match (room.read, room.write) {
                (true, true) => "read, write",
                (true, false) => "read",
                _ => "write",
            };
            vec![
                printable(&room.name),
                rights.to_owned(),
                size(room.bytes_free),
                size(room.bytes_total),
            ]
        })
        .collect();
    print(&table::plain(&["EXPORT", "ACCESS", "FREE", "SIZE"], &rows));
    Ok(())
}

/// Prints one line for each entry, as `ls -l` does.
fn show(entries: &[EntryView], json: bool) {
    if json {
        entries.iter().for_each(print_json);
        return;
    }
    let clock = Clock::now();
    let sizes: Vec<String> = entries.iter().map(|entry| entry.size.to_string()).collect();
    let times: Vec<String> = entries
        .iter()
        .map(|entry| clock.show(entry.modified))
        .collect();
    let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let (size_width, time_width) = (widest(&sizes), widest(&times));
    for ((entry, size), time) in entries.iter().zip(&sizes).zip(&times) {
        let target = match (&entry.target, entry.kind) {
            (Some(target), EntryKind::Symlink) => format!(" -> {}", shown(&target.0)),
            _ => String::new(),
        };
        print(&format!(
            "{}  {size:>size_width$}  {time:>time_width$}  {}{target}",
            mode_text(entry.kind, entry.mode),
            shown(&entry.name.0)
        ));
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
            tell(&cleaned, dry_run);
        }
        if cleaned.failed > 0 {
            complain_of(&place, &cleaned.failures, cleaned.failed);
            exit = Exit::Partial;
        }
    }
    Ok(exit)
}

/// Prints the cleaned files, and the remaining ones with the reasons.
fn tell(cleaned: &Cleaned, dry_run: bool) {
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
fn places(matches: &ArgMatches) -> Vec<Vec<u8>> {
    let given = matches.get_many::<OsString>("places").into_iter().flatten();
    given.map(|place| place.as_bytes().to_vec()).collect()
}

/// Parses a place.
fn known_form(place: &[u8]) -> Result<Place, Failure> {
    Place::from_bytes(place).map_err(Failure::usage)
}

/// Whether the node refused with this code.
fn is(error: &ClientError, code: FailureCode) -> bool {
    matches!(error, ClientError::Refused { problem, .. } if problem.code == code)
}

/// A name for people: bytes that are not UTF-8, or that would steer a terminal, are escaped.
fn shown(name: &[u8]) -> String {
    match RelPath::parse(name) {
        Ok(path) => printable(&path.to_string()),
        Err(_) => printable(&String::from_utf8_lossy(name)),
    }
}
