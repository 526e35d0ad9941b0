//! The part of the table that is about reports: manifests and their verification, lists of failures, logs, figures.
//! Holds no values; `resolve` finds those.

use crate::settings::table::{COMMAND_ONLY, GivenIn, Heading, Kind, ObeyedBy, Scope, Setting};

const CP: &[Scope] = &[Scope::Cp, Scope::Sync];
const VERIFY: &[Scope] = &[Scope::Verify];
const WRITING: &[Scope] = &[Scope::Cp, Scope::Sync, Scope::Manifest];

/// The rows.
pub(super) const REPORTS: &[Setting] = &[
    Setting {
        name: "manifest",
        scopes: CP,
        kind: Kind::File,
        default: "",
        variable: "GODWIT_MANIFEST",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Command(
            "names a file of the submitter's machine, which a node does not have; add manifest (godwit job submit --manifest), and fetch it with: godwit job manifest ID",
        ),
        help: "Write down what the data set holds, with a digest of each file",
        detail: "One line an entry, as `docs/manifest.md` describes; `godwit verify` checks a copy by it at any later time. \
                 Files that were there already are read on this side for their digest. The file appears when the transfer \
                 has ended, also if some entries failed: its last lines say how many. It vouches for the copy, so it does not go with \
                 `--existing`, `--ignore-existing`, `--update` and `--size-only`, which leave entries that nobody compared. Reports \
                 that lie in a local source are not copied and have no line, neither the manifest nor `--failed` and `--log-file`; a note says so. With \
                 `--delete` an older copy of one stays at the destination.",
    },
    Setting {
        name: "manifest-sorted",
        scopes: WRITING,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_MANIFEST_SORTED",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Jobs,
        help: "Sort the manifest by name",
        detail: "So that two manifests of equal data sets are equal byte for byte. Otherwise entries stand in the order in which they became complete.",
    },
    Setting {
        name: "sign",
        scopes: WRITING,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_SIGN",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Jobs,
        help: "Sign the manifest with this user's identity",
        detail: "With the key whose name `godwit id` prints; `godwit verify --signed-by` checks it.",
    },
    Setting {
        name: "failed",
        scopes: CP,
        kind: Kind::File,
        default: "",
        variable: "GODWIT_FAILED",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Command(
            "names a file of the submitter's machine, which a node does not have; the job's report has the same",
        ),
        help: "Write the names of entries that failed to this file",
        detail: "Names below the source, each ended by a zero byte, as `--files-from FILE --from0 --recursive` reads them: the next \
                 run then does only those, directories with all that is in them. The reasons are in FILE.reasons, a line each: name (escaped as in a manifest), side, code, message, \
                 separated by tabs. Both files are there, empty, when nothing failed. They replace those of an earlier run when this one is over, so FILE may be the list that \
                 this run reads by `--files-from` and `--from0`; then it stays as it is if the run did not come to its end. Of a run that never began nothing is written.",
    },
    Setting {
        name: "log-file",
        scopes: CP,
        kind: Kind::File,
        default: "",
        variable: "GODWIT_LOG_FILE",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Process,
        given_in: COMMAND_ONLY,
        help: "Append what happens to this file, a JSON object a line",
        detail: "The events of `--json`, each with the time (UTC) at its beginning; progress every five seconds.",
    },
    Setting {
        name: "stats",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_STATS",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Jobs,
        help: "At the end, print what each stage of the transfer did and waited for",
        detail: "Entries, bytes and rates of reading, sending, receiving, writing and syncing, what was sent again, \
                 processor time and memory of both sides. With `--json`, an event `stats` before the summary.",
    },
    Setting {
        name: "content-only",
        scopes: VERIFY,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_CONTENT_ONLY",
        heading: Heading::General,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Jobs,
        help: "Compare types, sizes, contents and link targets, not modes and times",
        detail: "",
    },
    Setting {
        name: "extra",
        scopes: VERIFY,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_EXTRA",
        heading: Heading::General,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Jobs,
        help: "Name entries, too, that are there and not in the manifest",
        detail: "",
    },
    Setting {
        name: "signed-by",
        scopes: VERIFY,
        kind: Kind::Text { form: "IDENTITY" },
        default: "",
        variable: "GODWIT_SIGNED_BY",
        heading: Heading::General,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Jobs,
        help: "Refuse a manifest that this identity has not signed",
        detail: "What `godwit id` prints on the signer's side. A signature that is there must be valid even without this.",
    },
];
