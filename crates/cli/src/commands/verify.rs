//! `godwit verify` and `godwit manifest`: settings and places from what was typed.
//! Reads no manifest and no copy.

use super::{not_a_stream, required, settings};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::reports::refuse_manifest_in;
use crate::{rest, verify};
use clap::ArgMatches;
use godwit_api::endpoint::Endpoint;
use godwit_api::settings::{ManifestSettings, Scope, VerifySettings};
use std::path::Path;
use std::time::Instant;

/// Checks a copy by a manifest.
pub(super) fn run(matches: &ArgMatches, home: &Home, started: Instant) -> Result<Exit, Failure> {
    let settings = VerifySettings::from_values(&settings(Scope::Verify, matches, home)?)?;
    let manifest = not_a_stream(Path::new(required(matches, "manifest-file")?))?;
    let endpoint = Endpoint::parse(required(matches, "copy")?).map_err(Failure::usage)?;
    verify::run(&settings, manifest, &endpoint, home, started)
}

/// Makes a manifest of what is at rest.
pub(super) fn manifest(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let settings = ManifestSettings::from_values(&settings(Scope::Manifest, matches, home)?);
    let source = Path::new(required(matches, "source")?);
    let file = not_a_stream(Path::new(required(matches, "manifest-file")?))?;
    refuse_manifest_in(file, source)?;
    rest::run(&settings, source, file, home)
}
