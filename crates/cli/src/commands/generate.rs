//! `godwit gen`: makes a data set by specification.
//! The generator itself is in the store.

use super::{required, required_text, settings};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::print;
use clap::ArgMatches;
use godwit_api::settings::{GenSettings, Scope};
use godwit_store::generator;
use std::path::Path;

/// Runs the command.
pub(super) fn run(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let settings = GenSettings::from_values(&settings(Scope::Gen, matches, home)?);
    let spec = required_text(matches, "spec")?;
    let directory = Path::new(required(matches, "directory")?);
    let spec = generator::parse(spec).map_err(Failure::usage)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let totals = generator::generate(&spec, directory, settings.seed, threads, &mut |_| {})
        .map_err(|error| {
            let name = directory.display().to_string();
            // Its own words begin with a path where they are about one.
            let message = error.to_string();
            if message.starts_with(&name) {
                Failure::failed(message)
            } else {
                Failure::failed(format!("{name}: {message}"))
            }
        })?;
    print(&format!(
        "{} files in {} directories, {} bytes",
        totals.files, totals.directories, totals.bytes
    ));
    Ok(Exit::Complete)
}
