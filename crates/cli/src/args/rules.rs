//! The commands about limits and shares, schedules, flows and webhooks, for clap.
//! Parses no value.

use clap::{Arg, ArgAction, Command, ValueHint};

use super::job::{job_options, setting, transfer_options};
use super::node::{PLACES, family, value};
use super::{Make, positional, switch};

/// The explanation of windows, behind the help of each command that takes windows.
const WINDOWS: &str = "A window is \"DAYS FROM-TO RATE\": \"mon-fri 08:00-18:00 100MB/s\", \"sat,sun 00:00-24:00 none\", \"daily 22:00-06:00 none\".\n\
     The first window that contains the present time applies. This replaces the whole limit; RATE none alone removes it.";

/// The limit of a node, a user's jobs or a site, as `about` says.
pub(super) fn limit(about: &'static str) -> Command {
    Command::new("limit")
        .about(about)
        .after_help(WINDOWS)
        .arg(value(
            "jobs",
            "N",
            "Limit on the number of jobs that run at once",
        ))
        .arg(
            value(
                "window",
                "WINDOW",
                "A different rate at certain times of the week (repeatable)",
            )
            .action(ArgAction::Append),
        )
        .arg(time_zone(
            "The time zone of the windows, such as Europe/Berlin",
        ))
}

/// The rate of a limit.
pub(super) fn rate() -> Arg {
    positional("rate", "RATE", "As in --limit: 300MB, 2.5Gbit/s, none")
}

/// The weight of an owner among competing owners.
pub(super) fn share() -> Command {
    Command::new("share")
        .about("Set a user's share of the job slots when users compete for them")
        .arg(positional("name", "NAME", "Which user"))
        .arg(positional(
            "weight",
            "WEIGHT",
            "A share of 2 gets twice as many slots as the default share of 1",
        ))
}

pub(super) fn schedule(make: Make) -> Command {
    let id = || positional("id", "NAME", "Which schedule");
    let add = Command::new("add")
        .about("Submit a job repeatedly; a schedule of the same name is replaced")
        .override_usage("godwit schedule add [OPTIONS] NAME CRON SOURCE... DESTINATION\n       godwit schedule add [OPTIONS] NAME CRON SOURCE... --to DESTINATION --to DESTINATION...\n       godwit schedule add [OPTIONS] NAME CRON --from SOURCE --from SOURCE... --to DESTINATION")
        .after_help(make.notes(
            "schedule add",
            "CRON is minute, hour, day of the month, month, day of the week: \"0 22 * * mon-fri\". At each time the\n\
             schedule submits a job, even while an earlier job waits or runs. Places are written as for godwit job submit.",
        ))
        .arg(time_zone("The time zone of CRON, such as Europe/Berlin"))
        .arg(value("comment", "TEXT", "Free text"))
        .arg(positional("id", "NAME", "Name of the schedule"))
        .arg(positional("cron", "CRON", "The times, as five fields"));
    family("schedule", "Make a node submit jobs at set times").subcommands([
        job_options(make, add),
        Command::new("list").about("List schedules: the job, its times, and the next time"),
        Command::new("disable")
            .about("Disable: submit no jobs until enabled again")
            .arg(id()),
        Command::new("enable")
            .about("Enable: submit jobs again")
            .arg(id()),
        Command::new("remove")
            .about("Remove a schedule; its jobs stay")
            .arg(id()),
    ])
}

/// The text behind the flags of `godwit flow add`.
const FLOWING: &str = "Each place is a directory, written as for godwit job submit; its contents go into the next one. A file goes on as\n\
     soon as it is whole and checked at a place. The options hold for all hops. --hop N:NAME=VALUE sets one value of hop N:\n\
     limit, priority, retries, label, or a setting of godwit cp or sync.";

pub(super) fn flow(make: Make) -> Command {
    let id = || positional("id", "NAME", "Which flow");
    let notes = match make {
        Make::Brief => make.notes("flow add", PLACES),
        _ => FLOWING.to_owned(),
    };
    let add = Command::new("add")
        .about("Pass files on from place to place, or change the settings of a flow")
        .override_usage("godwit flow add [OPTIONS] NAME --from PLACE --to PLACE [--then PLACE]...")
        .after_help(notes)
        .arg(value("from", "PLACE", "Where the files come from").required(true))
        .arg(value("to", "PLACE", "Where they go first").required(true))
        .arg(value("then", "PLACE", "Where they go on to (repeatable)").action(ArgAction::Append))
        .arg(value(
            "every",
            "TIME",
            "Longest time between two looks for new files [default: 60s]",
        ))
        .arg(
            value(
                "hop",
                "N:NAME=VALUE",
                "A value for hop N alone, such as 2:limit=100MB (repeatable)",
            )
            .action(ArgAction::Append),
        )
        .arg(value("comment", "TEXT", "Free text").hide_short_help(true))
        .arg(positional("id", "NAME", "Name of the flow"));
    let add = make.with_choosing(transfer_options(add).arg(setting()));
    family("flow", "Make a node pass files on from place to place").subcommands([
        add,
        Command::new("list").about("List flows: their places, what waits, and for how long"),
        Command::new("show")
            .about("Show the hops of a flow: state, rate, backlog, and why one does not move")
            .arg(id()),
        Command::new("pause")
            .about("Pause: start no further run until resumed; running jobs continue")
            .arg(id()),
        Command::new("resume")
            .about("Resume: start runs again")
            .arg(id()),
        Command::new("remove")
            .about("Remove a flow; its jobs and all files stay")
            .arg(id()),
    ])
}

pub(super) fn webhook() -> Command {
    let id = || positional("id", "NAME", "Which webhook");
    family("webhook", "Make a node report the states of jobs to a web address").subcommands([
        Command::new("add")
            .about("Add or replace a webhook; the secret of a new webhook is printed only this once")
            .after_help(
                "Messages are signed as the Standard Webhooks specification says; delivery is retried for three days.\n\
                 Private addresses are refused unless the node's setting webhook-network allows them.",
            )
            .arg(
                value(
                    "event",
                    "STATE,...",
                    "Only these events: states that a job enters, drained, and site_away, site_back [default: all states]",
                )
                .action(ArgAction::Append),
            )
            .arg(value("owner", "USER", "Only jobs of this user"))
            .arg(
                value(
                    "secret-file",
                    "FILE",
                    "File with the key for signatures, readable only by its owner: whsec_ and base64",
                )
                .value_hint(ValueHint::FilePath),
            )
            .arg(switch("disabled", "Disable: send no messages until enabled again"))
            .arg(positional("id", "NAME", "Name of the webhook"))
            .arg(positional("url", "URL", "Where to send: https://HOST/PATH")),
        Command::new("list").about("List webhooks"),
        Command::new("deliveries")
            .about("List recent messages and the outcome of each delivery")
            .arg(id()),
        Command::new("disable")
            .about("Disable: send no messages until enabled again")
            .arg(id()),
        Command::new("enable").about("Send again").arg(id()),
        Command::new("remove").about("Remove a webhook").arg(id()),
    ])
}

fn time_zone(help: &'static str) -> Arg {
    value("time-zone", "ZONE", help)
        .help(format!("{help} [default: the machine's time zone, or UTC]"))
}
