//! `godwit cp` and `godwit sync`: settings and endpoints from what was typed, then the transfer.
//! Opens no file and no connection.

use super::{not_a_stream, route, settings};
use crate::args;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{Log, Output};
use crate::reports::{Reports, refuse_inputs, refuse_source};
use crate::transfer as transfers;
use clap::ArgMatches;
use godwit_api::endpoint::{Endpoint, Place};
use godwit_api::settings::{ComparisonSettings, CpSettings, Judge, Scope};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

/// Runs the command.
pub(super) fn run(matches: &ArgMatches, home: &Home, started: Instant) -> Result<Exit, Failure> {
    let settings = CpSettings::from_values(&settings(Scope::Cp, matches, home)?)?;
    transfer(&settings, matches, home, started)
}

/// Runs `godwit sync`.
pub(super) fn run_sync(
    matches: &ArgMatches,
    home: &Home,
    started: Instant,
) -> Result<Exit, Failure> {
    let settings = CpSettings::from_sync_values(&settings(Scope::Sync, matches, home)?)?;
    transfer(&settings, matches, home, started)
}

fn transfer(
    settings: &CpSettings,
    matches: &ArgMatches,
    home: &Home,
    started: Instant,
) -> Result<Exit, Failure> {
    let counterpart = settings.comparison.counterpart;
    if settings.comparison.contradicts {
        return Err(Failure::usage(
            "--checksum and --size-only contradict each other: give one of them",
        ));
    }
    if settings.comparison.delete && settings.selection.files_from.is_some() {
        return Err(Failure::usage(
            "--delete and --files-from contradict each other: what a list does not name is not to be deleted",
        ));
    }
    let mut sources = matches
        .get_many::<OsString>("paths")
        .unwrap_or_default()
        .map(|text| Endpoint::parse(text).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()?;
    let destination = sources.pop().filter(|_| !sources.is_empty());
    let Some(destination) = destination else {
        return Err(Failure::usage(if counterpart {
            "name what to copy and where to: godwit sync SOURCE DESTINATION"
        } else {
            "name what to copy and where to: godwit cp SOURCE... DESTINATION"
        }));
    };
    if settings.comparison.dry_run && settings.reports.manifest.is_some() {
        return Err(Failure::usage(
            "a dry run delivers nothing, so there is no manifest to write: leave out --manifest",
        ));
    }
    if settings.reports.manifest.is_some()
        && let Some(flag) = leaves_unseen(&settings.comparison)
    {
        return Err(Failure::usage(format!(
            "{flag} leaves entries at the destination that were not compared with the source, and --manifest would vouch for them: leave out one of the two, or run godwit manifest at the source"
        )));
    }
    if counterpart && sources.len() > 1 {
        return Err(Failure::usage(
            "sync takes one source, for the destination is its counterpart: sync each by itself, or use godwit cp to put several into one directory",
        ));
    }
    if counterpart && (is_synthetic(&sources) || is_synthetic(std::slice::from_ref(&destination))) {
        return Err(Failure::usage(
            "sync compares files with files: mem:, null: and - are for godwit cp",
        ));
    }
    route::check(&sources, &destination).map_err(Failure::usage)?;
    if sources.contains(&Endpoint::Stdio) {
        nothing_chosen(matches)?;
    }
    let reports = &settings.reports;
    for file in [&reports.manifest, &reports.failed, &reports.log_file]
        .into_iter()
        .flatten()
    {
        not_a_stream(file)?;
    }
    refuse_inputs(settings)?;
    for source in &sources {
        if let Endpoint::Local(path) = source {
            refuse_source(&settings.reports, path)?;
        }
    }
    // Before the mask of file modes is cleared: these files are the user's own.
    let log = settings
        .reports
        .log_file
        .as_deref()
        .map(Log::open)
        .transpose()?;
    let reports = Reports::open(settings, home)?;
    let output = Output::new(settings.json, std::io::stderr().is_terminal(), started, log)
        .aside(destination == Endpoint::Stdio)
        .showing(
            settings.verbose || settings.comparison.dry_run,
            settings.verbose,
        );
    Ok(transfers::run(
        settings,
        sources,
        destination,
        home,
        Arc::new(output),
        started,
        reports,
    ))
}

/// The first that is given of what lets an entry count as done although nobody knows whether it is there and the same.
fn leaves_unseen(comparison: &ComparisonSettings) -> Option<&'static str> {
    let given = [
        (comparison.existing, "--existing"),
        (comparison.ignore_existing, "--ignore-existing"),
        (comparison.update, "--update"),
        (comparison.judge == Judge::Size, "--size-only"),
    ];
    given
        .iter()
        .find(|(given, _)| *given)
        .map(|(_, flag)| *flag)
}

/// Refuses what was typed to choose among entries, for standard input is but one, and of no known size or time. What stands in
/// the environment and in files is meant for other transfers.
fn nothing_chosen(matches: &ArgMatches) -> Result<(), Failure> {
    let typed = args::typed(Scope::Cp, matches);
    match CHOOSING.iter().find(|name| typed.contains_key(**name)) {
        Some(name) => Err(Failure::usage(format!(
            "--{name}: standard input is one file, whose size and time nobody knows before it ends: there is nothing to choose from; leave --{name} out"
        ))),
        None => Ok(()),
    }
}

/// The settings that leave entries out.
const CHOOSING: [&str; 9] = [
    "exclude",
    "include",
    "exclude-from",
    "include-from",
    "min-size",
    "max-size",
    "newer",
    "older",
    "files-from",
];

fn is_synthetic(endpoints: &[Endpoint]) -> bool {
    endpoints.iter().any(|endpoint| match endpoint {
        Endpoint::Memory { .. } | Endpoint::Null | Endpoint::Stdio => true,
        Endpoint::Remote(remote) => matches!(remote.place, Place::Memory { .. } | Place::Null),
        Endpoint::Local(_) | Endpoint::Ssh(_) => false,
    })
}
