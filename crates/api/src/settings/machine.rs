//! The rows of the settings about hardware: CPUs, and access to storage.
//! Part of the one table.

use crate::settings::table::{AppliesTo, COMMAND_ONLY, Heading, Kind, ObeyedBy, Scope, Setting};

/// The rows of this group.
pub(super) const MACHINE: &[Setting] = &[
    Setting {
        name: "pin",
        scopes: &[
            Scope::Cp,
            Scope::Sync,
            Scope::Verify,
            Scope::Manifest,
            Scope::Serve,
        ],
        kind: Kind::Text {
            form: "CPUS|INTERFACE",
        },
        default: "",
        variable: "GODWIT_PIN",
        heading: Heading::Machine,
        obeyed_by: ObeyedBy::Process,
        applies_to: COMMAND_ONLY,
        help: "Run on these CPUs only, or on the CPUs close to this network interface",
        detail: "Examples: `0-7,16`, `ens1f0`. On a machine with several sockets, a thread far from the network card moves every byte more slowly. `--threads` then takes the first of these.",
    },
    Setting {
        name: "direct",
        scopes: &[Scope::Cp, Scope::Sync],
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_DIRECT",
        heading: Heading::Machine,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Bypass the page cache for large files at both ends (O_DIRECT)",
        detail: "Useful for fast storage, and if other programs need the cache. Parts that do not begin and end with a page, and files small enough to be bundled, still use the cache. On a file system without O_DIRECT, large files fail.",
    },
];
