//! The names of flags of rsync, scp and rclone here, or why they are not needed: hints for their users.
//! Parses nothing; `args` does.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of other programs that this one does not have, with the alternative.
const HABITS: &[(&[&str], &str)] = &[
    (&["--delete", "--delete-before"], "godwit sync has it"),
    (
        &[
            "--del",
            "--delete-during",
            "--delete-delay",
            "--delete-after",
        ],
        "it is called --delete: that deletes last, and only if nothing failed",
    ),
    (
        &["--delete-excluded"],
        "what is excluded is not touched, with --delete neither; leave the --exclude out, or remove it there yourself",
    ),
    (
        &["--delete-missing-args", "--ignore-missing-args"],
        "a source that is not there is named, the others are copied, and the exit code is 3; leave it out",
    ),
    (
        &["--ignore-errors"],
        "with errors nothing is deleted, so that nothing goes that could only not be read; mend them, and run it again",
    ),
    (
        &[
            "-z",
            "-C",
            "--compress",
            "--compress-level",
            "--compress-choice",
            "--zc",
            "--zl",
            "--skip-compress",
        ],
        "nothing is compressed on the way; leave it out",
    ),
    (
        &[
            "-t",
            "-p",
            "-H",
            "--times",
            "--perms",
            "--links",
            "--hard-links",
            "--sparse",
            "-E",
            "--executability",
            "--create-empty-src-dirs",
        ],
        "modes, times, links, holes and empty directories are kept without a flag; leave it out",
    ),
    (
        &["-l"],
        "links are kept without a flag; leave it out. For the limit of scp: --limit 10MiB",
    ),
    (
        &["-S"],
        "holes are kept without a flag; leave it out. For another program than ssh: --rsh PROGRAM",
    ),
    (
        &["-o"],
        "-a keeps owners with all else, --owner keeps them alone; for an option of ssh: --rsh 'ssh -o OPTION'",
    ),
    (
        &["-g", "-A", "-X", "-D", "--devices", "--metadata"],
        "-a keeps owners, groups, access lists, attributes and special files; one by one: --owner, --group, --acls, --xattrs, --specials",
    ),
    (
        &["-M"],
        "-a keeps owners, groups, access lists, attributes and special files; options of the program there go into --remote-command",
    ),
    (
        &["--no-owner", "--no-group", "--no-o", "--no-g"],
        "owners and groups are kept only with -a, --owner or --group; leave those out",
    ),
    (
        &[
            "--no-perms",
            "--no-times",
            "--no-p",
            "--no-t",
            "--omit-dir-times",
            "--omit-link-times",
        ],
        "modes and times are always kept, as far as the destination can; leave it out",
    ),
    (
        &["-U", "--atimes", "-N", "--crtimes"],
        "times of access and of creation are not kept, only those of modification",
    ),
    (
        &["--chmod"],
        "modes arrive as they are; change them there with chmod once all is copied",
    ),
    (
        &["--chown", "--usermap", "--groupmap"],
        "--owner and --group give entries to whom they belong here, by name; change them there with chown once all is copied",
    ),
    (
        &["--super", "--fake-super"],
        "-a keeps what the user at the destination may set, and what could not be kept is told in the end; leave it out",
    ),
    (
        &["-P"],
        "a terminal shows progress, and what was interrupted goes on without a flag; leave it out. For the port of scp: --rsh 'ssh -p PORT'",
    ),
    (
        &[
            "--partial",
            "--progress",
            "--append",
            "--append-verify",
            "--partial-dir",
            "--partial-suffix",
            "--delay-updates",
            "-T",
            "--temp-dir",
            "--info",
        ],
        "a terminal shows progress, and what was interrupted goes on without a flag, from temporary names in the directory where it belongs; leave it out",
    ),
    (
        &["--inplace"],
        "a file has its name only when it is whole, so what was there stays until then; leave it out",
    ),
    (
        &[
            "-W",
            "--whole-file",
            "--no-whole-file",
            "-y",
            "--fuzzy",
            "--no-W",
        ],
        "a file that differs is always sent whole; leave it out",
    ),
    (
        &["--preallocate", "--fsync"],
        "room is taken and all is on the disk before it has its name, unless --no-sync says otherwise; leave it out",
    ),
    (
        &["--remove-source-files", "--remove-sent-files"],
        "sources stay as they are; check the copy with godwit manifest and godwit verify, then remove them yourself",
    ),
    (
        &["-b", "--backup", "--backup-dir", "--suffix"],
        "nothing is kept of what is replaced; copy it elsewhere first, or spare it with --ignore-existing or --update",
    ),
    (
        &["--link-dest", "--copy-dest", "--compare-dest"],
        "no earlier copy is looked at but the destination itself; a snapshot of its file system keeps an earlier state",
    ),
    (
        &["-I", "--ignore-times"],
        "--force sends what seems the same, --checksum compares contents",
    ),
    (
        &["--modify-window", "-@"],
        "a time in whole seconds counts as the same within its second; for coarser ones: --size-only or --checksum",
    ),
    (&["--checksum-choice", "--cc"], "it is called --digest"),
    (
        &["-m", "--prune-empty-dirs"],
        "directories are made even if nothing in them is taken; remove them there with find DIR -type d -empty -delete",
    ),
    (
        &["-d", "--dirs", "--max-depth"],
        "directories are taken with all that is in them; for the first level alone: --exclude '/*/*'",
    ),
    (
        &["-R", "--relative"],
        "a source is copied by its last name; to keep the directories above it, list paths with --files-from, relative to the source",
    ),
    (
        &["--no-relative", "--no-R", "--no-implied-dirs"],
        "names of --files-from are relative to the source and keep their directories; others go by their last name; leave it out",
    ),
    (
        &["-i", "--itemize-changes", "--interactive", "--list-only"],
        "--dry-run --verbose says of each entry what would be done; for a key of ssh: --rsh 'ssh -i KEY'",
    ),
    (
        &["--out-format", "--log-format", "--use-json-log"],
        "--json prints all that happens for programs, --log-file writes it down, --verbose names entries",
    ),
    (
        &["--log-level"],
        "--verbose names entries, --log-file writes everything down",
    ),
    (
        &["-h", "--human-readable"],
        "sizes are always printed for people, with --json for programs; leave it out",
    ),
    (
        &["-e", "-J"],
        "options of ssh go into --rsh, as in --rsh 'ssh -p 2222'",
    ),
    (
        &["-F"],
        "options of ssh go into --rsh, as in --rsh 'ssh -F FILE'; rules are --exclude and --include",
    ),
    (
        &["-4", "-6", "--ipv4", "--ipv6"],
        "for ssh: --rsh 'ssh -4' or --rsh 'ssh -6'; data takes the addresses of --channel, if it is given",
    ),
    (
        &["-B", "--protocol", "--sockopts", "--blocking-io"],
        "leave it out; for an ssh that asks nothing: --rsh 'ssh -o BatchMode=yes'",
    ),
    (
        &["-3"],
        "leave it out: data goes straight between the two machines, and never by way of this one",
    ),
    (
        &[
            "-O",
            "--old-args",
            "-s",
            "--protect-args",
            "--secluded-args",
            "--no-s",
        ],
        "no shell looks at names there; leave it out",
    ),
    (
        &["--port"],
        "ssh: --rsh 'ssh -p PORT'; a node: godwit://HOST:PORT/EXPORT/PATH",
    ),
    (
        &["--password-file"],
        "nodes take no passwords: godwit access allow lets a client in; ssh asks as it always does",
    ),
    (&["--rsync-path"], "it is called --remote-command"),
    (&["--bwlimit"], "it is called --limit"),
    (
        &["--timeout", "--contimeout"],
        "--stall-deadline is for connections that stand still, --handshake-deadline for those that do not come, --retry-for for going on after a loss",
    ),
    (
        &["--retries", "--low-level-retries", "--retries-sleep"],
        "what is lost is sent again for as long as --retry-for says; leave it out",
    ),
    (
        &[
            "--stop-after",
            "--stop-at",
            "--max-duration",
            "--max-transfer",
        ],
        "end it with timeout -s INT DURATION godwit …: the same command goes on where it stopped",
    ),
    (
        &["--transfers", "--checkers", "--multi-thread-streams"],
        "--streams is the number of connections, which large files share; comparing needs no such number",
    ),
    (
        &["--buffer-size", "--use-mmap"],
        "--memory is the most for blocks on their way",
    ),
    (
        &[
            "--fast-list",
            "--no-traverse",
            "--check-first",
            "--no-check-dest",
            "--order-by",
            "--tpslimit",
            "--track-renames",
        ],
        "names are compared while data moves, in the order in which they are found, and what was renamed is sent again; leave it out",
    ),
    (
        &["--immutable"],
        "--ignore-existing leaves what is there as it is",
    ),
    (
        &["--max-age", "--min-age"],
        "they are called --newer and --older",
    ),
    (
        &["--filter", "--filter-from", "-f", "--cvs-exclude"],
        "--exclude and --include take rules, --exclude-from and --include-from files of them, in the order of the command line",
    ),
    (
        &["--files-from-raw"],
        "it is called --files-from; --from0 if a zero byte is behind each name",
    ),
    (
        &[
            "-L",
            "--copy-links",
            "-k",
            "--copy-dirlinks",
            "--copy-unsafe-links",
            "--safe-links",
            "-K",
            "--keep-dirlinks",
            "--munge-links",
        ],
        "links are copied as links, wherever they lead; nothing follows them but a slash behind a source",
    ),
    (
        &["-q", "--quiet"],
        "leave it out and send standard output elsewhere, or use --json",
    ),
];

/// The hint for an error about one of these flags; `words` is the whole command line.
pub(crate) fn hint(error: &Error, words: &[OsString]) -> Option<String> {
    if error.kind() == ErrorKind::DisplayHelp {
        return misplaced_help(words);
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        return renamed(words);
    }
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    instead_of(flag.split('=').next()?)
}

/// Commands that were renamed.
fn renamed(words: &[OsString]) -> Option<String> {
    let line = match words.get(1)?.to_str()? {
        "authorize" => "godwit access allow IDENTITY --export NAME --read --write",
        "revoke" => "godwit access deny IDENTITY",
        _ => return None,
    };
    Some(format!("the command is called: {line}"))
}

fn instead_of(flag: &str) -> Option<String> {
    let (_, instead) = HABITS.iter().find(|(flags, _)| flags.contains(&flag))?;
    Some(format!("{flag}: {instead}"))
}

/// `-h` among other words of a command asks for no help, because rsync and df give the letter another meaning. Exit code 0 would
/// claim success, although no work was done.
fn misplaced_help(words: &[OsString]) -> Option<String> {
    let [_, command, rest @ ..] = words else {
        return None;
    };
    let is_asked = |word: &OsString| word == "--help";
    let has_letter = |word: &OsString| {
        let word = word.as_bytes();
        word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'h')
    };
    if command.as_bytes().starts_with(b"-")
        || rest.len() < 2 && rest.iter().all(|word| word == "-h")
        || rest.iter().any(is_asked)
        || !rest.iter().any(has_letter)
    {
        return None;
    }
    Some(format!(
        "{}. For help: godwit {} --help",
        instead_of("-h")?,
        command.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint_of(line: &[&str]) -> Option<String> {
        let error = crate::args::command()
            .try_get_matches_from(line)
            .expect_err("nobody knows it");
        let words: Vec<OsString> = line.iter().map(Into::into).collect();
        hint(&error, &words)
    }

    #[test]
    fn each_of_these_flags_is_unknown_and_has_a_hint() {
        for flag in HABITS.iter().flat_map(|(flags, _)| *flags) {
            let is_of_sync = ["--delete", "--delete-before"].contains(flag);
            let command = if is_of_sync { "cp" } else { "sync" };
            for line in [
                ["godwit", command, flag, "a", "b"],
                ["godwit", command, "a", "b", flag],
            ] {
                let hint = hint_of(&line).unwrap_or_default();
                assert!(hint.starts_with(&format!("{flag}: ")), "{flag}: {hint}");
            }
        }
    }

    /// Each word of a hint that looks like a flag of ours is a flag of ours.
    #[test]
    fn what_is_named_instead_is_there() {
        let command = crate::args::command();
        let known: Vec<String> = ["cp", "sync"]
            .into_iter()
            .filter_map(|name| command.find_subcommand(name))
            .flat_map(|command| command.get_arguments())
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .collect();
        for (_, instead) in HABITS {
            let words = instead.split([' ', ',', ';', ':', '.', '\'']);
            for word in words.filter(|word| word.starts_with("--")) {
                assert!(known.iter().any(|flag| flag == word), "{word}: {instead}");
            }
        }
    }

    #[test]
    fn no_flag_has_two_hints() {
        let mut flags: Vec<_> = HABITS.iter().flat_map(|(flags, _)| *flags).collect();
        let count = flags.len();
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags.len(), count);
    }

    #[test]
    fn joined_letters_and_values_do_not_hide_it() {
        for (line, start) in [
            (["godwit", "cp", "-avz", "a", "b"], "-z: "),
            (["godwit", "sync", "-avh", "a", "b"], "-h: "),
            (["godwit", "sync", "--bwlimit=9", "a", "b"], "--bwlimit: "),
        ] {
            assert!(hint_of(&line).is_some_and(|hint| hint.starts_with(start)));
        }
        assert_eq!(hint_of(&["godwit", "cp", "--fly", "a", "b"]), None);
    }

    #[test]
    fn who_asks_for_help_gets_it() {
        for line in [
            &["godwit", "-h"][..],
            &["godwit", "cp", "-h"],
            &["godwit", "cp", "--help", "a", "b"],
            &["godwit", "cp", "-a", "--help"],
            &["godwit", "help", "cp"],
        ] {
            assert_eq!(hint_of(line), None, "{line:?}");
        }
    }
}
