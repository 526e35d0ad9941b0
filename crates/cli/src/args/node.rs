//! The commands that speak to a running node, for clap.
//! Parses no value.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgGroup, Command, ValueHint};

use super::{Make, positional, switch};

/// The commands, in the order of the help.
pub(super) fn commands(make: Make) -> [Command; 14] {
    [
        job(make),
        top(),
        list(),
        make_directory(),
        remove(),
        rename(),
        clean(),
        super::rules::schedule(make),
        super::rules::webhook(),
        super::cluster::cluster(),
        site(),
        super::users::user(),
        super::users::token(),
        node(),
    ]
}

/// The note on places behind the help of each command that takes places.
const PLACES: &str = "A place is SITE:/EXPORT/PATH. The site here: is the node that is asked; godwit site list names the others.";

fn list() -> Command {
    reaching(Command::new("ls"))
        .about("List a directory of a node or site, or the exports of a site")
        .after_help(format!(
            "{PLACES}\nSITE:/ lists the exports that may be used there, with their room."
        ))
        .arg(switch("all", "Names that begin with a dot, too").short('a'))
        .arg(some_places("Directories, files, or sites as SITE:/"))
}

fn make_directory() -> Command {
    reaching(Command::new("mkdir"))
        .about("Make directories at a node or site")
        .after_help(PLACES)
        .arg(
            switch(
                "parents",
                "Make missing directories above, too; one that is there is fine",
            )
            .short('p'),
        )
        .arg(some_places("The new directories"))
}

fn remove() -> Command {
    reaching(Command::new("rm"))
        .about("Remove files and directories at a node or site")
        .after_help(format!(
            "{PLACES}\nLinks are removed, never followed. An export itself stays. Exit codes: 0 removed, 3 something stayed."
        ))
        .arg(switch("recursive", "Directories with all that is in them").short('r'))
        .arg(some_places("What to remove"))
}

fn rename() -> Command {
    reaching(Command::new("mv"))
        .about("Rename a file or directory within an export")
        .override_usage("godwit mv [OPTIONS] SOURCE DESTINATION")
        .after_help(format!(
            "{PLACES}\nA DESTINATION that is a directory, or ends with a slash, means \"into\".\n\
             Between exports and sites, copy: godwit job submit does that."
        ))
        .arg(switch("force", "Replace a file that stands there").short('f'))
        .arg(positional("places", "SOURCE DESTINATION", "What to rename, and how").num_args(2))
}

fn clean() -> Command {
    reaching(Command::new("clean"))
        .about("Remove temporary files of interrupted transfers that nobody can resume")
        .after_help(format!(
            "{PLACES}\nFiles that a transfer of that node needs, running or to be resumed, stay. Transfers of other machines into the\n\
             same storage cannot be seen from there; --older-than leaves their files alone."
        ))
        .arg(switch("dry-run", "Say what would be removed, and remove nothing").short('n'))
        .arg(value(
            "older-than",
            "TIME",
            "Leave files that were written to in this time [default: 1h]",
        ))
        .arg(
            value("job", "ID", "Remove at once what this job left that has ended, and nothing else")
                .conflicts_with_all(["places", "older-than"]),
        )
        .arg(some_places("Directories to look through").required(false).required_unless_present("job"))
}

/// One place or more.
fn some_places(help: &'static str) -> Arg {
    positional("places", "PLACE", help).num_args(1..)
}

fn job(make: Make) -> Command {
    let id = || positional("id", "ID", "Which job; the beginning of its id is enough");
    let ids = || {
        id().num_args(1..)
            .help("Which jobs; the beginnings of their ids are enough")
    };
    family("job", "Submit jobs to a node, watch and steer them").subcommands([
        submit(make),
        Command::new("list")
            .about("List jobs: how far each is, or why it waits")
            .arg(value("state", "STATE,...", "Only jobs in one of these states"))
            .arg(value("owner", "USER", "Only jobs of this user"))
            .arg(value("site", "SITE", "Only jobs to or from this site"))
            .arg(value("label", "TEXT", "Only jobs with this in their label"))
            .arg(switch("all", "Also jobs that have ended, the newest 1000")),
        Command::new("show").about("Show all that is known of a job").arg(id()),
        Command::new("watch")
            .about("Show how a job goes on until it ends")
            .after_help(
                "Exit codes: 0 the job is complete, 3 entries failed, 1 it failed or was cancelled. To stop watching does not \
                 stop the job.",
            )
            .arg(id()),
        Command::new("pause").about("Stop jobs for a time; what has arrived stays").arg(ids()),
        Command::new("resume").about("Let paused jobs run again").arg(ids()),
        Command::new("cancel")
            .about("Give jobs up; what has arrived stays")
            .arg(value("comment", "TEXT", "Why, for those who look later"))
            .arg(ids()),
        Command::new("retry")
            .about("Try jobs again now that have failed, or wait for their next attempt")
            .arg(ids()),
        Command::new("limit")
            .about("Change how fast a job may go")
            .arg(id())
            .arg(positional("rate", "RATE", "As in --limit: 300MB, 2.5Gbit/s, none")),
        Command::new("priority")
            .about("Change when a job runs: higher runs first")
            .arg(id())
            .arg(positional("priority", "N", "A whole number; 0 is usual").allow_hyphen_values(true)),
        Command::new("label")
            .about("Change the label of a job")
            .arg(id())
            .arg(positional("label", "TEXT", "The label").allow_hyphen_values(true)),
        Command::new("log")
            .about("Print the log of a job")
            .arg(switch("follow", "Go on until the job ends"))
            .arg(id()),
        Command::new("report")
            .about("Print the attempts, figures and failed entries of a job")
            .arg(
                value("html", "FILE", "Write a page with plots to this file instead (- is standard output)")
                    .value_hint(ValueHint::FilePath),
            )
            .arg(id()),
        Command::new("manifest")
            .about("Print the manifest that a job wrote")
            .after_help("A copy is checked against it by godwit verify, and by godwit job submit --verify.")
            .arg(id()),
    ])
}

fn submit(make: Make) -> Command {
    let command = Command::new("submit")
        .about("Submit a job that copies or verifies, and print its id")
        .override_usage("godwit job submit [OPTIONS] SOURCE... DESTINATION")
        .after_help(
            "SOURCE and DESTINATION are places: SITE:/EXPORT/PATH. The site here: is the node that is asked; godwit site list\n\
             names the others. A slash behind the destination, or several sources, mean \"into\", as with godwit cp.\n\
             TIME is 22:00 (the next one, local time), 2026-12-24T22:00 (local time), 2026-12-24T22:00Z, or 90min (from now).\n\
             Files of rules and names are read here, at the submission.",
        )
        .arg(value("after", "TIME", "Do not begin before this time: 22:00, friday, 2026-12-24"))
        .arg(value("deadline", "TIME", "Give the job up at this time, or at the end of this day"))
        .arg(switch("wait", "Watch the job until it ends; the exit code is that of godwit job watch"))
        .arg(value(
            "idempotency-key",
            "KEY",
            "Submit only once, however often this command runs with this key",
        ));
    job_options(make, command)
}

/// The options and the places of a job, which a schedule shares.
pub(super) fn job_options(make: Make, command: Command) -> Command {
    let command = command
        .arg(value("label", "TEXT", "Text by which people know the job"))
        .arg(value(
            "limit",
            "RATE",
            "Not faster than this: 300MB, 2.5Gbit/s",
        ))
        .arg(value("priority", "N", "Higher runs first [default: 0]").allow_hyphen_values(true))
        .arg(value(
            "divide",
            "WHEN",
            "Divide the work among nodes: auto (where a site has several), always or never",
        ))
        .arg(value(
            "retries",
            "N",
            "Attempts after the first one [default: until the deadline]",
        ))
        .arg(switch(
            "sync",
            "Make the destination equal the source, as godwit sync does",
        ))
        .arg(
            switch(
                "verify",
                "Check DESTINATION by the manifest SOURCE, as godwit verify does; copy nothing",
            )
            .conflicts_with("sync"),
        )
        .arg(
            switch(
                "manifest",
                "Write a manifest of what arrives; godwit job manifest prints it",
            )
            .conflicts_with("verify"),
        )
        .arg(
            value(
                "setting",
                "NAME=VALUE",
                "A setting of godwit cp, sync or verify, such as streams=8 (repeatable)",
            )
            .action(ArgAction::Append),
        )
        .arg(
            positional(
                "places",
                "SOURCE... DESTINATION",
                "What to copy, and where to",
            )
            .num_args(2..),
        );
    make.with_choosing(command)
}

fn top() -> Command {
    reaching(Command::new("top"))
        .about("Show nodes, jobs and who does what as they run, refreshed each second")
        .arg(switch("once", "Print what is so now, and end"))
        .after_help("On no terminal it prints once. Control-C ends it. --json prints one document: cluster, jobs, work.")
}

fn site() -> Command {
    family(
        "site",
        "Name other nodes to a node, so that jobs can use them",
    )
    .subcommands([
        Command::new("add")
            .about("Add a site, or replace it")
            .arg(
                value(
                    "identity",
                    "IDENTITY",
                    "What `godwit id` prints on its nodes; several, in the order of the addresses, if its nodes are no cluster",
                )
                .required(true)
                .value_delimiter(',')
                .action(ArgAction::Append),
            )
            .arg(value("comment", "TEXT", "Free text"))
            .arg(positional(
                "name",
                "NAME",
                "How jobs name it: NAME:/EXPORT/PATH",
            ))
            .arg(
                positional("address", "HOST[:PORT]", "Addresses of its nodes")
                    .num_args(1..)
                    .value_delimiter(','),
            ),
        Command::new("list").about("List sites"),
        Command::new("test")
            .about("Ask a site whether it answers, and what may be used there")
            .arg(positional("name", "NAME", "Which site")),
        super::rules::limit(
            "Change how fast jobs with a site may go together, and how many run at once",
        )
        .arg(positional("name", "NAME", "Which site; * is each"))
        .arg(super::rules::rate()),
        Command::new("remove")
            .about("Remove a site")
            .arg(positional("name", "NAME", "Which site")),
    ])
}

fn node() -> Command {
    family(
        "node",
        "Ask a node about itself, and say which one is the right one",
    )
    .subcommands([
        Command::new("status").about("Show the node, its exports, and who asks"),
        Command::new("limits")
            .about("List the limits of nodes, users, sites and jobs, and the shares of users"),
        super::rules::limit(
            "Change how fast the jobs of a node may go together, and how many run at once",
        )
        .arg(
            value("of", "NODE", "Which node of the cluster [default: each]")
                .conflicts_with("each-job"),
        )
        .arg(switch("each-job", "Of each job that has no limit of its own").conflicts_with("jobs"))
        .arg(super::rules::rate()),
        Command::new("trust")
            .about("Remember the key or certificate of a node for --node")
            .arg(positional(
                "url",
                "URL",
                "The node, as in --node: https://HOST[:PORT]",
            ))
            .arg(positional(
                "fingerprint",
                "FINGERPRINT",
                "SHA-256 of the node's key or certificate, as the node prints it at its start",
            )),
    ])
}

/// The command for grants at the node of this machine. It changes files of the home, so it asks no other node.
pub(super) fn access() -> Command {
    let subject = || {
        positional(
            "subject",
            "WHO",
            "An identity, as `godwit id` prints it on the client's side, or user:NAME",
        )
    };
    let export =
        |help: &'static str| value("export", "NAME[:/PATH]", help).action(ArgAction::Append);
    let site =
        |help: &'static str| value("site", "SITE[:/EXPORT[/PATH]]", help).action(ArgAction::Append);
    let json = || {
        switch(
            "json",
            "Print the documents of the API as JSON, one a line, instead of text",
        )
    };
    Command::new("access")
        .about("Say who may do what in the exports of this machine's node, and what its users may do at sites")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands([
            Command::new("list")
                .about("List who may do what, until when, and where that is kept")
                .arg(json()),
            Command::new("allow")
                .about("Let a client or user in; a running node obeys at once")
                .arg(subject())
                .arg(export("In this export, or below this path of it (repeatable); %XX stands for a byte"))
                .arg(switch("all-exports", "In all exports, also in those that come later"))
                .arg(site("At this site, in this export of it, or below this path; for users of the node (repeatable)"))
                .group(
                    ArgGroup::new("where")
                        .args(["export", "all-exports", "site"])
                        .required(true),
                )
                .arg(switch("read", "Let it read and list (the default without another right)"))
                .arg(switch("write", "Let it write and delete"))
                .arg(switch("list", "Let it list directories"))
                .arg(switch("delete", "Let it delete and rename"))
                .arg(value("expires", "TIME", "When this ends: friday, 90d, or with the day 2027-01-31 [default: never]"))
                .arg(value("comment", "TEXT", "Who it is, and why")),
            Command::new("deny")
                .about("Take back what was allowed; a running node obeys at once, and ends transfers")
                .arg(subject())
                .arg(export("Only in this export, or below this path of it (repeatable); without it everywhere"))
                .arg(site("Only at this site, in this export of it, or below this path (repeatable)").conflicts_with("export")),
        ])
}

/// The transfers that the node of this machine recorded.
pub(super) fn accounting() -> Command {
    Command::new("accounting")
        .about("List the transfers that this machine's node has recorded: who, what, how much, how it ended")
        .after_help("TIME is 2026-11-24, 2026-11-24T22:00 (both local time), 2026-11-24T22:00Z, or 7d (ago).")
        .arg(switch("json", "Print the records as JSON, one a line, instead of text"))
        .arg(value("since", "TIME", "Only transfers that ended then or later"))
        .arg(value("until", "TIME", "Only transfers that ended before"))
}

/// The settings of the node of this machine.
pub(super) fn config() -> Command {
    Command::new("config")
        .about("Look at the settings of a node before it is started")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("check")
                .about("Say all that is wrong with a settings file; nothing is started")
                .arg(
                    positional("file", "FILE", "The file; without it that of godwit serve")
                        .required(false)
                        .value_hint(ValueHint::FilePath),
                ),
        )
}

/// A command with subcommands.
pub(super) fn family(name: &'static str, about: &'static str) -> Command {
    reaching(Command::new(name))
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
}

/// A command, or a family of them, that asks a node.
fn reaching(command: Command) -> Command {
    let heading = "Which node";
    command
        .arg(
            switch("json", "Print the documents of the API as JSON, one a line, instead of text")
                .global(true),
        )
        .arg(
            value(
                "node",
                "URL",
                "https://HOST[:PORT]; without it the node at GODWIT_SOCKET, of GODWIT_HOME, of this user, or of the system [environment: GODWIT_NODE]",
            )
            .global(true)
            .help_heading(heading),
        )
        .arg(
            value(
                "token-file",
                "FILE",
                "File with the token for --node, closed to others [environment: GODWIT_TOKEN_FILE]",
            )
            .value_hint(ValueHint::FilePath)
            .global(true)
            .help_heading(heading),
        )
        .arg(
            value(
                "fingerprint",
                "SHA256",
                "Key or certificate that --node must show; without it the one of godwit node trust, or one that this system trusts",
            )
            .global(true)
            .help_heading(heading),
        )
}

/// An option with a value.
pub(super) fn value(name: &'static str, form: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(form)
        .value_parser(ValueParser::os_string())
        .help(help)
}

pub(super) fn backup() -> Command {
    Command::new("backup")
        .about("Save what a node knows: its keys, grants, sites, users, rules and jobs")
        .after_help(
            "The node may run meanwhile. The backup holds keys, so only its owner may read it. It holds no data of exports, and \
             no log or report of a job.",
        )
        .arg(positional("directory", "DIRECTORY", "Where to; it must not be there"))
}

pub(super) fn restore() -> Command {
    Command::new("restore")
        .about("Put a backup in the place of what a node knows")
        .after_help(
            "Stop the node first. The files that are there are kept beside the restored ones. Jobs that ran when the backup was made go \
             on where their transfers are now.",
        )
        .arg(positional("directory", "DIRECTORY", "What godwit backup has made"))
}
