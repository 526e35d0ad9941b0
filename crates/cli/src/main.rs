//! The `godwit` command: from the typed words to an exit code.
//! Moves no data itself; `godwit_run` runs a transfer, and `godwit_node` a node.

mod agent;
mod args;
mod commands;
mod connectors;
mod doctor;
mod exit;
mod habits;
mod help;
mod home;
mod list;
mod output;
mod rest;
mod running;
mod ssh;
mod undumpable;

use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Write as _;
use std::time::Instant;

use exit::Exit;

fn main() {
    undumpable::protect();
    let exit = run();
    // Threads may still wait for an endless input, or dial a machine that is no longer needed. `is_cut_short` has already found a
    // reader of standard output that is gone.
    let _ = std::io::stdout().flush();
    godwit_node::outlet::drain();
    godwit_sys::exit::exit(exit as u8);
}

/// Runs the typed command.
fn run() -> Exit {
    let started = Instant::now();
    let words: Vec<OsString> = std::env::args_os().collect();
    // Examples take longer to make than all else, and only help shows them.
    let parsed = args::quick().try_get_matches_from(&words).or_else(|error| {
        if error.kind() != ErrorKind::DisplayHelp {
            return Err(error);
        }
        let shown = match words.last() {
            Some(last) if last == "-h" => args::brief(),
            _ => args::command(),
        };
        // A switch with a value is parsed, and not shown.
        shown
            .try_get_matches_from(&words)
            .map_err(|shown| match shown.kind() {
                ErrorKind::DisplayHelp => shown,
                _ => error,
            })
    });
    let matches = match parsed {
        Ok(matches) => matches,
        // Wrong usage ends with exit code 2, and printed help with 0.
        Err(error) => match habits::hint(&error, &words) {
            Some(hint) => {
                output::complain(&hint);
                return Exit::Usage;
            }
            None => error.exit(),
        },
    };
    match commands::run(&matches, started) {
        // A reader must not take a part of the output for the whole.
        Ok(Exit::Complete) if output::is_cut_short() => Exit::Failed,
        Ok(exit) => exit,
        Err(failure) => {
            output::complain_of(&failure);
            failure.exit()
        }
    }
}
