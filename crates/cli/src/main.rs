//! The `godwit` command: from what was typed to an exit code.
//! Moves no data itself; `transfer` and `serve` join the settings to the engine and the node.

mod agent;
mod args;
mod commands;
mod cores;
mod doctor;
mod exit;
mod habits;
mod help;
mod home;
mod output;
mod reports;
mod rest;
mod running;
mod serve;
mod signals;
mod ssh;
mod transfer;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let started = Instant::now();
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = match args::command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        // With exit code 2 on wrong usage, and with 0 after printing help.
        Err(error) => match habits::hint(&error, &words) {
            Some(hint) => {
                output::complain(&hint);
                return exit::Exit::Usage.into();
            }
            None => error.exit(),
        },
    };
    match commands::run(&matches, started) {
        // Who reads what is printed shall not take a part of it for the whole.
        Ok(code) if code == ExitCode::SUCCESS && output::is_cut_short() => {
            exit::Exit::Failed.into()
        }
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure.message);
            failure.exit.into()
        }
    }
}
