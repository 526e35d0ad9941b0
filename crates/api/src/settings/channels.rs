//! The rows of the settings about network paths.
//! Holds no values; `resolve` finds those.

use crate::settings::table::{AppliesTo, Heading, Kind, NODE_ONLY, ObeyedBy, Scope, Setting};

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
        applies_to: AppliesTo::Command(
            "names interfaces and addresses of the machine that runs a command; a node finds its own paths to a site, and its operator chooses them (godwit serve --announce, and the addresses of godwit site add)",
        ),
        help: "A network path to use; only named paths are used (repeatable)",
        detail: "LOCAL is an address or an interface of this machine, and REMOTE an address of the other one. Without REMOTE, the address of the other side in the same network is used, or else the dialled address. Without `--channel`, all pairs of interfaces are used over which the other machine answers. A named path that cannot be used is an error. `verify` uses the first path that works.",
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
        applies_to: NODE_ONLY,
        help: "Further addresses to announce to clients, for several network paths (repeatable)",
        detail: "The addresses are among those on which the node listens. Only clients that may open a transfer receive them, and only if there is more than one interface. `none` keeps every transfer on the path that its client dialled.",
    },
];
