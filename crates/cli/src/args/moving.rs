//! The commands that move data, `cp` and `sync`, for clap.
//! Parses no value; the table of settings does.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use godwit_api::settings::{Heading, Scope};

use super::{Make, brief};

pub(super) fn cp(make: Make) -> Command {
    let command = Command::new("cp")
        .about("Copy files and directories: here, by ssh, to and from nodes")
        .override_usage(usage(make, "cp", "SOURCE... DESTINATION"))
        .after_help(notes(
            make,
            "cp",
            "Directories recurse. An existing directory, or a trailing slash, as destination means \"into\"; several \
             sources need one of the two.\n\
             The same command again resumes what was interrupted.",
        ));
    moving(command, make, Scope::Cp)
}

pub(super) fn sync(make: Make) -> Command {
    let command = Command::new("sync")
        .about("Make a destination equal a source, sending only what differs")
        .override_usage(usage(make, "sync", "SOURCE DESTINATION"))
        .after_help(notes(
            make,
            "sync",
            "DESTINATION is the counterpart of SOURCE, whether or not it exists: nothing goes \"into\" it, and a slash \
             behind it changes nothing. Entries that only the destination has stay unless --delete is given; --dry-run shows what would \
             be done. The same command again resumes what was interrupted.",
        ));
    moving(command, make, Scope::Sync)
}

/// The usage of a command; the short help has one form alone.
fn usage(make: Make, command: &str, words: &str) -> String {
    let single = format!("godwit {command} [OPTIONS] {words}");
    match make {
        Make::Brief => single,
        _ => format!("{single}\n       godwit {command} [OPTIONS] --each SOURCE DESTINATION..."),
    }
}

/// A command that moves data, with its arguments.
fn moving(command: Command, make: Make, scope: Scope) -> Command {
    make.with_settings(command, scope)
        .arg(paths())
        .arg(each(make))
        .arg(as_in_rsync())
}

/// The flag for several destinations. It belongs to the words of a command, so no variable and no file sets it.
fn each(make: Make) -> Arg {
    let arg = Arg::new(EACH)
        .long(EACH)
        .action(ArgAction::SetTrue)
        .overrides_with(EACH)
        .help("Read SOURCE once for several destinations");
    match make {
        Make::Brief => arg.display_order(brief::MOVING.len()),
        _ => arg
            .help_heading(Heading::Safety.text())
            .long_help(
                "The first path is the source, on this machine, and each other path is a destination. The source is read once for all: \
                 no destination waits for a slower one for more than 3 % of the time, and a destination that falls behind reads again alone. \
                 Each destination scans the source separately. It has a progress line, retries and a summary; --limit \
                 holds for each. Half of --memory keeps shared blocks; the destinations divide the rest, 8 MiB each at least. --manifest FILE and --failed FILE become FILE.1, FILE.2 and so on. \
                 The exit code is the worst of all.",
            ),
    }
}

/// The name of the flag for several destinations.
pub(crate) const EACH: &str = "each";

/// Flags of rsync whose effect is the default here. Their users type them without a thought.
fn as_in_rsync() -> Arg {
    Arg::new(AS_IN_RSYNC)
        .long(AS_IN_RSYNC)
        .short('P')
        .visible_alias("partial")
        .action(ArgAction::SetTrue)
        .overrides_with(AS_IN_RSYNC)
        .hide_short_help(true)
        .help_heading(Heading::Reports.text())
        .help("As in rsync, and without effect: a terminal shows progress, and the same command resumes")
}

/// The name of the flag that changes nothing.
pub(crate) const AS_IN_RSYNC: &str = "progress";

/// One argument for sources and destination, since flags may stand between them; `copy` takes the last path as the destination.
fn paths() -> Arg {
    Arg::new("paths")
        .value_name("SOURCE... DESTINATION")
        .value_parser(ValueParser::os_string())
        .num_args(1..)
        .action(ArgAction::Append)
        .required(true)
        .value_hint(ValueHint::AnyPath)
        // The usage says the same.
        .hide_short_help(true)
        .help("The sources to copy, and the destination")
}

/// The text behind the flags of a command that moves data.
fn notes(make: Make, command: &str, meaning: &str) -> String {
    let places = "Endpoints: a path, [USER@]HOST:PATH (by ssh), godwit://HOST[:PORT]/EXPORT/PATH (a node), - (standard input or \
         output), mem:SIZE (bytes from memory, a source), null: (a destination that keeps nothing).";
    match make {
        Make::Brief => format!("{places}\n\n{}", brief::rest(command)),
        _ => format!("{places}\n\n{meaning}"),
    }
}
