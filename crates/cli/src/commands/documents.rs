//! `godwit completions` and `godwit man`: documents made from the command line alone.
//! Knows no command and no setting by name, so additions to the command line appear without a change here.

use super::generate::as_owner;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::help::examples;
use clap::{ArgMatches, Command, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use godwit_api::settings::{Kind, Scope, Setting};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Prints a shell's completions.
pub(super) fn completions(matches: &ArgMatches) -> Result<Exit, Failure> {
    let shell: Shell = matches
        .get_one::<String>("shell")
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| Failure::usage("name a shell: bash, zsh or fish"))?;
    let mut command = args::bare();
    for scope in Scope::ALL {
        command = command.mut_subcommand(scope.name(), |sub| with_values(scope, sub));
    }
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "godwit", &mut text);
    output(&text)
}

/// Adds the possible values of settings, which the table would otherwise check later.
fn with_values(scope: Scope, mut command: Command) -> Command {
    for setting in Setting::all_of(scope) {
        command = command.mut_arg(setting.name, |arg| match &setting.kind {
            Kind::Choice(words) => arg.value_parser(words.to_vec()),
            Kind::List { form: "FILE" } | Kind::File => arg.value_hint(ValueHint::FilePath),
            _ => arg,
        });
    }
    command
}

/// Writes the man pages, or prints the first.
pub(super) fn man(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut whole = args::bare().disable_help_subcommand(true);
    whole.build();
    let Some(directory) = matches.get_one::<OsString>("directory") else {
        return output(&page(&whole, "godwit", "")?);
    };
    let directory = Path::new(directory);
    let _owner = as_owner(directory)?;
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    write_pages(directory, &whole, "godwit", "")?;
    Ok(Exit::Complete)
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(
    directory: &Path,
    command: &Command,
    name: &str,
    typed: &str,
) -> Result<(), Failure> {
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name, typed)?).map_err(|error| failed(&path, error))?;
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    for sub in visible {
        let own = sub.get_name();
        let typed = format!("{typed} {own}");
        write_pages(directory, sub, &format!("{name}-{own}"), typed.trim_start())?;
    }
    Ok(())
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    Failure::local(format!("{}: {error}", path.display()))
}

/// The page `name` of a command; `typed` are its words after `godwit`.
fn page(command: &Command, name: &str, typed: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    write_page(command, name, typed, &mut text)
        .map_err(|error| Failure::local(format!("the page {name}(1): {error}")))?;
    Ok(text)
}

fn write_page(
    command: &Command,
    name: &str,
    typed: &str,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let program = typed.is_empty();
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .source(concat!("godwit ", env!("CARGO_PKG_VERSION")))
        .manual("Godwit");
    man.render_title(out)?;
    let mut head = Roff::new();
    head.control("SH", ["NAME"]);
    head.text([roman(format!("{name} - {about}"))]);
    head.control("SH", ["SYNOPSIS"]);
    head.text([bold(usage.trim_start_matches("Usage:").trim())]);
    head.control("SH", ["DESCRIPTION"]);
    head.text([roman(format!("{about}."))]);
    if let Some(notes) = command.get_after_help() {
        head.control("PP", []);
        verbatim(&mut head, notes.to_string().lines());
    }
    head.to_writer(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let mut tail = Roff::new();
    listed(&mut tail, "ENVIRONMENT", &variables(command, typed));
    listed(&mut tail, "FILES", FILES);
    listed(&mut tail, "EXIT STATUS", EXITS);
    let examples = examples(if program { "godwit" } else { typed });
    if !examples.is_empty() {
        tail.control("SH", ["EXAMPLES"]);
        for example in examples {
            tail.control("TP", []);
            tail.text([roman(example.meaning)]);
            tail.text([bold(example.line)]);
        }
    }
    tail.control("SH", ["SEE ALSO"]);
    tail.text([roman(if program {
        "Each command has its own page, such as godwit-cp(1). The user's guide comes with the program: docs/guide.md."
    } else {
        "godwit(1)"
    })]);
    tail.to_writer(out)
}

/// Adds a section of words, each with its meaning.
fn listed(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (word, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
    }
}

/// The variables that a command reads.
fn variables(command: &Command, typed: &str) -> Vec<(&'static str, &'static str)> {
    let mut rows = VARIABLES.to_vec();
    if command
        .get_arguments()
        .any(|arg| arg.get_id() == "token-file")
    {
        rows.extend(VARIABLES_OF_A_NODE);
    }
    if let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.name() == typed) {
        rows.push(SWITCHED);
        let settings = Setting::all_of(scope);
        rows.extend(settings.map(|setting| (setting.variable, setting.help)));
    }
    rows
}

/// Variables of every command.
const VARIABLES: &[(&str, &str)] = &[
    (
        "GODWIT_HOME",
        "The directory of keys, settings and journals. Without it: $XDG_DATA_HOME/godwit, else ~/.local/share/godwit.",
    ),
    (
        "GODWIT_ALLOW_DUMPS",
        "1 allows core dumps, which may hold keys.",
    ),
];

/// Variables of commands that ask a node.
const VARIABLES_OF_A_NODE: &[(&str, &str)] = &[
    ("GODWIT_NODE", "The node, as in --node."),
    (
        "GODWIT_TOKEN_FILE",
        "The file of the token, as in --token-file.",
    ),
    ("GODWIT_SOCKET", "The socket of the node of this machine."),
];

/// The note on variables of settings.
const SWITCHED: (&str, &str) = (
    "GODWIT_...",
    "Each setting has a variable, as below. The flag comes first, then the variable, then config.toml. The flag with =false turns off a switch that the variable turns on, as in --verify=false.",
);

/// Files in the home.
const FILES: &[(&str, &str)] = &[
    (
        "$GODWIT_HOME/config.toml",
        "Settings: for every command that has them, or for one command in its section, such as [cp].",
    ),
    (
        "$GODWIT_HOME/identity.pem",
        "The private key of this user, closed to others.",
    ),
    (
        "$GODWIT_HOME/known_peers",
        "Trusted nodes, with their identities.",
    ),
    (
        "$GODWIT_HOME/grants",
        "Identities that may come in, with their rights.",
    ),
    (
        "$GODWIT_HOME/journals/",
        "The data of unfinished transfers that has arrived.",
    ),
];

/// Exit codes of every command.
const EXITS: &[(&str, &str)] = &[
    ("0", "Complete."),
    ("1", "Failed."),
    ("2", "Usage: the command or a setting makes no sense."),
    (
        "3",
        "Partial: some entries failed or differ and were named, all others are complete.",
    ),
    (
        "4",
        "Authentication: the other side is not the expected one, or does not let this user in.",
    ),
    ("5", "Interrupted; the same command resumes."),
];

/// Adds lines verbatim.
fn verbatim<'a>(roff: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

/// Writes to standard output. A reader that is gone, such as a pager, is no failure; a full disk is.
fn output(text: &[u8]) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::local(format!("standard output: {error}")))
        }
        _ => Ok(Exit::Complete),
    }
}
