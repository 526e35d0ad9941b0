//! The commands about users and tokens, for clap.
//! Parses no value.

use clap::{Arg, Command, ValueHint};

use super::node::{family, value};
use super::{positional, switch};

pub(super) fn user() -> Command {
    family("user", "Manage the users of a node").subcommands([
        Command::new("add")
            .about("Add a user, or replace it")
            .arg(role("Role of the user").required(true))
            .arg(
                value(
                    "password-file",
                    "FILE",
                    "The password for the page; a new password ends the user's sessions; without a password the user can only use tokens",
                )
                .value_hint(ValueHint::FilePath),
            )
            .arg(switch("disabled", "Lock the user out"))
            .arg(switch("revoke-tokens", "Revoke all tokens of the user"))
            .arg(positional(
                "name",
                "NAME",
                "Name of the user; for callers on the node's machine, this is the account name",
            )),
        Command::new("list").about("List users"),
        Command::new("passwd")
            .about("Change your own password; all your other sessions and log-ins end")
            .after_help("Without the two files the command asks for passwords at the terminal. You must be logged in to the node as the user whose password changes.")
            .arg(
                value("current-file", "FILE", "File with the present password, readable only by its owner")
                    .value_hint(ValueHint::FilePath),
            )
            .arg(
                value("password-file", "FILE", "File with the new password, readable only by its owner")
                    .value_hint(ValueHint::FilePath),
            ),
        super::rules::limit("Limit the total rate of a user's jobs, and how many run at once")
            .arg(positional("name", "NAME", "The user; * means each user"))
            .arg(super::rules::rate()),
        super::rules::share(),
        Command::new("remove")
            .about("Remove a user, and end the user's tokens and jobs")
            .arg(positional("name", "NAME", "Which user")),
    ])
}

pub(super) fn token() -> Command {
    family(
        "token",
        "Make and revoke tokens, by which programs on other machines use a node",
    )
    .subcommands([
        Command::new("create")
            .about("Make a token and print its secret, only this once")
            .arg(role("Highest role that the token allows").required(true))
            .arg(value(
                "expires",
                "TIME",
                "When the token ends: friday, 90d, or at the end of the day 2027-01-31 [default: never]",
            ))
            .arg(value(
                "user",
                "USER",
                "User of the token [default: yourself]",
            ))
            .arg(value("comment", "TEXT", "Purpose of the token")),
        Command::new("list").about("List tokens, without their secrets"),
        Command::new("revoke")
            .about("End a token or session at once, and all tokens and sessions made with it")
            .arg(
                positional("id", "ID", "Id of the token or session, as the list shows it")
                    .required(false)
                    .required_unless_present("others"),
            )
            .arg(
                switch(
                    "others",
                    "End all your sessions and log-ins except the present one",
                )
                .conflicts_with("id"),
            )
            .arg(
                switch("made", "With --others: also end the tokens that you made")
                    .requires("others"),
            ),
    ])
}

fn role(help: &'static str) -> Arg {
    Arg::new("role")
        .long("role")
        .value_name("ROLE")
        .value_parser(["viewer", "operator", "admin"])
        .help(help)
}
