//! The rows of the settings of a node that nobody needs for a copy: its configuration, its API, its log.
//! Part of the one table.

use std::time::Duration;

use crate::settings::table::{Heading, Kind, ObeyedBy, Scope, Setting};

const SERVE: &[Scope] = &[Scope::Serve];

/// Those rows.
pub(super) const SERVING: &[Setting] = &[
    Setting {
        name: "config",
        scopes: SERVE,
        kind: Kind::Text { form: "FILE" },
        default: "",
        variable: "GODWIT_CONFIG",
        heading: Heading::General,
        obeyed_by: ObeyedBy::Here,
        help: "The settings file, instead of config.toml in GODWIT_HOME",
        detail: "It must exist. `godwit config check FILE` reads it, says all that is wrong with it, and starts nothing.",
    },
    Setting {
        name: "manage",
        scopes: SERVE,
        kind: Kind::List {
            form: "ADDRESS[:PORT]",
        },
        default: "",
        variable: "GODWIT_MANAGE",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        help: "Serve API and page at this address only, and not on the data port (repeatable)",
        detail: "For a network of the operators, or `127.0.0.1:7273` behind a proxy. The Unix socket stays.",
    },
    Setting {
        name: "socket",
        scopes: SERVE,
        kind: Kind::Text { form: "PATH" },
        default: "",
        variable: "GODWIT_SOCKET",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Here,
        help: "The Unix socket of the API, instead of run/node.sock in GODWIT_HOME",
        detail: "Users of the machine reach the node by it, so what leads to it must be open to them; the kernel says who calls. Commands look \
                 for the socket in GODWIT_HOME and at `/run/godwit/node.sock`.",
    },
    Setting {
        name: "certificate",
        scopes: SERVE,
        kind: Kind::Text { form: "FILE" },
        default: "",
        variable: "GODWIT_CERTIFICATE",
        heading: Heading::Safety,
        obeyed_by: ObeyedBy::Here,
        help: "The certificate chain of API and page, in PEM, the node's own first",
        detail: "Without one the node makes a certificate for itself, and prints its fingerprint. Changed files are read again by themselves, \
                 and certificates that cannot be used leave the old one in force.",
    },
    Setting {
        name: "certificate-key",
        scopes: SERVE,
        kind: Kind::Text { form: "FILE" },
        default: "",
        variable: "GODWIT_CERTIFICATE_KEY",
        heading: Heading::Safety,
        obeyed_by: ObeyedBy::Here,
        help: "The key of --certificate, in PEM",
        detail: "",
    },
    Setting {
        name: "certificate-name",
        scopes: SERVE,
        kind: Kind::List {
            form: "NAME|ADDRESS",
        },
        default: "",
        variable: "GODWIT_CERTIFICATE_NAME",
        heading: Heading::Safety,
        obeyed_by: ObeyedBy::Here,
        help: "A further name of the certificate that the node makes for itself (repeatable)",
        detail: "It has the name of the machine and those of loopback in any case. A certificate that lacks a name is made anew.",
    },
    Setting {
        name: "log-format",
        scopes: SERVE,
        kind: Kind::Choice(&["text", "json"]),
        default: "text",
        variable: "GODWIT_LOG_FORMAT",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        help: "The form of the node's log on standard error",
        detail: "Each line has a time and a level; lines about transfers have identity or user, direction, export and path in fields of their own.",
    },
    Setting {
        name: "log-level",
        scopes: SERVE,
        kind: Kind::Choice(&["error", "warn", "info", "debug"]),
        default: "info",
        variable: "GODWIT_LOG_LEVEL",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        help: "The least that a line of the node's log must be to be written",
        detail: "Refusals and failed transfers are `warn`; beginnings and other ends of transfers are `info`.",
    },
    Setting {
        name: "keep-accounting",
        scopes: SERVE,
        kind: Kind::Duration {
            min: Duration::from_secs(86_400),
            max: Duration::from_secs(10 * 365 * 86_400),
        },
        default: "365d",
        variable: "GODWIT_KEEP_ACCOUNTING",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        help: "Keep the records of transfers for this long",
        detail: "One line of JSON for each transfer that ended, in a file a day below `accounting/` in GODWIT_HOME; `godwit accounting` lists them.",
    },
    Setting {
        name: "graphite",
        scopes: SERVE,
        kind: Kind::Text { form: "HOST:PORT" },
        default: "",
        variable: "GODWIT_GRAPHITE",
        heading: Heading::Reports,
        obeyed_by: ObeyedBy::Here,
        help: "Send the figures of /metrics to Graphite, every 10 s",
        detail: "In the plain text protocol, as `godwit.HOST.NAME.LABEL.VALUE`. A receiver that is away or slow holds nothing up.",
    },
];
