//! The rows of the settings about network paths.
//! Holds no values; `resolve` finds those.

use crate::settings::table::{GivenIn, Heading, Kind, NODE_ONLY, ObeyedBy, Scope, Setting};

const CLIENT: &[Scope] = &[Scope::Cp, Scope::Sync, Scope::Verify];
const SERVE: &[Scope] = &[Scope::Serve];

/// The rows.
pub(super) const CHANNELS: &[Setting] = &[
    Setting {
        name: "channel",
        scopes: CLIENT,
        kind: Kind::List {
            form: "LOCAL[=REMOTE]",
        },
        default: "",
        variable: "GODWIT_CHANNEL",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        given_in: GivenIn::Command(
            "names interfaces and addresses of the machine of a command; a node finds its own paths to a site, and its operator says which it may use (godwit serve --announce, and the addresses of godwit site add)",
        ),
        help: "A network path to use, and no others than those named (repeatable)",
        detail: "LOCAL is an address or an interface of this machine, REMOTE an address of the other one; without it the other side's \
                 address in the same network is taken, or the one that was dialled. Without `--channel`, all pairs of interfaces over which \
                 the other machine answers are used. One that was named and cannot be used is an error. `verify` uses the first that works.",
    },
    Setting {
        name: "announce",
        scopes: SERVE,
        kind: Kind::List {
            form: "all|none|ADDRESS|INTERFACE",
        },
        default: "all",
        variable: "GODWIT_ANNOUNCE",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        given_in: NODE_ONLY,
        help: "Which further addresses clients are told of, to use several network paths (repeatable)",
        detail: "Of those that are listened on. Only clients that may open a transfer are told, and only if there is more than one interface. \
                 `none` keeps every transfer on the path that its client dialled.",
    },
];
