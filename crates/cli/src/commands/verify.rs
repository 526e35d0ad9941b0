//! `godwit verify` and `godwit manifest`: settings and places from the command line.
//! Reads no manifest and no copy.

use super::{not_a_stream, required, settings};
use crate::connectors::SshConnectors;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::Output;
use crate::rest;
use clap::ArgMatches;
use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Summary, Verdict};
use godwit_api::job::{Imposed, JOB_VERSION, JobKind, JobSpec};
use godwit_api::settings::{ManifestSettings, Scope, VerifySettings, is_ascmhl};
use godwit_node::{cores, signals};
use godwit_run::reports::refuse_manifest_in;
use godwit_run::{Control, Env, Runner};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Checks a copy by a manifest.
pub(super) fn run(matches: &ArgMatches, home: &Home, started: Instant) -> Result<Exit, Failure> {
    let values = settings(Scope::Verify, matches, home)?;
    let settings = VerifySettings::from_values(&values)?;
    let manifest = not_a_stream(Path::new(required(matches, "manifest-file")?))?;
    let copy = required(matches, "copy")?;
    let copy = Endpoint::parse(copy).map_err(Failure::usage)?;
    let spec = JobSpec {
        version: JOB_VERSION,
        kind: JobKind::Verify,
        sources: vec![Endpoint::Local(manifest.to_owned())],
        destination: copy,
        settings: JobSpec::settings_of(&values.chosen()),
        selection: None,
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    };
    let control = Control::default();
    cores::restrict(settings.threads, &settings.pin)?;
    signals::watch(control.cancelled())
        .map_err(|error| Failure::local(format!("signals cannot be handled: {error}")))?;
    let connectors = SshConnectors {
        quiet: settings.json,
    };
    let env = Env {
        started,
        alone: true,
        ..Env::new(home.clone(), Arc::new(connectors))
    };
    let output = Output::new(settings.json, false, started, None).showing(false, settings.verbose);
    let events: Arc<dyn EventSink> = Arc::new(output);
    Ok(match Runner::run(&spec, &env, &events, &control) {
        Ok(Summary::Verify(summary)) if summary.status == Verdict::Same => Exit::Complete,
        Ok(_) => Exit::Partial,
        Err(failure) => failure.code.into(),
    })
}

/// Makes a manifest of data at rest.
pub(super) fn manifest(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let settings = ManifestSettings::from_values(&settings(Scope::Manifest, matches, home)?);
    let source = Path::new(required(matches, "source")?);
    let file = not_a_stream(Path::new(required(matches, "manifest-file")?))?;
    if is_ascmhl(file) {
        return rest::seal(&settings, source);
    }
    refuse_manifest_in(file, source)?;
    rest::run(&settings, source, file, home)
}
