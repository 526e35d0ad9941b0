//! The commands about jobs, for clap.
//! Parses no value.

use clap::{Arg, ArgAction, Command, ValueHint};

use super::node::{PLACES, family, value};
use super::{Make, positional, switch};

pub(super) fn job(make: Make) -> Command {
    let id = || positional("id", "ID", "The job; the beginning of its id is enough");
    let ids = || {
        id().num_args(1..)
            .help("The jobs; the beginnings of their ids are enough")
    };
    family("job", "Submit jobs to a node, watch them and control them").subcommands([
        submit(make),
        Command::new("list")
            .about("List jobs: the progress of each, or the reason why it waits")
            .arg(value("state", "STATE,...", "Only jobs in one of these states"))
            .arg(value("owner", "USER", "Only jobs of this user"))
            .arg(value("site", "SITE", "Only jobs to or from this site"))
            .arg(value("label", "TEXT", "Only jobs whose label contains this text"))
            .arg(value("parent", "ID", "Only the destinations of this job"))
            .arg(switch("all", "Include ended jobs, the newest 1000")),
        Command::new("show").about("Show all facts about a job").arg(id()),
        Command::new("watch")
            .about("Show the progress of a job until it ends")
            .after_help(
                "Exit codes: 0 the job is complete, 3 entries failed, 1 it failed or was cancelled. The job continues when \
                 you stop watching it.",
            )
            .arg(id()),
        Command::new("pause").about("Pause jobs; data that has arrived is kept").arg(ids()),
        Command::new("resume").about("Let paused jobs run again").arg(ids()),
        Command::new("cancel")
            .about("Cancel jobs; data that has arrived is kept")
            .arg(value("comment", "TEXT", "The reason, shown with the job"))
            .arg(ids()),
        Command::new("retry")
            .about("Run jobs again now that have failed or wait for their next attempt")
            .arg(ids()),
        Command::new("limit")
            .about("Change how fast a job may go")
            .arg(id())
            .arg(positional("rate", "RATE", "As in --limit: 300MB, 2.5Gbit/s, none")),
        Command::new("priority")
            .about("Change when a job runs: higher runs first")
            .arg(id())
            .arg(positional("priority", "N", "A whole number; the default is 0").allow_hyphen_values(true)),
        Command::new("label")
            .about("Change the label of a job")
            .arg(id())
            .arg(positional("label", "TEXT", "The label").allow_hyphen_values(true)),
        Command::new("log")
            .about("Print the log of a job")
            .arg(switch("follow", "Keep printing until the job ends"))
            .arg(id()),
        Command::new("report")
            .about("Print the attempts, figures and failed entries of a job")
            .arg(
                value("html", "FILE", "Write an HTML page with plots to this file instead (- is standard output)")
                    .value_hint(ValueHint::FilePath),
            )
            .arg(id()),
        Command::new("manifest")
            .about("Print the manifest that a job has written")
            .after_help("Check a copy against this manifest with godwit verify or godwit job submit --verify.")
            .arg(id()),
    ])
}

/// The text behind the flags of `godwit job submit`.
const SUBMITTED: &str = "SOURCE and DESTINATION are places: SITE:/EXPORT/PATH. The site `here:` is the node that receives this command;\n\
             `godwit site list` names the others. With a trailing slash at the destination, or with several sources,\n\
             sources are copied into the destination, as with godwit cp. A job with several destinations is complete when all\n\
             of them are; each has a job below it, and they share the reads of the source.\n\
             With --from, contents come into DESTINATION/SITE, or DESTINATION/SITE-NAME if a site has several sources.\n\
             With --merge they come into DESTINATION itself, one source after another: refuse fails entries that differ,\n\
             newest keeps the newest file of each name.\n\
             TIME is 22:00 (the next one, local time), 2026-12-24T22:00 (local time), 2026-12-24T22:00Z, or 90min (from now).\n\
             Files of rules and names are read on this machine when the job is submitted.";

fn submit(make: Make) -> Command {
    let single = "godwit job submit [OPTIONS] SOURCE... DESTINATION";
    let (usage, notes) = match make {
        Make::Brief => (single.to_owned(), make.notes("job submit", PLACES)),
        _ => (
            format!(
                "{single}\n       godwit job submit [OPTIONS] SOURCE... --to DESTINATION --to DESTINATION...\n       godwit job submit [OPTIONS] --from SOURCE --from SOURCE... --to DESTINATION"
            ),
            SUBMITTED.to_owned(),
        ),
    };
    let command = Command::new("submit")
        .about("Submit a job that copies or verifies, and print its id")
        .override_usage(usage)
        .after_help(notes)
        .arg(value(
            "after",
            "TIME",
            "Earliest time to begin: 22:00, friday, 2026-12-24",
        ))
        .arg(value(
            "deadline",
            "TIME",
            "End the job as failed if it is not complete by this time, or by the end of this day",
        ))
        .arg(switch(
            "wait",
            "Wait until the job ends, as godwit job watch does",
        ))
        .arg(
            value(
                "idempotency-key",
                "KEY",
                "Submit the job only once, even if this command runs again with the same key",
            )
            .hide_short_help(true),
        );
    job_options(make, command)
}

/// The options of a transfer that is submitted once or again and again.
pub(super) fn transfer_options(command: Command) -> Command {
    command
        .arg(value(
            "label",
            "TEXT",
            "A text that helps people recognise the job",
        ))
        .arg(value(
            "limit",
            "RATE",
            "Limit of the job's rate: 300MB, 2.5Gbit/s",
        ))
        .arg(value("priority", "N", "Higher runs first [default: 0]").allow_hyphen_values(true))
        .arg(
            value(
                "divide",
                "WHEN",
                "Divide the work among nodes: auto (if a site has several nodes), always or never",
            )
            .hide_short_help(true),
        )
        .arg(
            value(
                "relay",
                "WHEN",
                "Give a destination the data of a complete one, checked by digests: never (default), auto (after a failure) or first (from the beginning, for a thin uplink); sources are here:",
            )
            .hide_short_help(true),
        )
        .arg(
            value(
                "remove-source-after",
                "N",
                "After all destinations have ended, remove the files of the source that at least N of them have, as their digests prove. End all programs that write there before",
            )
            .hide_short_help(true),
        )
        .arg(
            value(
                "retries",
                "N",
                "Attempts after the first one [default: until the deadline]",
            )
            .hide_short_help(true),
        )
        .arg(switch(
            "sync",
            "Make the destination equal the source, as godwit sync does",
        ))
}

/// The settings of a transfer.
pub(super) fn setting() -> Arg {
    value(
        "setting",
        "NAME=VALUE",
        "A setting of godwit cp, sync or verify, such as streams=8 (repeatable)",
    )
    .action(ArgAction::Append)
}

/// The options and the places of a job, which a schedule shares.
pub(super) fn job_options(make: Make, command: Command) -> Command {
    let command = transfer_options(command)
        .arg(
            switch(
                "verify",
                "Check DESTINATION by the manifest SOURCE, as godwit verify does; copy nothing",
            )
            .hide_short_help(true)
            .conflicts_with("sync"),
        )
        .arg(
            switch(
                "manifest",
                "Write a manifest of the arrived entries; godwit job manifest prints the manifest",
            )
            .hide_short_help(true)
            .conflicts_with("verify"),
        )
        .arg(setting())
        .arg(
            value(
                "to",
                "DESTINATION",
                "A destination in place of the last argument (repeatable)",
            )
            .action(ArgAction::Append),
        )
        .arg(
            value(
                "from",
                "SOURCE",
                "A source to gather below the name of its site (repeatable)",
            )
            .action(ArgAction::Append)
            .hide_short_help(true),
        )
        .arg(
            value(
                "merge",
                "RULE",
                "Where gathered sources go: by-site (each below its site's name), or into DESTINATION itself with refuse or newest",
            )
            .requires("from")
            .hide_short_help(true),
        )
        .arg(
            positional(
                "places",
                "SOURCE... DESTINATION",
                "One or more sources, and the destination",
            )
            .num_args(1..)
            .required(false),
        );
    make.with_choosing(command)
}
