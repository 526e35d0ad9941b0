//! Local paths as sources and as destinations, and what is said of those that are missing.
//! Knows nothing of what paths mean; `godwit_node::local` does.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use godwit_api::endpoint::Endpoint;
use godwit_node::local::{self, LocalDestination, LocalSource};
use godwit_proto::{Fault, FaultCode, Side};

use super::Job;
use super::terms::access_of;
use crate::exit::Failure;

impl Job<'_> {
    /// The local sources; those that do not exist are told, and counted.
    pub(super) fn local_sources(
        &self,
        sources: &[Endpoint],
    ) -> Result<(Vec<LocalSource>, u64), Failure> {
        let spill = self.home.spill()?;
        let mut found = Vec::with_capacity(sources.len());
        let mut failures = Vec::new();
        for source in sources {
            let Endpoint::Local(path) = source else {
                continue;
            };
            match local::source(path, &spill, access_of(self.settings)) {
                Ok(source) => found.push(source),
                Err(error) => failures.push((path, Failure::failed(error))),
            }
        }
        if found.is_empty() {
            if let Some((_, failure)) = failures.into_iter().next() {
                return Err(failure);
            }
            return Err(Failure::usage("no source was named"));
        }
        for (path, failure) in &failures {
            let name = path.as_os_str().as_bytes();
            let message = &failure.message;
            // The line begins with the name anyway.
            let message = message
                .strip_prefix(&format!("{}: ", path.display()))
                .unwrap_or(message);
            self.output.failed(name, message);
            let fault = Fault {
                side: Side::SOURCE,
                code: FaultCode::NOT_FOUND,
                message: message.to_owned(),
                ..Fault::default()
            };
            self.reports.entry_failed(name, &fault);
        }
        Ok((found, failures.len() as u64))
    }

    /// A local destination.
    pub(super) fn local_destination(&self, path: &Path) -> Result<LocalDestination, Failure> {
        local::destination(path, &self.home.spill()?, access_of(self.settings))
            .map_err(Failure::failed)
    }
}
