//! `godwit gen`: makes a data set by specification.
//! The generator itself is in the store.

use super::{required, required_text, settings};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use clap::ArgMatches;
use godwit_api::settings::{GenSettings, Scope};

/// Runs the command.
pub(super) fn run(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let settings = GenSettings::from_values(&settings(Scope::Gen, matches, home)?);
    let spec = required_text(matches, "spec")?;
    let directory = required(matches, "directory")?;
    Err(Failure::failed(format!(
        "gen {spec} {} --seed {}: the generator is not built in yet",
        directory.to_string_lossy(),
        settings.seed
    )))
}
