//! Owns the suite `state`: how fast a state acknowledges commands. Starts the measurement, which is a program of the crate `state`.
//! Compares nothing and writes no report.

use std::path::Path;
use std::process::Command as Program;

use anyhow::{Context as _, ensure};

/// Prints a table with a line for each run and load.
///
/// # Errors
/// The program cannot be built, or an acknowledged command was missing.
pub(super) fn run(disk: &Path, runs: u32) -> anyhow::Result<()> {
    let disk = std::path::absolute(disk)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Program::new(cargo)
        .args(["bench", "--quiet", "--locked", "--package", "godwit-state"])
        .args(["--bench", "proposals", "--"])
        .arg(disk)
        .arg(runs.to_string())
        .current_dir(super::workspace())
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the measurement of the state failed");
    Ok(())
}
