//! Resolves local paths to sources and destinations, and makes the messages about missing ones.
//! Does not interpret paths (`crate::local` does).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::local::{self, DestinationPlace, LocalError, LocalSource};
use godwit_api::endpoint::Endpoint;
use godwit_api::event::Event;

use godwit_engine::FailedEntry;

use super::Job;
use super::entry_events::failed_event;
use super::from_settings::access_of;
use godwit_api::failure::{Failure, FailureCode};

/// Sources that do not exist, each with the reason.
pub(super) type Missing = Vec<(PathBuf, LocalError)>;

/// The existing local sources, and the missing ones. There must be at least one existing source.
pub(super) fn sources(
    job: &Job<'_>,
    sources: &[Endpoint],
) -> Result<(Vec<LocalSource>, Missing), Failure> {
    let spill = job.env.home.spill()?;
    let mut found = Vec::with_capacity(sources.len());
    let mut failures = Vec::new();
    let mut places = local::Sources::new(&spill, job.env.base.as_deref(), access_of(&job.settings));
    for source in sources {
        let Endpoint::Local(path) = source else {
            continue;
        };
        let source = match &job.env.exports {
            Some(exports) => exports.source(path, access_of(&job.settings)),
            None => places.find(path),
        };
        match source {
            Ok(source) => found.push(source),
            // All sources are retried later, instead of sending some of them now.
            Err(error) if error.is_away() => {
                return Err(Failure::new(FailureCode::ExportAway, error).about(path.display()));
            }
            Err(error) => failures.push((path.clone(), error)),
        }
    }
    if found.is_empty() {
        if let Some((path, error)) = failures.into_iter().next() {
            return Err(Failure::new(FailureCode::NoSource, error).about(path.display()));
        }
        return Err(Failure::usage("no source was named"));
    }
    Ok((found, failures))
}

/// Reports missing sources; returns their number.
pub(super) fn report_missing(job: &Job<'_>, missing: Missing) -> u64 {
    let count = missing.len() as u64;
    for (path, error) in missing {
        let name = path.as_os_str().as_bytes();
        let fault = error.into_fault(&path);
        let failed = FailedEntry {
            root: None,
            path: name,
            shown: name,
            fault: &fault,
        };
        let message = fault.message.clone();
        job.run
            .events
            .emit(Event::Failed(failed_event(&failed, message)));
        job.run.reports.entry_failed(&failed);
    }
    count
}

/// A local destination.
pub(super) fn destination(job: &Job<'_>, path: &Path) -> Result<DestinationPlace, Failure> {
    let access = access_of(&job.settings);
    match &job.env.exports {
        Some(exports) => exports.destination(path, access),
        None => local::destination(
            path,
            job.env.base.as_deref(),
            &job.env.home.spill()?,
            access,
            &job.env.process.syncs,
        ),
    }
    .map_err(|error| {
        let code = match error.is_away() {
            true => FailureCode::ExportAway,
            false => FailureCode::DestinationUnusable,
        };
        Failure::new(code, error).about(path.display())
    })
}
