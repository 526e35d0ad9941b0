//! Local paths as sources and as destinations, and what is said of those that are missing.
//! Knows nothing of what paths mean; `crate::local` does.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::local::{self, LocalDestination, LocalSource};
use godwit_api::endpoint::Endpoint;
use godwit_api::event::Event;

use godwit_engine::FailedEntry;

use super::Job;
use super::entry_events::told_of;
use super::from_settings::access_of;
use godwit_api::failure::{Failure, FailureCode};

impl Job<'_> {
    /// The local sources; those that do not exist are told, and counted.
    pub(super) fn local_sources(
        &self,
        sources: &[Endpoint],
    ) -> Result<(Vec<LocalSource>, u64), Failure> {
        let spill = self.env.home.spill()?;
        let mut found = Vec::with_capacity(sources.len());
        let mut failures = Vec::new();
        let mut places =
            local::Sources::new(&spill, self.env.base.as_deref(), access_of(&self.settings));
        for source in sources {
            let Endpoint::Local(path) = source else {
                continue;
            };
            let source = match &self.env.exports {
                Some(exports) => exports.source(path, access_of(&self.settings)),
                None => places.find(path),
            };
            match source {
                Ok(source) => found.push(source),
                Err(error) => failures.push((path, error)),
            }
        }
        if found.is_empty() {
            if let Some((path, error)) = failures.into_iter().next() {
                return Err(Failure::new(FailureCode::NoSource, error).about(path.display()));
            }
            return Err(Failure::usage("no source was named"));
        }
        let missing = failures.len() as u64;
        for (path, error) in failures {
            let name = path.as_os_str().as_bytes();
            let fault = error.into_fault(path);
            let failed = FailedEntry {
                root: None,
                path: name,
                shown: name,
                fault: &fault,
            };
            let message = fault.message.clone();
            self.events.tell(Event::Failed(told_of(&failed, message)));
            self.reports.entry_failed(&failed);
        }
        Ok((found, missing))
    }

    /// A local destination.
    pub(super) fn local_destination(&self, path: &Path) -> Result<LocalDestination, Failure> {
        let access = access_of(&self.settings);
        match &self.env.exports {
            Some(exports) => exports.destination(path, access),
            None => local::destination(
                path,
                self.env.base.as_deref(),
                &self.env.home.spill()?,
                access,
                &self.env.process.syncs,
            ),
        }
        .map_err(|error| {
            Failure::new(FailureCode::DestinationUnusable, error).about(path.display())
        })
    }
}
