//! Joins `godwit cp` to the engine.
//! Parses nothing and prints through the output only.

use crate::exit::Exit;
use crate::home::Home;
use crate::output::Output;
use godwit_api::endpoint::Endpoint;
use godwit_api::settings::CpSettings;
use std::process::ExitCode;

/// Runs one transfer to its end.
pub(crate) fn run(
    _settings: &CpSettings,
    _sources: Vec<Endpoint>,
    _destination: Endpoint,
    _home: &Home,
    output: Output,
) -> ExitCode {
    output.error("the engine is not joined to the command line yet");
    Exit::Failed.into()
}
