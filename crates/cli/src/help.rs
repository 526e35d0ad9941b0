//! Examples for the commands' help, one table for `--help` and the man pages.
//! Every line of the table is a command that this program accepts; a test parses them all.
//!
//! `--help`, man pages and completions derive from the one clap command, which derives from the settings table.

mod cluster;
mod node;
mod rules;

use clap::Command;

/// A command line, and its effect.
pub(crate) struct Example {
    /// As typed in a shell.
    pub(crate) line: &'static str,
    /// A few words.
    pub(crate) meaning: &'static str,
}

const fn example(line: &'static str, meaning: &'static str) -> Example {
    Example { line, meaning }
}

/// Examples by command, in no order; `node`, `rules` and `cluster` have the examples of commands that talk to a node.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "godwit",
        &[
            example(
                "godwit cp run42/ alice@dtn2.example.org:/data/",
                "copy by the user's own ssh",
            ),
            example(
                "godwit serve --export data=/data",
                "run a node that serves /data",
            ),
            example(
                "godwit cp run42/ godwit://dtn2.example.org/data/",
                "copy to it",
            ),
            example(
                "godwit doctor godwit://dtn2.example.org/data/",
                "what would limit that?",
            ),
        ],
    ),
    (
        "cp",
        &[
            example(
                "godwit cp run42/ godwit://dtn2.example.org/data/",
                "push a directory into an export",
            ),
            example(
                "godwit cp godwit://dtn2.example.org/data/run42 ./",
                "pull it back",
            ),
            example(
                "godwit cp alice@dtn2.example.org:/data/run42 ./",
                "pull by ssh",
            ),
            example(
                "godwit cp --streams 8 --limit 5Gbit/s run42/ godwit://dtn2.example.org/data/",
                "a shared long-distance path",
            ),
            example(
                "godwit cp --priority background run42/ godwit://dtn2.example.org/data/",
                "use only spare capacity of the network",
            ),
            example(
                "godwit cp --verify a.h5 b.h5 godwit://dtn2.example.org/data/in/",
                "read back what was written",
            ),
            example(
                "godwit cp --each run42/ /backup/ alice@dtn2.example.org:/data/ godwit://dtn3.example.org/data/",
                "read it once, for three destinations",
            ),
            example(
                "godwit cp mem:64GiB godwit://dtn2.example.org/null:",
                "measure the network alone",
            ),
        ],
    ),
    (
        "sync",
        &[
            example(
                "godwit sync run42/ godwit://dtn2.example.org/data/run42 --delete --dry-run",
                "show the entries that would be sent and deleted",
            ),
            example(
                "godwit sync run42/ godwit://dtn2.example.org/data/run42 --delete",
                "do it",
            ),
            example(
                "godwit sync -a --exclude '*.tmp' run42/ alice@dtn2.example.org:/data/run42",
                "by ssh, with owners and attributes, without some files",
            ),
        ],
    ),
    (
        "backup",
        &[example(
            "godwit backup /srv/backup/godwit-2026-11-24",
            "every night, by cron or a timer",
        )],
    ),
    (
        "restore",
        &[example(
            "godwit restore /srv/backup/godwit-2026-11-24",
            "while the node is stopped",
        )],
    ),
    (
        "buffer",
        &[example(
            "godwit buffer status /dev/nvme2n1",
            "the files in a transfer buffer",
        )],
    ),
    (
        "buffer format",
        &[
            example(
                "godwit buffer format /dev/nvme2n1",
                "a whole device, without a file system",
            ),
            example(
                "godwit buffer format /nvme0/godwit --bytes 6TB",
                "a directory, with a bound",
            ),
            example(
                "godwit buffer format /dev/nvme2n1 --force-format S4EWNX0R",
                "lose the data on the device with this serial",
            ),
        ],
    ),
    (
        "buffer check",
        &[example(
            "godwit buffer check /dev/nvme2n1",
            "read everything, and compare digests",
        )],
    ),
    (
        "buffer status",
        &[example(
            "godwit buffer status --json /nvme0/godwit",
            "owner, bytes by state, oldest dirty extent",
        )],
    ),
    (
        "buffer list",
        &[example(
            "godwit buffer list here:/data/run42",
            "its files on flash, with their bytes",
        )],
    ),
    (
        "buffer pin",
        &[example(
            "godwit buffer pin here:/data/run42 --for 30d",
            "they stay for a month",
        )],
    ),
    (
        "buffer unpin",
        &[example(
            "godwit buffer unpin here:/data/run42",
            "they may go again",
        )],
    ),
    (
        "buffer drop",
        &[example(
            "godwit buffer drop here:/data/run42",
            "their room is free now",
        )],
    ),
    (
        "buffer retry",
        &[example(
            "godwit buffer retry here:/data/run42",
            "after the cause is removed",
        )],
    ),
    (
        "buffer warm",
        &[example(
            "godwit buffer warm here:/data/run42",
            "read it once before the copies begin",
        )],
    ),
    (
        "verify",
        &[
            example(
                "godwit verify run42.manifest godwit://dtn2.example.org/data/run42",
                "a copy at a node, read there",
            ),
            example(
                "godwit verify --content-only --extra run42.manifest /archive/run42",
                "a local copy; also list extra entries, ignore modes and times",
            ),
        ],
    ),
    (
        "manifest",
        &[
            example(
                "godwit manifest --digest blake3 run42 run42.manifest",
                "with the digests that b3sum prints",
            ),
            example(
                "godwit manifest run42 ascmhl",
                "an ASC MHL history, as in film",
            ),
        ],
    ),
    (
        "serve",
        &[
            example(
                "godwit serve --export data=/data",
                "one directory, port 7272",
            ),
            example(
                "godwit serve --config /etc/godwit/godwit.toml",
                "all settings from a file",
            ),
            example(
                "godwit serve --listen '[::]:7300' --export data=/data --export in=/srv/in",
                "two, on another port",
            ),
        ],
    ),
    (
        "id",
        &[example(
            "godwit id",
            "others identify you by this gw1-... name",
        )],
    ),
    (
        "trust",
        &[example(
            "godwit trust dtn2.example.org gw1-...",
            "identity, as `godwit id` prints it there",
        )],
    ),
    (
        "gen",
        &[
            example("godwit gen 4000x1MiB data --seed 7", "4,000 files of 1 MiB"),
            example(
                "godwit gen tree:20000x100..30kB,1x1GiB data",
                "a source tree and a large file",
            ),
            example(
                "godwit gen esnet-large data --scale 0.01 --compressible 0.5",
                "the tree that ESnet measures with, a hundredth of it, half of it zeros",
            ),
        ],
    ),
    (
        "limit",
        &[
            example(
                "godwit limit",
                "the running transfers and their rate limits",
            ),
            example(
                "godwit limit 300MB",
                "limit the only running transfer, in bytes per second",
            ),
            example(
                "godwit limit 4f1c none",
                "remove the limit of one of several transfers",
            ),
        ],
    ),
    (
        "doctor",
        &[
            example(
                "godwit doctor",
                "this machine, and the storage of this directory",
            ),
            example(
                "godwit doctor alice@dtn2:/data",
                "a machine reached by ssh: ports, clocks, disks, packets, buffers",
            ),
            example(
                "godwit doctor godwit://dtn2.example.org/data/",
                "the path to a node, my identity there, my rights",
            ),
            example(
                "godwit doctor --json run42/ godwit://dtn2.example.org/data/",
                "check before a push, for a script",
            ),
        ],
    ),
    (
        "completions",
        &[
            example(
                "godwit completions bash > ~/.local/share/bash-completion/completions/godwit",
                "bash",
            ),
            example(
                "godwit completions zsh > ~/.zfunc/_godwit",
                "zsh, with ~/.zfunc in fpath",
            ),
            example(
                "godwit completions fish > ~/.config/fish/completions/godwit.fish",
                "fish",
            ),
        ],
    ),
    (
        "man",
        &[
            example("godwit man | man -l -", "read the first page"),
            example("godwit man ~/.local/share/man/man1", "install them all"),
        ],
    ),
];

/// All examples, by command.
fn all() -> impl Iterator<Item = &'static (&'static str, &'static [Example])> {
    EXAMPLES
        .iter()
        .chain(node::EXAMPLES)
        .chain(rules::EXAMPLES)
        .chain(cluster::EXAMPLES)
}

/// The examples of a command, such as `cp` or `job submit`; `godwit` is the program itself.
pub(crate) fn examples(command: &str) -> &'static [Example] {
    all()
        .find(|(name, _)| *name == command)
        .map_or(&[], |(_, examples)| examples)
}

/// Most examples of a command in the short help.
pub(crate) const BRIEF_EXAMPLES_MAX: usize = 4;

/// Adds examples after the help of each command, the first `most` of each.
pub(crate) fn with_examples(command: Command, most: usize) -> Command {
    let name = command.get_name().to_owned();
    add(with_subcommands(command, "", most), &name, most)
}

fn with_subcommands(mut command: Command, above: &str, most: usize) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        let path = format!("{above} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |sub| {
            add(with_subcommands(sub, &path, most), &path, most)
        });
    }
    command
}

fn add(command: Command, path: &str, most: usize) -> Command {
    let examples = examples(path);
    if examples.is_empty() {
        return command;
    }
    let before = command
        .get_after_help()
        .map(|text| format!("{text}\n\n"))
        .unwrap_or_default();
    let lines: Vec<String> = examples
        .iter()
        .take(most)
        .map(|example| format!("  # {}\n  {}", example.meaning, example.line))
        .collect();
    command.after_help(format!("{before}Examples:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits as a shell does, as far as the examples need: quotes, and the end at a pipe or redirection.
    fn words(line: &str) -> Vec<String> {
        let mut is_quoted = false;
        let words = line.split(|sign: char| {
            is_quoted ^= sign == '\'';
            !is_quoted && sign.is_whitespace()
        });
        words
            .filter(|word| !word.is_empty())
            .take_while(|word| !["|", ">", "<", "#"].contains(word))
            .map(|word| word.replace('\'', ""))
            .collect()
    }

    /// The command lines in a help text.
    fn lines(text: &str) -> Vec<String> {
        text.lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| line.starts_with("godwit ") && !line.contains('[') | line.contains("'["))
            .collect()
    }

    #[test]
    fn every_command_has_examples_and_each_is_accepted() {
        let whole = crate::args::command();
        let visible = whole
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .flat_map(|sub| sub.get_subcommands().chain([sub]))
            .chain([&whole]);
        for sub in visible {
            let help = sub.get_after_help().map(ToString::to_string);
            let examples = lines(&help.unwrap_or_default());
            assert!(!examples.is_empty(), "{} has no example", sub.get_name());
            for line in examples {
                let parsed = crate::args::command().try_get_matches_from(words(&line));
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
            }
        }
    }

    #[test]
    fn every_example_belongs_to_a_command() {
        let whole = crate::args::command();
        for (name, _) in all() {
            let found = name.split(' ').try_fold(&whole, Command::find_subcommand);
            assert!(*name == "godwit" || found.is_some(), "{name}");
        }
    }
}
