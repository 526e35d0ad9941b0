//! What flags of rsync, scp and rclone are called here, or why they are not needed: a hint for who types them.
//! Parses nothing; `args` does.

use clap::Error;
use clap::error::{ContextKind, ContextValue};

/// Flags that others have and we do not, and what to do instead.
const HABITS: &[(&[&str], &str)] = &[
    (&["--delete"], "godwit sync has it"),
    (
        &["-z", "-C", "--compress"],
        "nothing is compressed on the way; leave it out",
    ),
    (
        &[
            "-t",
            "-p",
            "-l",
            "-H",
            "-S",
            "--times",
            "--perms",
            "--links",
            "--hard-links",
            "--sparse",
        ],
        "modes, times, links and holes are kept without a flag; leave it out",
    ),
    (
        &["-o", "-g", "-A", "-X", "-D"],
        "-a keeps owners, groups, access lists, attributes and special files; one by one: --owner, --group, --acls, --xattrs, --specials",
    ),
    (
        &["-P", "--partial", "--progress", "--append"],
        "a terminal shows progress, and what was interrupted goes on without a flag; leave it out",
    ),
    (
        &["-i", "--itemize-changes"],
        "--dry-run and --verbose say it of each entry; for a key of ssh: --rsh 'ssh -i KEY'",
    ),
    (
        &["-e", "-J", "-F"],
        "options of ssh go into --rsh, as in --rsh 'ssh -p 2222'",
    ),
    (&["--rsync-path"], "it is called --remote-command"),
    (&["--bwlimit"], "it is called --limit"),
    (
        &["--transfers", "--checkers"],
        "--streams is the number of connections; comparing needs no such number",
    ),
    (
        &["--max-age", "--min-age"],
        "they are called --newer and --older",
    ),
    (
        &["--filter", "-f"],
        "--exclude and --include take rules, in the order of the command line",
    ),
    (
        &["-L", "--copy-links"],
        "links are copied as links; nothing follows them",
    ),
    (
        &["-q", "--quiet"],
        "leave it out and send standard output elsewhere, or use --json",
    ),
];

/// What to do instead of what this error is about, if it is about one of these flags.
pub(crate) fn hint(error: &Error) -> Option<String> {
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let flag = flag.split('=').next()?;
    let (_, instead) = HABITS.iter().find(|(flags, _)| flags.contains(&flag))?;
    Some(format!("{flag}: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_these_flags_is_unknown_and_has_a_hint() {
        for flag in HABITS.iter().flat_map(|(flags, _)| *flags) {
            for line in [
                vec!["godwit", "cp", flag, "a", "b"],
                vec!["godwit", "cp", "a", "b", flag],
            ] {
                let error = crate::args::command()
                    .try_get_matches_from(line)
                    .expect_err(flag);
                let hint = hint(&error).unwrap_or_default();
                assert!(hint.starts_with(&format!("{flag}: ")), "{flag}: {error}");
            }
        }
    }

    #[test]
    fn joined_letters_and_values_do_not_hide_it() {
        for (line, start) in [
            (["godwit", "cp", "-avz", "a", "b"], "-z: "),
            (["godwit", "sync", "--bwlimit=9", "a", "b"], "--bwlimit: "),
        ] {
            let error = crate::args::command()
                .try_get_matches_from(line)
                .expect_err("unknown");
            assert!(hint(&error).is_some_and(|hint| hint.starts_with(start)));
        }
        let error = crate::args::command()
            .try_get_matches_from(["godwit", "cp", "--fly", "a", "b"])
            .expect_err("unknown");
        assert_eq!(hint(&error), None);
    }
}
