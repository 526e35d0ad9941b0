//! The `godwit` command: from what was typed to an exit code.
//! Moves no data itself; `transfer` and `serve` join the settings to the engine and the node.

mod agent;
mod args;
mod commands;
mod cores;
mod doctor;
mod exit;
mod help;
mod home;
mod output;
mod reports;
mod rest;
mod serve;
mod ssh;
mod transfer;
mod verify;

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let started = Instant::now();
    // Ends by itself with exit code 2 on wrong usage, and with 0 after printing help.
    let matches = args::command().get_matches();
    match commands::run(&matches, started) {
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure.message);
            failure.exit.into()
        }
    }
}
