//! The commands that speak to a running node, for clap.
//! Parses no value.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgGroup, Command, ValueHint};

use super::{Make, positional, switch};

/// The commands, in the order of the help.
pub(super) fn commands(make: Make) -> [Command; 15] {
    [
        super::job::job(make),
        top(),
        list(make),
        make_directory(),
        remove(),
        rename(),
        clean(),
        super::rules::schedule(make),
        super::rules::flow(make),
        super::rules::webhook(),
        super::cluster::cluster(),
        site(),
        super::users::user(),
        super::users::token(),
        node(),
    ]
}

/// The note on places behind the help of each command that takes places.
pub(super) const PLACES: &str = "A place is SITE:/EXPORT/PATH. The site `here:` is the node that receives this command; godwit site list names the others.";

fn list(make: Make) -> Command {
    let command = reaching(Command::new("ls"))
        .about("List a directory of a node, a site or a machine behind ssh, or the exports of a node")
        .after_help(format!(
            "{PLACES}\nSITE:/ and godwit://HOST/ list the exports that you may use, with their free space.\n\
             godwit://HOST/EXPORT/PATH and USER@HOST:PATH (by ssh) need no node here: godwit asks in your name."
        ))
        .arg(switch("all", "Include names that begin with a dot").short('a'))
        .arg(some_places("Directories, files, or sites as SITE:/"));
    make.with_reaching(command)
}

fn make_directory() -> Command {
    reaching(Command::new("mkdir"))
        .about("Make directories at a node or site")
        .after_help(PLACES)
        .arg(
            switch(
                "parents",
                "Make missing parent directories as well; an existing directory is no error",
            )
            .short('p'),
        )
        .arg(some_places("The new directories"))
}

fn remove() -> Command {
    reaching(Command::new("rm"))
        .about("Remove files and directories at a node or site")
        .after_help(format!(
            "{PLACES}\nLinks are removed, never followed. An export itself is never removed. Exit codes: 0 all removed, 3 some entries could not be removed."
        ))
        .arg(switch("recursive", "Remove directories with their contents").short('r'))
        .arg(some_places("What to remove"))
}

fn rename() -> Command {
    reaching(Command::new("mv"))
        .about("Rename a file or directory within an export")
        .override_usage("godwit mv [OPTIONS] SOURCE DESTINATION")
        .after_help(format!(
            "{PLACES}\nIf DESTINATION is a directory or ends with a slash, the entry moves into it.\n\
             To move data between exports or sites, copy it with godwit job submit."
        ))
        .arg(switch("force", "Replace an existing file at the destination").short('f'))
        .arg(positional("places", "SOURCE DESTINATION", "The entry, and its new name").num_args(2))
}

fn clean() -> Command {
    reaching(Command::new("clean"))
        .about("Remove temporary files of interrupted transfers that can no longer be resumed")
        .after_help(format!(
            "{PLACES}\nFiles that a running or resumable transfer of the node needs are kept. The node cannot see transfers of\n\
             other machines into the same storage; --older-than protects the files of those transfers."
        ))
        .arg(switch("dry-run", "List the files that would be removed, and remove nothing").short('n'))
        .arg(value(
            "older-than",
            "TIME",
            "Keep files written within this time [default: 1h]",
        ))
        .arg(
            value("job", "ID", "Remove only the temporary files of this ended job, whatever their age")
                .conflicts_with_all(["places", "older-than"]),
        )
        .arg(some_places("Directories to search").required(false).required_unless_present("job"))
}

/// One place or more.
fn some_places(help: &'static str) -> Arg {
    positional("places", "PLACE", help).num_args(1..)
}

fn top() -> Command {
    reaching(Command::new("top"))
        .about("Show nodes, jobs, flows and the node that runs each job, refreshed every second")
        .arg(switch("once", "Print the present state once, and exit"))
        .after_help("If standard output is not a terminal, the command prints once. Control-C ends the command. --json prints one document: cluster, jobs, work, buffer, flows.")
}

fn site() -> Command {
    family(
        "site",
        "Register other nodes as sites, so that jobs can use them",
    )
    .subcommands([
        Command::new("add")
            .about("Add a site, or replace it")
            .arg(
                value(
                    "identity",
                    "IDENTITY",
                    "Identity of the site, as `godwit id` prints it there; several for nodes without a cluster, in the order of their addresses",
                )
                .required(true)
                .value_delimiter(',')
                .action(ArgAction::Append),
            )
            .arg(value("comment", "TEXT", "Free text"))
            .arg(positional(
                "name",
                "NAME",
                "Name of the site in jobs: NAME:/EXPORT/PATH",
            ))
            .arg(
                positional("address", "HOST[:PORT]", "Addresses of the site's nodes")
                    .num_args(1..)
                    .value_delimiter(','),
            ),
        Command::new("list").about("List sites"),
        Command::new("test")
            .about("Test whether a site answers, and list the exports that you may use")
            .arg(positional("name", "NAME", "Which site")),
        super::rules::limit("Limit the total rate of jobs with a site, and how many run at once")
            .arg(positional("name", "NAME", "The site; * means each site"))
            .arg(super::rules::rate()),
        Command::new("remove")
            .about("Remove a site")
            .arg(positional("name", "NAME", "Which site")),
    ])
}

fn node() -> Command {
    family(
        "node",
        "Show facts about a node, and choose the node to talk to",
    )
    .subcommands([
        Command::new("status").about("Show the node, its exports, and your own user name and role"),
        Command::new("limits")
            .about("List the limits of nodes, users, sites and jobs, and the shares of users"),
        super::rules::limit("Limit the total rate of a node's jobs, and how many run at once")
            .arg(
                value("of", "NODE", "The node of the cluster [default: each node]")
                    .conflicts_with("each-job"),
            )
            .arg(switch("each-job", "The default limit of each job").conflicts_with("jobs"))
            .arg(super::rules::rate()),
        Command::new("trust")
            .about("Remember the key or certificate of a node for later use with --node")
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

/// The command for grants at the node of this machine. The command changes files of the home, so it asks no other node.
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
        .about("Allow or deny access to the exports of this machine's node, and its users' access to sites")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands([
            Command::new("list")
                .about("List all access rights: subject, place, end, and where each right is stored")
                .arg(json()),
            Command::new("allow")
                .about("Grant access to a client or user; a running node applies the change at once")
                .arg(subject())
                .arg(export("In this export, or below a path of the export (repeatable); %XX stands for a byte"))
                .arg(switch("all-exports", "In all exports, including exports added later"))
                .arg(site("At this site, in one of its exports, or below a path there; only for users of the node (repeatable)"))
                .group(
                    ArgGroup::new("where")
                        .args(["export", "all-exports", "site"])
                        .required(true),
                )
                .arg(switch("read", "Allow reading and listing (the default if no right is named)"))
                .arg(switch("write", "Allow writing and deleting"))
                .arg(switch("list", "Allow listing directories"))
                .arg(switch("delete", "Allow deleting and renaming"))
                .arg(value("expires", "TIME", "When the access ends: friday, 90d, or at the end of the day 2027-01-31 [default: never]"))
                .arg(value("comment", "TEXT", "A note: the person or purpose behind this access")),
            Command::new("deny")
                .about("Revoke access; a running node applies the change at once and ends transfers that lose their access")
                .arg(subject())
                .arg(export("Only in this export, or below a path of the export (repeatable) [default: everywhere]"))
                .arg(site("Only at this site, in one of its exports, or below a path there (repeatable)").conflicts_with("export")),
        ])
}

/// The transfers that the node of this machine recorded.
pub(super) fn accounting() -> Command {
    Command::new("accounting")
        .about("List the transfers that this machine's node has recorded: client, place, amount, outcome")
        .after_help("TIME is 2026-11-24, 2026-11-24T22:00 (both local time), 2026-11-24T22:00Z, or 7d (ago).")
        .arg(switch("json", "Print the records as JSON, one a line, instead of text"))
        .arg(value("since", "TIME", "Only transfers that ended then or later"))
        .arg(value("until", "TIME", "Only transfers that ended before"))
}

/// The settings of the node of this machine.
pub(super) fn config() -> Command {
    Command::new("config")
        .about("Check the settings of a node before the node is started")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("check")
                .about("List every error in a settings file; nothing is started")
                .arg(
                    positional(
                        "file",
                        "FILE",
                        "The settings file [default: the file of godwit serve]",
                    )
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
pub(super) fn reaching(command: Command) -> Command {
    let heading = "Which node";
    command
        .arg(
            switch("json", "Print the API's documents as JSON, one a line").global(true),
        )
        .arg(
            value(
                "node",
                "URL",
                "The node, as https://HOST[:PORT] [default: the node of this machine; environment: GODWIT_NODE]",
            )
            .long_help(
                "The node, as https://HOST[:PORT] [default: the node of this machine, found by GODWIT_SOCKET, by GODWIT_HOME, as this user's or as the system's; environment: GODWIT_NODE]",
            )
            .global(true)
            .help_heading(heading),
        )
        .arg(
            value(
                "token-file",
                "FILE",
                "File with the token for --node, readable only by its owner [environment: GODWIT_TOKEN_FILE]",
            )
            .value_hint(ValueHint::FilePath)
            .global(true)
            .help_heading(heading),
        )
        .arg(
            value(
                "fingerprint",
                "SHA256",
                "Fingerprint of the key or certificate that --node must show",
            )
            .long_help(
                "Fingerprint of the key or certificate that --node must show [default: the one given to godwit node trust, or any certificate that this system trusts]",
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
        .about("Save a node's keys, grants, sites, users, rules and jobs")
        .after_help(
            "The node may run meanwhile. The backup holds keys, so only the owner of the backup may read it. The backup holds no data of exports, \
             and no log or report of a job.",
        )
        .arg(positional("directory", "DIRECTORY", "Directory for the backup; the directory must not exist"))
}

pub(super) fn restore() -> Command {
    Command::new("restore")
        .about("Restore a node's keys, grants, sites, users, rules and jobs from a backup")
        .after_help(
            "Stop the node first. The present files are kept beside the restored files. Jobs that ran when the backup was made resume \
             from the present state of their transfers.",
        )
        .arg(positional("directory", "DIRECTORY", "A directory made by godwit backup"))
}
