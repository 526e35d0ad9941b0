//! The rows of the settings about sharing the network and the machine with others, and their typed values.
//! Measures nothing.

use super::resolve::Values;
use super::table::{AppliesTo, Heading, Kind, ObeyedBy, Scope, Setting};

const CP: &[Scope] = &[Scope::Cp, Scope::Sync];

/// Rows of the table.
pub(super) const SHARING: &[Setting] = &[
    Setting {
        name: "priority",
        scopes: CP,
        kind: Kind::Choice(&["normal", "background"]),
        default: "normal",
        variable: "GODWIT_PRIORITY",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "Whether to take a fair share of the network, or only spare capacity",
        detail: "`background` yields to all other traffic, and to other programs at processors and disks. It slows down as soon as packets are delayed or lost, with any congestion control, and marks its packets with the code point LE. Through ssh itself (`--via-ssh`) it yields only at processors and disks.",
    },
    Setting {
        name: "congestion",
        scopes: CP,
        kind: Kind::Text { form: "NAME" },
        default: "",
        variable: "GODWIT_CONGESTION",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Sender,
        applies_to: AppliesTo::Jobs,
        help: "The congestion control of the sending connections, such as bbr or cubic",
        detail: "The setting applies on the sending machine, this one or the other. Without this setting, that machine's default applies, but cubic or reno replaces BBR if the RTT is below 1 ms. If the sending machine's kernel lacks or forbids the algorithm, nothing is sent, and the message lists net.ipv4.tcp_allowed_congestion_control.",
    },
];

/// Behaviour of a transfer towards others.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SharingSettings {
    /// The transfer yields to all other traffic and programs.
    pub background: bool,
    /// Name of a congestion control. Empty selects the default of the sending end.
    pub congestion: String,
}

impl SharingSettings {
    pub(super) fn from_values(values: &Values) -> Self {
        Self {
            background: values.choice("priority") == "background",
            congestion: values.text("congestion").to_string_lossy().into_owned(),
        }
    }
}
