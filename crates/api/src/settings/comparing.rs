//! The part of the table that is about what is at the destination already.
//! Holds no values; `resolve` finds those.

use crate::settings::table::{Kind, Scope, Setting};

const CP: &[Scope] = &[Scope::Cp, Scope::Sync];
const SYNC: &[Scope] = &[Scope::Sync];

/// The rows.
pub(super) const COMPARING: &[Setting] = &[
    Setting {
        name: "checksum",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_CHECKSUM",
        help: "Compare files of one size by their contents, not by their modification time",
        detail: "Both sides read them, with the digest of `--digest`; what is the same is not sent.",
    },
    Setting {
        name: "size-only",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_SIZE_ONLY",
        help: "Take files of one size for the same",
        detail: "Whatever their modification times are; those are set.",
    },
    Setting {
        name: "update",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_UPDATE",
        help: "Leave files alone that are newer at the destination",
        detail: "",
    },
    Setting {
        name: "existing",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_EXISTING",
        help: "Make nothing that is not at the destination already",
        detail: "",
    },
    Setting {
        name: "ignore-existing",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_IGNORE_EXISTING",
        help: "Leave everything alone that is at the destination already",
        detail: "Directories excepted: what they lack is made in them, and they get their modes and times.",
    },
    Setting {
        name: "delete",
        scopes: SYNC,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_DELETE",
        help: "In the end, delete what only the destination has",
        detail: "After everything has arrived, and only if all of the source could be looked at and nothing failed. Directories go with what is in them; \
                 symbolic links are never followed. With it, a directory also makes way for a file or link of its name in the source, and a file or link for a directory. What rules exclude is not deleted, nor what limits of size and time leave out of the source.",
    },
    Setting {
        name: "max-delete",
        scopes: SYNC,
        kind: Kind::CountOrNone,
        default: "none",
        variable: "GODWIT_MAX_DELETE",
        help: "If more entries than this would be deleted, delete none",
        detail: "The exit code is 3 then. What makes way for a directory while the transfer runs counts, too.",
    },
    Setting {
        name: "dry-run",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_DRY_RUN",
        help: "Change nothing at the destination, and say what would be done",
        detail: "One line for each entry that would be sent, made, changed in its metadata or deleted; with `--verbose`, for those that would be skipped, too.",
    },
    Setting {
        name: "verbose",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_VERBOSE",
        help: "Say what is decided about each entry",
        detail: "",
    },
];
