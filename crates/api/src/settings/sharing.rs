//! The rows of the settings about sharing the network and the machine with others, and their typed values.
//! Measures nothing.

use super::resolve::Values;
use super::table::{GivenIn, Heading, Kind, ObeyedBy, Scope, Setting};

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
        given_in: GivenIn::Jobs,
        help: "Whether it takes its share of the network, or what nobody else wants",
        detail: "`background` yields to all other traffic, and to other programs at processors and disks: it goes slower as soon as packets are \
                 delayed or lost, whatever the congestion control, and marks its packets with the code point LE. Through ssh itself \
                 (`--via-ssh`) it yields only at processors and disks.",
    },
    Setting {
        name: "congestion",
        scopes: CP,
        kind: Kind::Text { form: "NAME" },
        default: "",
        variable: "GODWIT_CONGESTION",
        heading: Heading::Network,
        obeyed_by: ObeyedBy::Sender,
        given_in: GivenIn::Jobs,
        help: "The congestion control of the connections that send contents, as in bbr or cubic",
        detail: "On the machine that sends, here or there; without it, its own default, but cubic or reno instead of BBR where the round trip is below 1 ms. Where its kernel does not have or allow it, nothing is sent: \
                 the message says what net.ipv4.tcp_allowed_congestion_control lists.",
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
