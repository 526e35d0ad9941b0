//! Joins `godwit serve` to the node.
//! Parses nothing.

use crate::exit::Exit;
use crate::home::Home;
use crate::output::complain;
use godwit_api::settings::ServeSettings;
use std::process::ExitCode;

/// Runs a node until it is told to stop.
pub(crate) fn run(_settings: &ServeSettings, _home: &Home) -> ExitCode {
    complain("the node is not joined to the command line yet");
    Exit::Failed.into()
}
