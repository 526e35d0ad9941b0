//! `godwit gen`: makes a data set by specification.
//! The generator itself is a crate.

use super::{required, required_text, settings};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::print;
use clap::ArgMatches;
use godwit_api::settings::{GenSettings, Scope};
use godwit_api::units::counted;
use godwit_generator::{self as generator, Totals};
use godwit_sys::acting::Acting;
use serde_json::json;
use std::path::Path;

/// Runs the command.
pub(super) fn run(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let settings = GenSettings::from_values(&settings(Scope::Gen, matches, home)?);
    let spec = required_text(matches, "spec")?;
    let mut spec = generator::parse(spec).map_err(Failure::usage)?;
    let scale = matches.get_one::<f64>("scale").copied().unwrap_or(1.0);
    if !(scale > 0.0 && scale <= generator::SCALE_MAX) {
        let max = generator::SCALE_MAX;
        return Err(Failure::usage(format!(
            "--scale must be above 0 and at most {max}"
        )));
    }
    spec = spec.scaled(scale);
    if let Some(&fraction) = matches.get_one::<f64>("compressible") {
        spec = spec.with_zeros(hundredths(fraction)?);
    }
    if matches.get_flag("dry-run") {
        show(matches, generator::foretell(&spec, settings.seed), None);
        return Ok(Exit::Complete);
    }
    let directory = Path::new(required(matches, "directory")?);
    let _owner = as_owner(directory)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let totals = generator::generate(&spec, directory, settings.seed, threads, &mut |_| {})
        .map_err(|error| {
            let name = directory.display().to_string();
            // An error about a path begins with the path.
            let message = error.to_string();
            if message.starts_with(&name) {
                Failure::local(message)
            } else {
                Failure::local(format!("{name}: {message}"))
            }
        })?;
    show(matches, totals, Some(directory));
    Ok(Exit::Complete)
}

/// The rights of the owner of the directory, or of the lowest one above it that is there, for a command of root: the owner could put links
/// in place of what root makes there.
pub(super) fn as_owner(directory: &Path) -> Result<Acting, Failure> {
    let failed = |at: &Path, error: std::io::Error| {
        let what = format!("{}: cannot act as the owner: {error}", at.display());
        Failure::local(what)
    };
    let named = std::path::absolute(directory).map_err(|error| failed(directory, error))?;
    let there = named.ancestors().find(|at| at.exists());
    let there = there.unwrap_or_else(|| Path::new("/"));
    Acting::as_owner_of(there).map_err(|error| failed(there, error))
}

/// Prints the amounts of a data set.
fn show(matches: &ArgMatches, totals: Totals, directory: Option<&Path>) {
    if matches.get_flag("json") {
        let made = json!({
            "directory": directory.map(|path| path.to_string_lossy()),
            "files": totals.files,
            "directories": totals.directories,
            "bytes": totals.bytes,
        });
        return print(&made.to_string());
    }
    print(&format!(
        "{} in {}, {}",
        counted(totals.files, "file"),
        counted(totals.directories, "directory"),
        counted(totals.bytes, "byte")
    ));
}

/// A fraction from 0 to 1 in whole hundredths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be from 0 to 100"
)]
fn hundredths(fraction: f64) -> Result<u8, Failure> {
    if (0.0..=1.0).contains(&fraction) {
        Ok((fraction * 100.0).round() as u8)
    } else {
        Err(Failure::usage(
            "--compressible must be from 0 to 1".to_owned(),
        ))
    }
}
