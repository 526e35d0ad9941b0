//! The commands about limits and shares, schedules and webhooks, for clap.
//! Parses no value.

use clap::{Arg, ArgAction, Command, ValueHint};

use super::node::{family, job_options, value};
use super::{Make, positional, switch};

/// The explanation of windows, behind the help of each command that takes windows.
const WINDOWS: &str = "A window is \"DAYS FROM-TO RATE\": \"mon-fri 08:00-18:00 100MB/s\", \"sat,sun 00:00-24:00 none\", \"daily 22:00-06:00 none\".\n\
     The first window that holds counts. This replaces the whole limit; RATE none alone removes it.";

/// The limit of a node, a user's jobs or a site, as `about` says.
pub(super) fn limit(about: &'static str) -> Command {
    Command::new("limit")
        .about(about)
        .after_help(WINDOWS)
        .arg(value("jobs", "N", "No more jobs at once"))
        .arg(
            value(
                "window",
                "WINDOW",
                "Another rate at times of the week (repeatable)",
            )
            .action(ArgAction::Append),
        )
        .arg(time_zone("The time zone of the windows, as Europe/Berlin"))
}

/// The rate of a limit.
pub(super) fn rate() -> Arg {
    positional("rate", "RATE", "As in --limit: 300MB, 2.5Gbit/s, none")
}

/// The weight of an owner among competing owners.
pub(super) fn share() -> Command {
    Command::new("share")
        .about("Say how many of the places a user's jobs get where users compete")
        .arg(positional("name", "NAME", "Which user"))
        .arg(positional(
            "weight",
            "WEIGHT",
            "2 gets twice as much as 1, which is usual",
        ))
}

pub(super) fn schedule(make: Make) -> Command {
    let id = || positional("id", "NAME", "Which schedule");
    let add = Command::new("add")
        .about("Submit a job again and again; a schedule of that name is replaced")
        .override_usage("godwit schedule add [OPTIONS] NAME CRON SOURCE... DESTINATION")
        .after_help(
            "CRON is minute, hour, day of the month, month, day of the week: \"0 22 * * mon-fri\". Each time submits a job, also\n\
             while an earlier one waits or runs. Places are as in godwit job submit.",
        )
        .arg(time_zone("The time zone of CRON, as Europe/Berlin"))
        .arg(value("comment", "TEXT", "Free text"))
        .arg(positional("id", "NAME", "What the schedule is called"))
        .arg(positional("cron", "CRON", "When"));
    family("schedule", "Have a node submit jobs at times of the day").subcommands([
        job_options(make, add),
        Command::new("list").about("List schedules: what, when, and when next"),
        Command::new("disable")
            .about("Submit nothing for the time being")
            .arg(id()),
        Command::new("enable").about("Submit again").arg(id()),
        Command::new("remove")
            .about("Remove a schedule; its jobs stay")
            .arg(id()),
    ])
}

pub(super) fn webhook() -> Command {
    let id = || positional("id", "NAME", "Which webhook");
    family("webhook", "Have a node say to an address how jobs go on").subcommands([
        Command::new("add")
            .about("Add a webhook, or replace it; a new one prints its secret, this once")
            .after_help(
                "Messages are signed as Standard Webhooks say, and sent again for three days. Private addresses are refused unless\n\
                 webhook-network of the node allows them.",
            )
            .arg(
                value(
                    "event",
                    "STATE,...",
                    "Only jobs that come into one of these states; also site_away, site_back [default: all states]",
                )
                .action(ArgAction::Append),
            )
            .arg(value("owner", "USER", "Only jobs of this user"))
            .arg(
                value(
                    "secret-file",
                    "FILE",
                    "File with the key for signatures, closed to others: whsec_ and base64",
                )
                .value_hint(ValueHint::FilePath),
            )
            .arg(switch("disabled", "Send nothing for the time being"))
            .arg(positional("id", "NAME", "What the webhook is called"))
            .arg(positional("url", "URL", "Where to send: https://HOST/PATH")),
        Command::new("list").about("List webhooks"),
        Command::new("deliveries")
            .about("List what was sent of late, and how that went")
            .arg(id()),
        Command::new("remove").about("Remove a webhook").arg(id()),
    ])
}

fn time_zone(help: &'static str) -> Arg {
    value("time-zone", "ZONE", help)
        .help(format!("{help} [default: that of this machine, else UTC]"))
}
