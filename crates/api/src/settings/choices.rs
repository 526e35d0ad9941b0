//! The rows of the settings that say which entries below the sources are meant.
//! Part of the one table; what they mean together is in `selection`.

use crate::settings::table::{Kind, Scope, Setting};

const CP: &[Scope] = &[Scope::Cp, Scope::Sync];

/// Those rows.
pub(super) const CHOICES: &[Setting] = &[
    Setting {
        name: "exclude",
        scopes: CP,
        kind: Kind::List { form: "PATTERN" },
        default: "",
        variable: "GODWIT_EXCLUDE",
        help: "Leave out what matches (repeatable)",
        detail: "See \"Choosing entries\".",
    },
    Setting {
        name: "include",
        scopes: CP,
        kind: Kind::List { form: "PATTERN" },
        default: "",
        variable: "GODWIT_INCLUDE",
        help: "Take what matches, whatever later rules say (repeatable)",
        detail: "",
    },
    Setting {
        name: "exclude-from",
        scopes: CP,
        kind: Kind::List { form: "FILE" },
        default: "",
        variable: "GODWIT_EXCLUDE_FROM",
        help: "Leave out what matches the patterns in this file, one a line (repeatable)",
        detail: "",
    },
    Setting {
        name: "include-from",
        scopes: CP,
        kind: Kind::List { form: "FILE" },
        default: "",
        variable: "GODWIT_INCLUDE_FROM",
        help: "Take what matches the patterns in this file, one a line (repeatable)",
        detail: "",
    },
    Setting {
        name: "min-size",
        scopes: CP,
        kind: Kind::Text { form: "SIZE" },
        default: "",
        variable: "GODWIT_MIN_SIZE",
        help: "Leave out files that are smaller",
        detail: "",
    },
    Setting {
        name: "max-size",
        scopes: CP,
        kind: Kind::Text { form: "SIZE" },
        default: "",
        variable: "GODWIT_MAX_SIZE",
        help: "Leave out files that are larger",
        detail: "",
    },
    Setting {
        name: "newer",
        scopes: CP,
        kind: Kind::Text { form: "TIME|FILE" },
        default: "",
        variable: "GODWIT_NEWER",
        help: "Take only what was modified after this time, or after this file was",
        detail: "A time is `2026-01-31`, `2026-01-31T12:30:05`, `2026-01-31T12:30+02:00` (UTC unless an offset is given), `@SECONDS` since 1970, \
                 or a duration before now, as `2d`; anything else is the name of a file. Directories are always taken.",
    },
    Setting {
        name: "older",
        scopes: CP,
        kind: Kind::Text { form: "TIME|FILE" },
        default: "",
        variable: "GODWIT_OLDER",
        help: "Take only what was modified before this time, or before this file was",
        detail: "",
    },
    Setting {
        name: "files-from",
        scopes: CP,
        kind: Kind::Text { form: "FILE|-" },
        default: "",
        variable: "GODWIT_FILES_FROM",
        help: "Take only what this list names, one name a line, relative to the source; - is standard input",
        detail: "See \"Lists of names\".",
    },
    Setting {
        name: "from0",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_FROM0",
        help: "Names and patterns in files end in zero bytes, as from find -print0, not in newlines",
        detail: "",
    },
    Setting {
        name: "recursive",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_RECURSIVE",
        help: "With --files-from: take directories that the list names with all that is in them",
        detail: "Without --files-from directories are always taken with all that is in them.",
    },
];
