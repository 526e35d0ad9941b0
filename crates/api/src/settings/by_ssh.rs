//! The rows of the settings about machines that ssh reaches.
//! Holds no values; `resolve` finds those.

use crate::settings::table::{Heading, Kind, ObeyedBy, SSH_ONLY, Scope, Setting};

/// Commands that move data.
const CP: &[Scope] = &[Scope::Cp, Scope::Sync];
const CLIENT: &[Scope] = &[Scope::Cp, Scope::Sync, Scope::Verify];

/// The rows.
pub(super) const BY_SSH: &[Setting] = &[
    Setting {
        name: "rsh",
        scopes: CLIENT,
        kind: Kind::Text { form: "COMMAND" },
        default: "ssh",
        variable: "GODWIT_RSH",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        applies_to: SSH_ONLY,
        help: "The program that reaches the machine in HOST:PATH, and its options",
        detail: "Example: `ssh -p 2222 -i key`; a word with spaces goes in quotes. The program reads its own configuration.",
    },
    Setting {
        name: "remote-command",
        scopes: CLIENT,
        kind: Kind::Text { form: "COMMAND" },
        default: "godwit",
        variable: "GODWIT_REMOTE_COMMAND",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        applies_to: SSH_ONLY,
        help: "The command that starts godwit on the machine in HOST:PATH",
        detail: "The shell there interprets the command. Examples: `~/bin/godwit`, `sudo godwit`.",
    },
    Setting {
        name: "install-remote",
        scopes: CLIENT,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_INSTALL_REMOTE",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        applies_to: SSH_ONLY,
        help: "If HOST in HOST:PATH has no godwit, carry this program there by ssh",
        detail: "The program is copied by the same ssh to `~/.cache/godwit/VERSION/godwit` in the user's home there, where later runs find it. A terminal asks without this flag. The machine must have the same operating system and kind of processor.",
    },
    Setting {
        name: "data-ports",
        scopes: CP,
        kind: Kind::Ports,
        default: "any",
        variable: "GODWIT_DATA_PORTS",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        applies_to: SSH_ONLY,
        help: "TCP ports for the data of HOST:PATH",
        detail: "The ports may be opened on either machine: TCP carries the data beside ssh, in whichever direction a firewall allows. `50000-50100` is a range.",
    },
    Setting {
        name: "via-ssh",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_VIA_SSH",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        applies_to: SSH_ONLY,
        help: "Send the data of HOST:PATH through ssh itself, not beside it",
        detail: "This needs no port except that of ssh, and is slower: each stream is a separate ssh connection.",
    },
];
