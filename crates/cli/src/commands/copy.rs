//! `godwit cp`: settings and endpoints from what was typed, then the transfer.
//! Opens no file and no connection.

use super::{route, settings};
use crate::exit::Failure;
use crate::home::Home;
use crate::output::{Log, Output};
use crate::reports::Reports;
use crate::transfer;
use clap::ArgMatches;
use godwit_api::endpoint::Endpoint;
use godwit_api::settings::{CpSettings, Scope};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the command.
pub(super) fn run(
    matches: &ArgMatches,
    home: &Home,
    started: Instant,
) -> Result<ExitCode, Failure> {
    let settings = CpSettings::from_values(&settings(Scope::Cp, matches, home)?);
    let mut sources = matches
        .get_many::<OsString>("paths")
        .unwrap_or_default()
        .map(|text| Endpoint::parse(text).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()?;
    let destination = sources.pop().filter(|_| !sources.is_empty());
    let Some(destination) = destination else {
        return Err(Failure::usage(
            "name what to copy and where to: godwit cp SOURCE... DESTINATION",
        ));
    };
    route::check(&sources, &destination).map_err(Failure::usage)?;
    // Before the mask of file modes is cleared: these files are the user's own.
    let log = settings
        .reports
        .log_file
        .as_deref()
        .map(Log::open)
        .transpose()?;
    let reports = Reports::open(&settings.reports, home)?;
    let output = Output::new(settings.json, std::io::stderr().is_terminal(), started, log)
        .aside(destination == Endpoint::Stdio);
    Ok(transfer::run(
        &settings,
        sources,
        destination,
        home,
        output,
        reports,
    ))
}
