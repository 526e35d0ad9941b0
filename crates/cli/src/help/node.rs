//! Examples of the commands that speak to a running node.
//! Parses nothing.

use super::{Example, example};

/// Examples by the words of the command after `godwit`.
pub(super) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "access",
        &[
            example(
                "godwit access allow gw1-... --export data:/run42 --read --write --expires 90d --comment Ada",
                "one directory of an export, to read and write, until a date",
            ),
            example("godwit access list", "the rights of all identities"),
        ],
    ),
    (
        "accounting",
        &[
            example("godwit accounting --since 7d", "the transfers of a week"),
            example(
                "godwit accounting --since 2026-11-01 --until 2026-12-01 --json",
                "those of a month, for a program",
            ),
        ],
    ),
    (
        "config",
        &[example(
            "godwit config check /etc/godwit/godwit.toml",
            "before godwit serve --config /etc/godwit/godwit.toml",
        )],
    ),
    (
        "config check",
        &[example("godwit config check", "config.toml in GODWIT_HOME")],
    ),
    (
        "access list",
        &[example(
            "godwit access list",
            "of the file and of the node's state",
        )],
    ),
    (
        "access allow",
        &[
            example(
                "godwit access allow gw1-... --export data --read",
                "read one export",
            ),
            example(
                "godwit access allow gw1-... --all-exports --read --write",
                "everything",
            ),
            example(
                "godwit access allow user:alice --export data:/home/alice --write",
                "jobs of a user may write there",
            ),
        ],
    ),
    (
        "access deny",
        &[
            example("godwit access deny gw1-... --export data", "one export"),
            example("godwit access deny gw1-...", "everything"),
        ],
    ),
    (
        "job",
        &[
            example(
                "godwit job submit here:/data/run42 siteB:/archive/run42 --label night-42",
                "queue a copy",
            ),
            example("godwit job list", "running and waiting jobs"),
            example("godwit job watch 2zq", "show progress until the job ends"),
        ],
    ),
    (
        "job submit",
        &[
            example(
                "godwit job submit here:/data/run42 siteB:/archive/run42 --label night-42 --limit 20Gbit --after 22:00",
                "start tonight, with a limit",
            ),
            example(
                "godwit job submit siteB:/archive/run42 here:/data/in/ --deadline 12h --wait",
                "fetch the data, and wait for the end",
            ),
            example(
                "godwit job submit here:/data/a here:/data/b siteB:/archive/ --setting streams=8 --setting verify",
                "several sources, with settings of godwit cp",
            ),
            example(
                "godwit job submit here:/data/run42 --to siteB:/in/ --to siteC:/in/ --relay auto",
                "read once for two sites; a site that fails gets the data from the other",
            ),
            example(
                "godwit job submit here:/data/run42 --to siteB:/in/ --to siteC:/in/ --relay first",
                "over a thin uplink: siteB gets the data from here, and siteC from siteB",
            ),
            example(
                "godwit job submit here:/data/card1 --to siteB:/in/ --to siteC:/in/ --setting manifest=ascmhl",
                "seal each copy with an ASC MHL history, as in film",
            ),
            example(
                "godwit job submit --from siteB:/raw --from siteC:/raw --to here:/archive",
                "gather: archive/siteB and archive/siteC",
            ),
            example(
                "godwit job submit --from siteB:/raw --from siteC:/raw --to here:/archive --merge newest",
                "gather into archive itself: of each name the newest file",
            ),
            example(
                "godwit job submit here:mem:64GiB siteB:null: --wait",
                "measure from memory to memory, by all nodes of both sites",
            ),
            example(
                "godwit job submit here:/data/run42 siteB:/archive/run42 --exclude '*.tmp' --newer 2d",
                "changes of the last two days, without temporary files",
            ),
        ],
    ),
    (
        "job list",
        &[
            example(
                "godwit job list --label night",
                "jobs with this text in their label",
            ),
            example(
                "godwit job list --state failed,partial --owner alice",
                "failed jobs of one user",
            ),
        ],
    ),
    ("job show", &[example("godwit job show 2zq", "one job")]),
    (
        "job watch",
        &[example("godwit job watch 2zq", "until it ends")],
    ),
    (
        "job pause",
        &[example("godwit job pause 2zq 2zr", "two jobs")],
    ),
    (
        "job resume",
        &[example("godwit job resume 2zq", "resume the job")],
    ),
    (
        "job cancel",
        &[example(
            "godwit job cancel 2zq --comment wrong",
            "give it up",
        )],
    ),
    (
        "job retry",
        &[example(
            "godwit job retry 2zq",
            "retry now, without waiting for the next attempt",
        )],
    ),
    (
        "job limit",
        &[
            example("godwit job limit 2zq 300MB", "in bytes a second"),
            example("godwit job limit 2zq none", "no limit any more"),
        ],
    ),
    (
        "job priority",
        &[example("godwit job priority 2zq 10", "before priority 0")],
    ),
    (
        "job label",
        &[example("godwit job label 2zq night-43", "another label")],
    ),
    (
        "job log",
        &[example("godwit job log --follow 2zq", "print new lines")],
    ),
    (
        "job report",
        &[
            example("godwit job report 2zq", "as text"),
            example(
                "godwit job report 2zq --html run42.html",
                "write one page with plots",
            ),
        ],
    ),
    (
        "job manifest",
        &[example(
            "godwit job manifest 2zq > run42.manifest",
            "for godwit verify",
        )],
    ),
    (
        "top",
        &[
            example("godwit top", "nodes, and all running or waiting jobs"),
            example("godwit top --once", "the same once"),
        ],
    ),
    (
        "ls",
        &[
            example("godwit ls siteB:/archive", "a directory of another site"),
            example("godwit ls siteB:/", "its exports, and their room"),
            example("godwit ls alice@dtn2:/data", "a machine behind ssh"),
            example("godwit ls godwit://dtn2/data/", "a node by its address"),
        ],
    ),
    (
        "mkdir",
        &[example(
            "godwit mkdir -p siteB:/archive/2026/run42",
            "make the parent directories as well",
        )],
    ),
    (
        "rm",
        &[
            example("godwit rm siteB:/archive/x", "a file or an empty directory"),
            example("godwit rm -r siteB:/archive/old", "with its contents"),
        ],
    ),
    (
        "mv",
        &[example(
            "godwit mv siteB:/archive/x siteB:/archive/old/",
            "into a directory of the same export",
        )],
    ),
    (
        "clean",
        &[
            example("godwit clean --dry-run siteB:/archive", "what would go?"),
            example("godwit clean --job 01jdq8", "files of a cancelled job"),
            example(
                "godwit clean siteB:/archive --older-than 7d",
                "only files not written for a week",
            ),
        ],
    ),
    (
        "site",
        &[
            example(
                "godwit site add siteB dtn1.siteb.org dtn2.siteb.org --identity gw1-...",
                "jobs name it siteB:/EXPORT/PATH from now on",
            ),
            example("godwit site list", "which sites there are"),
        ],
    ),
    (
        "site add",
        &[example(
            "godwit site add siteB dtn1.siteb.org:7272 --identity gw1-...",
            "identity, as `godwit id` prints it there",
        )],
    ),
    ("site list", &[example("godwit site list", "all of them")]),
    (
        "site test",
        &[example(
            "godwit site test siteB",
            "does the site answer, and which exports may I use?",
        )],
    ),
    ("site remove", &[example("godwit site remove siteB", "one")]),
    (
        "user",
        &[example(
            "godwit user add alice --role operator",
            "let the account alice of this machine submit jobs",
        )],
    ),
    (
        "user add",
        &[
            example(
                "godwit user add alice --role operator",
                "log-in by tokens, and from her account on the node's machine",
            ),
            example(
                "godwit user add bob --role viewer --password-file bob.password",
                "log-in also through the page",
            ),
        ],
    ),
    ("user list", &[example("godwit user list", "all of them")]),
    (
        "user passwd",
        &[
            example("godwit user passwd", "asks for passwords at the terminal"),
            example(
                "godwit user passwd --current-file old --password-file new",
                "passwords from files that only their owner can read",
            ),
        ],
    ),
    ("user remove", &[example("godwit user remove alice", "one")]),
    (
        "token",
        &[example(
            "godwit token create --role operator --expires 90d > token",
            "for a script on another machine; then chmod 600 token",
        )],
    ),
    (
        "token create",
        &[example(
            "godwit token create --role viewer --user alice --comment monitoring",
            "for another user",
        )],
    ),
    (
        "token list",
        &[example("godwit token list", "without secrets")],
    ),
    ("token revoke", &[example("godwit token revoke 2zq", "one")]),
    (
        "node",
        &[
            example("godwit node status", "the node of this machine"),
            example(
                "godwit node status --node https://dtn1.example.org --token-file token",
                "one elsewhere",
            ),
        ],
    ),
    (
        "node limits",
        &[example("godwit node limits", "all limits and shares")],
    ),
    (
        "node limit",
        &[
            example("godwit node limit 20Gbit/s", "each node of the cluster"),
            example(
                "godwit node limit --each-job 2Gbit/s",
                "each job without a separate limit",
            ),
        ],
    ),
    (
        "site limit",
        &[
            example(
                "godwit site limit siteB 1GB/s --window 'mon-fri 08:00-18:00 100MB/s'",
                "slower in working hours",
            ),
            example("godwit site limit siteB none", "no limit any more"),
        ],
    ),
    (
        "user limit",
        &[example(
            "godwit user limit alice none --jobs 4",
            "no more than four jobs at once",
        )],
    ),
    (
        "user share",
        &[example(
            "godwit user share alice 3",
            "three times as many places",
        )],
    ),
    (
        "node status",
        &[example("godwit node status", "exports, and your own name")],
    ),
    (
        "node trust",
        &[example(
            "godwit node trust https://dtn1.example.org 5891b5b5...",
            "the fingerprint that the node printed at its start",
        )],
    ),
];
