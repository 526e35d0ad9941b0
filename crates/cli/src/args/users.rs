//! The commands about users and tokens, for clap.
//! Parses no value.

use clap::{Arg, Command, ValueHint};

use super::node::{family, value};
use super::{positional, switch};

pub(super) fn user() -> Command {
    family("user", "Say who may use a node, and how").subcommands([
        Command::new("add")
            .about("Add a user, or replace it")
            .arg(role("What the user may do").required(true))
            .arg(
                value(
                    "password-file",
                    "FILE",
                    "The password for the page; a new one ends the sessions of the user, without one the user has tokens only",
                )
                .value_hint(ValueHint::FilePath),
            )
            .arg(switch("disabled", "Let the user in nowhere"))
            .arg(switch("revoke-tokens", "Revoke all tokens that the user has"))
            .arg(positional(
                "name",
                "NAME",
                "Who; on the machine of the node, the name of the account",
            )),
        Command::new("list").about("List users"),
        Command::new("passwd")
            .about("Change your own password; all other sessions and log-ins of yours end")
            .after_help("Without the two files it asks at the terminal. The node must be reached as the user whose password it is.")
            .arg(
                value("current-file", "FILE", "File with the password that you have, closed to others")
                    .value_hint(ValueHint::FilePath),
            )
            .arg(
                value("password-file", "FILE", "File with the password that you want, closed to others")
                    .value_hint(ValueHint::FilePath),
            ),
        super::rules::limit("Change how fast the jobs of a user may go together, and how many run at once")
            .arg(positional("name", "NAME", "Which user; * is each"))
            .arg(super::rules::rate()),
        super::rules::share(),
        Command::new("remove")
            .about("Remove a user, and end its tokens and jobs")
            .arg(positional("name", "NAME", "Which user")),
    ])
}

pub(super) fn token() -> Command {
    family(
        "token",
        "Make and end the secrets by which programs reach a node from elsewhere",
    )
    .subcommands([
        Command::new("create")
            .about("Make a token and print its secret, this once")
            .arg(role("Most that the token allows").required(true))
            .arg(value(
                "expires",
                "TIME",
                "When it ends: friday, 90d, or with the day 2027-01-31 [default: never]",
            ))
            .arg(value(
                "user",
                "USER",
                "For whom it speaks [default: who asks]",
            ))
            .arg(value("comment", "TEXT", "What it is for")),
        Command::new("list").about("List tokens, without their secrets"),
        Command::new("revoke")
            .about("End a token or session at once, and what came from it")
            .arg(
                positional("id", "ID", "Its id, as the list shows it")
                    .required(false)
                    .required_unless_present("others"),
            )
            .arg(
                switch(
                    "others",
                    "All sessions and log-ins of yours but the one that asks",
                )
                .conflicts_with("id"),
            )
            .arg(
                switch("made", "With --others: the tokens that you made as well")
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
