//! Owns the addresses that a daemon or agent announces, so that a client finds more channels. Does not send them (`open`),
//! and announces none to peers that may not open a transfer.

use std::net::{IpAddr, SocketAddr};

use godwit_net::{InterfaceAddress, Stream, own_interfaces};
use godwit_proto::{ANNOUNCED_MAX, Announced};

/// Which of its addresses a daemon announces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Announce {
    /// All addresses on which the daemon listens, of all interfaces.
    #[default]
    All,
    /// No address: a client finds only the channel that it dialled.
    None,
    /// Only listening addresses that equal one of these or belong to one of these interfaces.
    Only(Vec<String>),
}

/// The addresses announced on a connection. Empty if there is one interface, because then there is one path.
pub(crate) fn announced(
    announce: &Announce,
    listening: &[SocketAddr],
    stream: &dyn Stream,
) -> Vec<Announced> {
    if *announce == Announce::None {
        return Vec::new();
    }
    let own = own_interfaces().unwrap_or_default();
    // An ssh connection has no known interface.
    let came_to = stream.pulse().map(|pulse| pulse.local().ip());
    choose(announce, listening, &own, came_to)
}

fn choose(
    announce: &Announce,
    listening: &[SocketAddr],
    own: &[InterfaceAddress],
    came_to: Option<IpAddr>,
) -> Vec<Announced> {
    let came_by = own.iter().find(|own| Some(own.address) == came_to);
    // A client that connected by loopback is on this machine, and needs no network.
    if came_to.is_some_and(|came_to| came_to.is_loopback()) {
        return Vec::new();
    }
    let chosen: Vec<Announced> = own
        .iter()
        .filter(|own| match announce {
            Announce::All => true,
            Announce::None => false,
            Announce::Only(wanted) => wanted
                .iter()
                .any(|wanted| *wanted == own.interface || wanted.parse() == Ok(own.address)),
        })
        .filter_map(|own| {
            let port = listening
                .iter()
                .find(|listening| takes(listening.ip(), own.address))?
                .port();
            Some(Announced {
                dialled: came_by.is_some_and(|came_by| came_by.index == own.index),
                ..Announced::new(own.address, own.prefix_bits, port, own.index)
            })
        })
        .take(ANNOUNCED_MAX)
        .collect();
    if chosen.iter().all(|chosen| chosen.dialled) {
        return Vec::new();
    }
    chosen
}

/// Whether a socket bound to one address accepts connections to the other.
fn takes(listening: IpAddr, address: IpAddr) -> bool {
    match listening {
        // Such a socket accepts both families, unless the system is configured otherwise; then the client's attempt fails
        // harmlessly.
        IpAddr::V6(any) if any.is_unspecified() => true,
        IpAddr::V4(any) if any.is_unspecified() => address.is_ipv4(),
        one => one == address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<InterfaceAddress> {
        [
            ("eth0", 2, "10.0.0.2"),
            ("eth1", 3, "10.0.1.2"),
            ("eth1", 3, "fd00:1::2"),
        ]
        .into_iter()
        .map(|(interface, index, address)| InterfaceAddress {
            interface: interface.to_owned(),
            index,
            address: address.parse().unwrap(),
            prefix_bits: 24,
        })
        .collect()
    }

    fn chosen(announce: &Announce, listening: &str, came_to: &str) -> Vec<String> {
        let listening = [listening.parse().unwrap()];
        choose(announce, &listening, &own(), came_to.parse().ok())
            .iter()
            .filter(|announced| !announced.dialled)
            .map(|announced| announced.parts().unwrap().0.to_string())
            .collect()
    }

    #[test]
    fn listening_addresses_are_announced_except_those_of_the_dialled_interface() {
        let all = Announce::All;
        assert_eq!(
            chosen(&all, "[::]:7272", "10.0.0.2"),
            ["10.0.1.2", "fd00:1::2"]
        );
        assert_eq!(chosen(&all, "[::]:7272", "fd00:1::2"), ["10.0.0.2"]);
        assert_eq!(chosen(&all, "0.0.0.0:7272", "10.0.0.2"), ["10.0.1.2"]);
        assert_eq!(chosen(&all, "10.0.0.2:7272", "10.0.0.2"), [""; 0]);
        assert_eq!(chosen(&all, "0.0.0.0:7272", "127.0.0.1"), [""; 0]);
        // A connection by ssh.
        assert_eq!(chosen(&all, "0.0.0.0:7272", ""), ["10.0.0.2", "10.0.1.2"]);
        // Behind network address translation, any of them may be another path.
        assert_eq!(
            chosen(&all, "0.0.0.0:7272", "192.0.2.1"),
            ["10.0.0.2", "10.0.1.2"]
        );
    }

    #[test]
    fn the_operator_chooses_what_is_announced() {
        let only =
            |words: &[&str]| Announce::Only(words.iter().map(|word| (*word).to_owned()).collect());
        let listening = "[::]:7272";
        assert_eq!(chosen(&Announce::None, listening, "10.0.0.2"), [""; 0]);
        assert_eq!(
            chosen(&only(&["fd00:1::2"]), listening, "10.0.0.2"),
            ["fd00:1::2"]
        );
        assert_eq!(
            chosen(&only(&["eth1"]), listening, "10.0.0.2"),
            ["10.0.1.2", "fd00:1::2"]
        );
        assert_eq!(chosen(&only(&["eth0"]), listening, "10.0.0.2"), [""; 0]);
    }
}
