//! The command line, built by clap from the settings table and the list of commands.
//! Parses no value. The table does, so that flags, environment and file agree.

mod brief;
mod buffer;
mod cluster;
#[cfg(test)]
mod documented;
mod job;
mod moving;
mod node;
mod rules;
mod setting;
mod users;

use crate::help;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use godwit_api::settings::{Heading, Scope, Setting, Typed};
use godwit_net::aead::Library;
pub(crate) use moving::{AS_IN_RSYNC, EACH};
use setting::{setting_arg, shown_setting};
use std::ffi::OsString;

/// The whole command line as `--help` shows it, with examples.
pub(crate) fn command() -> Command {
    help::with_examples(bare(), usize::MAX)
}

/// The whole command line as `-h` shows it: of commands with many flags only those in common use.
pub(crate) fn brief() -> Command {
    help::with_examples(whole(Make::Brief), help::BRIEF_EXAMPLES_MAX).max_term_width(BRIEF_COLUMNS)
}

/// The whole command line as people see it, without examples.
pub(crate) fn bare() -> Command {
    whole(Make::Shown)
}

/// The whole command line for parsing: only the called command gets its settings.
pub(crate) fn quick() -> Command {
    whole(Make::Parsed)
        .arg(
            // Tests and measurements choose a library with it; all libraries give the same bytes. Users need no setting.
            Arg::new("tls-library")
                .long("tls-library")
                .value_name("NAME")
                .value_parser(|name: &str| name.parse::<Library>())
                .global(true)
                .hide(true),
        )
        .subcommand(agent())
        .mut_subcommand("serve", |serve| {
            serve.arg(
                // Tests imitate a program of another version with it. It is no setting, so no variable and no file can change it.
                Arg::new("feature-level")
                    .long("feature-level")
                    .value_name("N")
                    .value_parser(clap::value_parser!(u32))
                    .hide(true),
            )
        })
}

/// The use that a command line is made for.
#[derive(Clone, Copy)]
enum Make {
    /// For help, man pages and completions: without hidden commands and values of switches.
    Shown,
    /// The short help.
    Brief,
    /// Parsing: the settings of a command are made when it is called.
    Parsed,
}

/// Widest line of the short help.
const BRIEF_COLUMNS: usize = 80;

impl Make {
    /// The command with its settings.
    fn with_settings(self, command: Command, scope: Scope) -> Command {
        match (self, scope) {
            (Self::Brief, _) => command.args(brief::settings(scope)),
            (Self::Shown, _) => command.args(ordered(scope).into_iter().map(shown_setting)),
            (_, Scope::Cp) => command.defer(|command| command.args(settings(Scope::Cp))),
            (_, Scope::Sync) => command.defer(|command| command.args(settings(Scope::Sync))),
            (_, Scope::Serve) => command.defer(|command| command.args(settings(Scope::Serve))),
            (_, Scope::Gen) => command.defer(|command| command.args(settings(Scope::Gen))),
            (_, Scope::Verify) => command.defer(|command| command.args(settings(Scope::Verify))),
            (_, Scope::Manifest) => {
                command.defer(|command| command.args(settings(Scope::Manifest)))
            }
        }
    }

    /// The command with the settings that say how ssh reaches a machine.
    fn with_reaching(self, command: Command) -> Command {
        match self {
            Self::Shown | Self::Brief => command.args(by_ssh().map(shown_setting)),
            Self::Parsed => command.args(by_ssh().map(setting_arg)),
        }
    }

    /// The text behind the flags of a command whose short help lacks some of them.
    fn notes(self, command: &str, text: &str) -> String {
        match self {
            Self::Brief => format!("{text}\n\n{}", brief::rest(command)),
            _ => text.to_owned(),
        }
    }

    /// The command with the settings that select entries.
    fn with_choosing(self, command: Command) -> Command {
        match self {
            Self::Shown => command.args(choosing().map(shown_setting)),
            Self::Brief => command.args(brief::choosing()),
            Self::Parsed => command.defer(|command| command.args(choosing().map(setting_arg))),
        }
    }
}

fn whole(make: Make) -> Command {
    Command::new("godwit")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Moves data sets between machines: fast, encrypted, verified, resumable")
        .after_help("Exit codes: 0 complete, 1 failed, 2 usage, 3 partial, 4 authentication, 5 interrupted and resumable.\nThe common flags of a command: godwit COMMAND -h. All of them: godwit COMMAND --help.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(moving::cp(make))
        .subcommand(moving::sync(make))
        .subcommand(serve(make))
        .subcommand(Command::new("id").about("Print this user's public identity"))
        .subcommand(node::access())
        .subcommand(node::accounting())
        .subcommand(node::config())
        .subcommand(trust())
        .subcommand(node::backup())
        .subcommand(node::restore())
        .subcommand(buffer::buffer())
        .subcommand(verify(make))
        .subcommand(manifest(make))
        .subcommand(generate(make))
        .subcommand(limit())
        .subcommands(node::commands(make))
        .subcommand(doctor())
        .subcommand(completions())
        .subcommand(man())
}

/// The values that the user typed for the settings of a command.
pub(crate) fn typed(scope: Scope, matches: &ArgMatches) -> Typed {
    typed_of(Setting::all_of(scope), matches)
}

/// The typed values of some settings.
pub(crate) fn typed_of(
    settings: impl Iterator<Item = &'static Setting>,
    matches: &ArgMatches,
) -> Typed {
    settings
        .filter_map(|setting| {
            let given = matches.get_many::<OsString>(setting.name)?;
            Some((setting.name, given.cloned().collect()))
        })
        .collect()
}

/// The settings that may have several values, once for each value, in the order of the command line.
pub(crate) fn order(scope: Scope, matches: &ArgMatches) -> Vec<&'static str> {
    order_of(Setting::all_of(scope), matches)
}

/// The same for some settings.
pub(crate) fn order_of(
    settings: impl Iterator<Item = &'static Setting>,
    matches: &ArgMatches,
) -> Vec<&'static str> {
    let mut places: Vec<(usize, &'static str)> = settings
        .filter(|setting| setting.is_list())
        .filter_map(|setting| Some((setting.name, matches.indices_of(setting.name)?)))
        .flat_map(|(name, indices)| indices.map(move |index| (index, name)))
        .collect();
    places.sort_unstable();
    places.into_iter().map(|(_, name)| name).collect()
}

/// The settings of the commands that ask a machine behind ssh and move no data.
pub(crate) fn by_ssh() -> impl Iterator<Item = &'static Setting> {
    let names = ["rsh", "remote-command", "install-remote"];
    Setting::all_of(Scope::Cp).filter(move |setting| names.contains(&setting.name))
}

/// The settings that select entries of the sources.
pub(crate) fn choosing() -> impl Iterator<Item = &'static Setting> {
    Setting::all_of(Scope::Cp).filter(|setting| setting.heading == Heading::Choosing)
}

fn serve(make: Make) -> Command {
    let command = Command::new("serve")
        .about("Run a node: let authorized clients reach the exported directories");
    let command = match make {
        Make::Brief => command.after_help(brief::rest("serve")),
        _ => command,
    };
    make.with_settings(command, Scope::Serve)
}

fn trust() -> Command {
    Command::new("trust")
        .about("Remember who a node is")
        .arg(positional(
            "node",
            "HOST[:PORT]",
            "The node's address, as in godwit://HOST[:PORT]/",
        ))
        .arg(positional(
            "identity",
            "IDENTITY",
            "The node's identity, as `godwit id` prints it on the node",
        ))
}

fn verify(make: Make) -> Command {
    let command = Command::new("verify")
        .about("Check a copy by a manifest, reading it at full speed")
        .after_help(make.notes(
            "verify",
            "Names each entry that is missing or differs. Exit codes: 0 equal, 3 differences found, 1 the copy could not be checked.",
        ));
    make.with_settings(command, Scope::Verify)
        .arg(positional(
            "manifest-file",
            "MANIFEST",
            "The manifest, written by godwit cp --manifest or godwit manifest; or a folder ascmhl or FILE.mhl of an ASC MHL history",
        ))
        .arg(positional(
            "copy",
            "COPY",
            "Where the copy is: a path, [USER@]HOST:PATH (by ssh), or godwit://HOST[:PORT]/EXPORT/PATH",
        ))
}

fn manifest(make: Make) -> Command {
    let command = Command::new("manifest")
        .about("Write a manifest of a directory or file: its entries, and a digest of each file");
    make.with_settings(command, Scope::Manifest)
        .arg(positional("source", "SOURCE", "The directory or file"))
        .arg(positional(
            "manifest-file",
            "FILE",
            "The manifest; the word ascmhl seals the directory with an ASC MHL history",
        ))
}

/// Called by another godwit, never by people.
fn agent() -> Command {
    Command::new("agent")
        .about("Serve one transfer for another godwit, which starts this command through ssh")
        .hide(true)
        .arg(switch("stdio", "Speak on standard input and output"))
        .arg(
            Arg::new("relay")
                .long("relay")
                .value_name("PORT")
                .value_parser(ValueParser::os_string())
                .conflicts_with("stdio")
                .help("Forward a stream to the agent that listens on this port"),
        )
}

fn generate(make: Make) -> Command {
    let command = Command::new("gen").about(
        "Make a data set from a specification; the same seed always makes the same data set",
    );
    make.with_settings(command, Scope::Gen)
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("FACTOR")
                .default_value("1")
                .value_parser(clap::value_parser!(f64))
                .help("Multiplies the total size: it changes the number of files or, if the files are few, their sizes"),
        )
        .arg(
            Arg::new("compressible")
                .long("compressible")
                .value_name("FRACTION")
                .value_parser(clap::value_parser!(f64))
                .help("The fraction of the contents that a compressor can remove, from 0 to 1"),
        )
        .arg(switch("dry-run", "Make nothing, and print the amounts").short('n'))
        .arg(switch("json", "Print one JSON object instead of text"))
        .arg(positional(
            "spec",
            "SPEC",
            "COUNTxSIZE, COUNTxMIN..MAX, COUNTx~MEDIAN or the name of a mix, several separated by commas",
        ))
        .arg(positional("directory", "DIR", "Directory of the new data set")
                .required(false)
                .required_unless_present("dry-run")
                .value_hint(ValueHint::DirPath),
        )
}

fn doctor() -> Command {
    Command::new("doctor")
        .about("Report problems that would stop or limit a transfer, and their remedies")
        .after_help(
            "ENDPOINT is a path of this machine whose storage is measured (default: the working directory), or\n\
             another machine, to which the path is measured: [USER@]HOST:[PATH] by ssh, or a node, godwit://HOST[:PORT]/[EXPORT/PATH].\n\
             With two endpoints, the first is the source and the second the destination; a single one is a destination.\n\
             The storage of a destination is measured, too.\n\
             The environment and the settings file count as they do for `godwit cp`.\n\
             The command changes nothing on either machine and needs no privileges. Exit codes: 0 fine, 1 something would stop a\n\
             transfer, 2 usage.",
        )
        .arg(switch("json", "Print one JSON object instead of text"))
        .arg(switch(
            "path",
            "Measure the path to a node from memory to memory; this loads the path fully for three seconds",
        ))
        .arg(
            positional("endpoint", "ENDPOINT", "A local path, another machine, or one of each")
                .required(false)
                .num_args(0..=2)
                .value_hint(ValueHint::AnyPath),
        )
}

fn limit() -> Command {
    Command::new("limit")
        .about("List this user's transfers that run here, and change how fast they may send")
        .override_usage("godwit limit [OPTIONS] [[TRANSFER] RATE]")
        .after_help(
            "TRANSFER is the beginning of the transfer's number, its process number, or its destination; leave TRANSFER\n\
             out if only one transfer runs.\n\
             RATE is as in --limit: 300MB, 2.5Gbit/s, none. The new limit applies at once, even if the other side sends, and\n\
             until the transfer ends. The command prints the limit once the sending side has confirmed it.",
        )
        .arg(switch("json", "Print one JSON object a transfer instead of text"))
        .arg(
            positional("words", "TRANSFER RATE", "The transfer, and its new limit")
                .required(false)
                .num_args(0..=2),
        )
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print a script by which a shell completes godwit's commands, flags and values")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .value_parser(["bash", "zsh", "fish"])
                .required(true)
                .help("For which shell"),
        )
}

fn man() -> Command {
    Command::new("man")
        .about("Write the man pages, godwit(1) and one for each command")
        .arg(
            positional(
                "directory",
                "DIRECTORY",
                "Directory for the pages; without a directory, godwit(1) is printed",
            )
            .required(false)
            .value_hint(ValueHint::DirPath),
        )
}

fn settings(scope: Scope) -> Vec<Arg> {
    ordered(scope).into_iter().map(setting_arg).collect()
}

/// The settings of a command in the order of its help.
fn ordered(scope: Scope) -> Vec<&'static Setting> {
    let mut settings: Vec<&'static Setting> = Setting::all_of(scope).collect();
    settings.sort_by_key(|setting| setting.heading);
    settings
}

fn positional(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id)
        .value_name(name)
        .value_parser(ValueParser::os_string())
        .required(true)
        .help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .overrides_with(name)
        .help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::settings::table::LETTERS;

    fn typed_of(line: &[&str]) -> Typed {
        let matches = quick().try_get_matches_from(line).expect("valid");
        let (_, matches) = matches.subcommand().expect("a command");
        typed(Scope::Cp, matches)
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
        brief().debug_assert();
    }

    #[test]
    fn only_what_was_typed_counts_and_the_last_of_it() {
        assert_eq!(typed_of(&["godwit", "cp", "a", "b"]), Typed::new());
        let typed = typed_of(&[
            "godwit",
            "cp",
            "--streams",
            "2",
            "a",
            "--verify",
            "--streams=3",
            "b",
            "--force=false",
        ]);
        let texts = |name| typed.get(name).map(|texts| texts.join(" ".as_ref()));
        assert_eq!(texts("streams"), Some("3".into()));
        assert_eq!(texts("verify"), Some("true".into()));
        assert_eq!(texts("force"), Some("false".into()));
    }

    #[test]
    fn letters_can_be_joined() {
        let typed = typed_of(&["godwit", "cp", "-anv", "-r", "a", "-0cux", "b"]);
        for (name, _) in LETTERS {
            let values = typed.get(name).map(Vec::as_slice);
            assert_eq!(values, Some(&["true".into()][..]), "{name}");
        }
    }

    #[test]
    fn rules_have_the_order_in_which_they_were_typed() {
        let line = [
            "godwit",
            "cp",
            "--exclude",
            "a",
            "--include=b",
            "x",
            "--exclude-from",
            "f",
            "--exclude",
            "-c",
            "y",
        ];
        let matches = quick().try_get_matches_from(line).expect("valid");
        let (_, matches) = matches.subcommand().expect("a command");
        assert_eq!(
            order(Scope::Cp, matches),
            ["exclude", "include", "exclude-from", "exclude"]
        );
    }

    #[test]
    fn flags_may_stand_between_paths() {
        let matches = command()
            .try_get_matches_from(["godwit", "cp", "a", "--verify", "b", "--", "-c", "-d"])
            .expect("valid");
        let (_, matches) = matches.subcommand().expect("a command");
        let paths: Vec<_> = matches
            .get_many::<OsString>("paths")
            .expect("given")
            .collect();
        assert_eq!(paths, ["a", "b", "-c", "-d"]);
    }
}
