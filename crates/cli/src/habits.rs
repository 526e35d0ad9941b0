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
        "use --delete, which deletes last, and only if nothing failed",
    ),
    (
        &["--delete-excluded"],
        "excluded entries are never touched, not even with --delete; leave the --exclude out, or remove these entries yourself",
    ),
    (
        &["--delete-missing-args", "--ignore-missing-args"],
        "a missing source is reported, the others are copied, and the exit code is 3; leave this option out",
    ),
    (
        &["--ignore-errors"],
        "after errors nothing is deleted, because the source may hold entries that could not be read; correct the errors, and run the command again",
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
        "godwit does not compress data on the network; leave this option out",
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
        "modes, times, links, holes and empty directories are kept without a flag; leave this option out",
    ),
    (
        &["-l"],
        "links are kept without a flag; leave this option out. For the limit of scp: --limit 10MiB",
    ),
    (
        &["-S"],
        "holes are kept without a flag; leave this option out. For another program than ssh: --rsh PROGRAM",
    ),
    (
        &["-o"],
        "-a keeps owners and all other metadata, --owner keeps only owners; for an option of ssh: --rsh 'ssh -o OPTION'",
    ),
    (
        &["-g", "-A", "-X", "-D", "--devices", "--metadata"],
        "-a keeps owners, groups, access lists, attributes and special files; to choose single ones: --owner, --group, --acls, --xattrs, --specials",
    ),
    (
        &["-M"],
        "-a keeps owners, groups, access lists, attributes and special files; put options for the program on the other machine into --remote-command",
    ),
    (
        &["--no-owner", "--no-group", "--no-o", "--no-g"],
        "owners and groups are kept only with -a, --owner or --group; leave those flags out",
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
        "modes and times are always kept, as far as the destination supports them; leave this option out",
    ),
    (
        &["-U", "--atimes", "-N", "--crtimes"],
        "times of access and of creation are not kept, only those of modification",
    ),
    (
        &["--chmod"],
        "modes are copied unchanged; change them at the destination with chmod after the copy",
    ),
    (
        &["--chown", "--usermap", "--groupmap"],
        "--owner and --group keep owners and groups by name; change them at the destination with chown after the copy",
    ),
    (
        &["--super", "--fake-super"],
        "-a keeps the metadata that the user at the destination may set, and the summary lists the rest; leave this option out",
    ),
    (
        &[
            "--append",
            "--append-verify",
            "--partial-dir",
            "--partial-suffix",
            "--delay-updates",
            "-T",
            "--temp-dir",
            "--info",
        ],
        "a terminal shows progress, and interrupted transfers resume without a flag, from temporary files in the directory of the destination file; leave this option out",
    ),
    (
        &["--inplace"],
        "a new file gets its final name only when it is complete, so the old file stays until then; leave this option out",
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
        "a file that differs is always sent whole; leave this option out",
    ),
    (
        &["--preallocate", "--fsync"],
        "space is reserved, and a file is durable before it gets its final name (unless --no-sync is given); leave this option out",
    ),
    (
        &["--remove-source-files", "--remove-sent-files"],
        "sources are never removed; check the copy with godwit manifest and godwit verify, then remove the sources yourself",
    ),
    (
        &["-b", "--backup", "--backup-dir", "--suffix"],
        "replaced files are not kept; copy them elsewhere first, or protect them with --ignore-existing or --update",
    ),
    (
        &["--link-dest", "--copy-dest", "--compare-dest"],
        "files are compared only with the destination itself; to keep an earlier state, take a snapshot of its file system",
    ),
    (
        &["-I", "--ignore-times"],
        "--force sends even files that seem unchanged; --checksum compares contents",
    ),
    (
        &["--modify-window", "-@"],
        "a time in whole seconds equals any time within that second; for coarser times use --size-only or --checksum",
    ),
    (&["--checksum-choice", "--cc"], "it is called --digest"),
    (
        &["-m", "--prune-empty-dirs"],
        "directories are made even if none of their contents are copied; remove empty ones at the destination with find DIR -type d -empty -delete",
    ),
    (
        &["-d", "--dirs", "--max-depth"],
        "directories are copied with all their contents; for the first level alone: --exclude '/*/*'",
    ),
    (
        &["-R", "--relative"],
        "a source is copied by its last name; to keep the directories above it, list paths with --files-from, relative to the source",
    ),
    (
        &["--no-relative", "--no-R", "--no-implied-dirs"],
        "names in a --files-from list are relative to the source and keep their directories; other sources are copied by their last name; leave this option out",
    ),
    (
        &["-i", "--itemize-changes", "--interactive", "--list-only"],
        "--dry-run --verbose prints the planned action for each entry; for a key of ssh: --rsh 'ssh -i KEY'",
    ),
    (
        &["--out-format", "--log-format", "--use-json-log"],
        "--json prints all events for programs, --log-file writes them to a file, --verbose names entries",
    ),
    (
        &["--log-level"],
        "--verbose names entries, --log-file writes all events to a file",
    ),
    (
        &["-h", "--human-readable"],
        "sizes are always printed with units, and with --json as plain numbers; leave this option out",
    ),
    (
        &["-e", "-J"],
        "put options for ssh into --rsh, as in --rsh 'ssh -p 2222'",
    ),
    (
        &["-F"],
        "put options for ssh into --rsh, as in --rsh 'ssh -F FILE'; rules are --exclude and --include",
    ),
    (
        &["-4", "-6", "--ipv4", "--ipv6"],
        "for ssh: --rsh 'ssh -4' or --rsh 'ssh -6'; data uses the addresses of --channel, if --channel is given",
    ),
    (
        &["-B", "--protocol", "--sockopts", "--blocking-io"],
        "leave this option out; for an ssh that never asks questions: --rsh 'ssh -o BatchMode=yes'",
    ),
    (
        &["-3"],
        "leave this option out: data goes directly between the two machines, and never through this one",
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
        "no shell on the other machine expands names; leave this option out",
    ),
    (
        &["--port"],
        "ssh: --rsh 'ssh -p PORT'; a node: godwit://HOST:PORT/EXPORT/PATH",
    ),
    (
        &["--password-file"],
        "nodes take no passwords: grant access to a client with godwit access allow; ssh asks for passwords as usual",
    ),
    (&["--rsync-path"], "it is called --remote-command"),
    (&["--bwlimit"], "it is called --limit"),
    (
        &["--timeout", "--contimeout"],
        "--stall-deadline limits how long a connection may stand still, --handshake-deadline how long a new connection may take, and --retry-for how long to retry after a loss",
    ),
    (
        &["--retries", "--low-level-retries", "--retries-sleep"],
        "lost data is sent again for as long as --retry-for allows; leave this option out",
    ),
    (
        &[
            "--stop-after",
            "--stop-at",
            "--max-duration",
            "--max-transfer",
        ],
        "limit the time with timeout -s INT DURATION godwit …: the same command resumes the transfer",
    ),
    (
        &["--transfers", "--checkers", "--multi-thread-streams"],
        "--streams is the number of connections, which large files share; comparing files needs no such setting",
    ),
    (
        &["--buffer-size", "--use-mmap"],
        "--memory limits the memory for blocks in flight",
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
        "names are compared while data moves, in the order in which they are found, and renamed files are sent again; leave this option out",
    ),
    (
        &["--immutable"],
        "--no-replace fails files that would replace one with other contents",
    ),
    (
        &["--max-age", "--min-age"],
        "they are called --newer and --older",
    ),
    (
        &["--filter", "--filter-from", "-f", "--cvs-exclude"],
        "--exclude and --include take rules, --exclude-from and --include-from take files of rules; rules apply in the order of the command line",
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
        "links are copied as links, wherever they lead; only a trailing slash at a source follows a link",
    ),
    (
        &["-q", "--quiet"],
        "leave this option out and redirect standard output, or use --json",
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
    let words = words.get(1..)?;
    let (command, rest) = words.split_at_checked(named(words))?;
    let is_asked = |word: &OsString| word == "--help";
    let has_letter = |word: &OsString| {
        let word = word.as_bytes();
        word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'h')
    };
    if command.is_empty()
        || rest.len() < 2 && rest.iter().all(|word| word == "-h")
        || rest.iter().any(is_asked)
        || !rest.iter().any(has_letter)
    {
        return None;
    }
    let names: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    Some(format!(
        "{}. For help: godwit {} --help",
        instead_of("-h")?,
        names.join(" ")
    ))
}

/// The number of words that name a command at the beginning of a line, as in `job submit`.
fn named(words: &[OsString]) -> usize {
    let whole = crate::args::bare();
    let mut command = &whole;
    let is_named = |word: &&OsString| {
        let found = command.find_subcommand(word);
        command = found.unwrap_or(command);
        found.is_some()
    };
    words.iter().take_while(is_named).count()
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
    fn each_flag_named_in_a_hint_exists() {
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
    fn a_request_for_help_gets_no_hint() {
        for line in [
            &["godwit", "-h"][..],
            &["godwit", "cp", "-h"],
            &["godwit", "job", "-h"],
            &["godwit", "job", "submit", "-h"],
            &["godwit", "cluster", "status", "-h"],
            &["godwit", "cp", "--help", "a", "b"],
            &["godwit", "cp", "-a", "--help"],
            &["godwit", "help", "cp"],
        ] {
            assert_eq!(hint_of(line), None, "{line:?}");
        }
        let line = ["godwit", "buffer", "status", "-h", "place"];
        let hint = hint_of(&line).unwrap_or_default();
        assert!(
            hint.ends_with("For help: godwit buffer status --help"),
            "{hint}"
        );
    }
}
