//! The rows of the settings about metadata, and the combination of the single flags with `--archive`.
//! Keeps nothing itself.

use crate::settings::resolve::{Origin, Values};
use crate::settings::table::{AppliesTo, Heading, Kind, ObeyedBy, Scope, Setting};

const CP: &[Scope] = &[Scope::Cp, Scope::Sync];

/// The rows.
pub(super) const PRESERVE: &[Setting] = &[
    Setting {
        name: "owner",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_OWNER",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep the owner of each entry",
        detail: "The owner is found by name if the destination knows the name, else by number. This needs a superuser there, and on a node an export that grants `owner`. Without this flag, files in such an export get the original numbers, and files in any other place belong to its user.",
    },
    Setting {
        name: "group",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_GROUP",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep the group of each entry",
        detail: "This works like `--owner`; an ordinary user may use only his own groups.",
    },
    Setting {
        name: "numeric-ids",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_NUMERIC_IDS",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep owners and groups by number, not by name",
        detail: "This includes owners and groups in access lists.",
    },
    Setting {
        name: "xattrs",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_XATTRS",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep extended attributes",
        detail: "Any user can keep `user.*`; `security.*` and `trusted.*` need a superuser, and an export that grants `security-xattrs`.",
    },
    Setting {
        name: "acls",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_ACLS",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep POSIX access lists",
        detail: "This covers access lists of entries and default access lists of directories. Users and groups in them are mapped like owners.",
    },
    Setting {
        name: "specials",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_SPECIALS",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep FIFOs, sockets and device nodes",
        detail: "Device nodes need a superuser, and an export that grants `devices`. Without this flag, special files are reported and left out.",
    },
    Setting {
        name: "archive",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_ARCHIVE",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Keep everything: --owner, --group, --xattrs, --acls, --specials",
        detail: "Each of these flags can be switched off: `-a --acls=false`.",
    },
    Setting {
        name: "strict",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_STRICT",
        heading: Heading::Metadata,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Fail an entry if any of its metadata cannot be kept",
        detail: "Without this flag, metadata that the destination cannot store is left out, and reported once per kind with the number of entries. A failed entry is reported and does not get its final name, and the exit code is 3.",
    },
];

/// Metadata to keep besides contents, mode and times.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Preserve {
    /// The user that an entry belongs to.
    pub owner: bool,
    /// The group that an entry belongs to.
    pub group: bool,
    /// Users and groups by number, not by name.
    pub numeric_ids: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// POSIX access lists.
    pub acls: bool,
    /// FIFOs, sockets and device nodes.
    pub specials: bool,
    /// Metadata that cannot be kept is an error.
    pub strict: bool,
}

impl Preserve {
    /// Takes the values of a command that has these settings.
    pub(super) fn from_values(values: &Values) -> Self {
        let all = values.flag("archive");
        let one = |name| match values.get(name).1 {
            Origin::Default(_) => all,
            _ => values.flag(name),
        };
        Self {
            owner: one("owner"),
            group: one("group"),
            numeric_ids: values.flag("numeric-ids"),
            xattrs: one("xattrs"),
            acls: one("acls"),
            specials: one("specials"),
            strict: values.flag("strict"),
        }
    }
}
