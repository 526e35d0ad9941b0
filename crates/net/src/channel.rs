//! Owns a channel: one network path between two machines. Does not search for channels (`pairing`, `channels`), and does not connect
//! (`connect`).
//!
//! The client numbers channels; the connection that opens a transfer uses channel 0. Only sockets that dial are bound to a device.
//! Accepted sockets follow the kernel's routing, because a wrong guess would break a working path; `docs/guide.md` shows what the
//! administrator can set.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use godwit_sys::interfaces::{InterfaceAddress, bind_to_interface};

use crate::connect::connect_from;
use crate::pairing::shares_prefix;

/// One network path: a local address and a remote address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The local end; `None` leaves the choice to the kernel.
    pub local: Option<LocalEnd>,
    /// The remote address.
    pub remote: SocketAddr,
}

/// The local end of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalEnd {
    /// The source address of packets.
    pub address: IpAddr,
    /// The interface of outgoing packets; `None` leaves the choice to the routing.
    pub interface: Option<String>,
}

impl From<&InterfaceAddress> for LocalEnd {
    fn from(own: &InterfaceAddress) -> Self {
        Self {
            address: own.address,
            interface: Some(own.interface.clone()),
        }
    }
}

impl fmt::Display for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{interface} ({})", self.address),
            None => self.address.fmt(f),
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.local {
            Some(local) => write!(f, "{local} to {}", self.remote.ip()),
            None => write!(f, "to {}", self.remote.ip()),
        }
    }
}

/// How the interface of outgoing packets is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavesBy {
    /// The socket is bound to the interface by name.
    Interface,
    /// Routing chooses by the addresses, because the kernel does not let this user bind to an interface.
    Routing,
}

impl Channel {
    /// Whether routing chooses the channel's interface without a binding: no other interface is in the remote end's network.
    pub fn is_routed(&self, own: &[InterfaceAddress]) -> bool {
        let interface = self
            .local
            .as_ref()
            .and_then(|local| local.interface.as_ref());
        let Some(interface) = interface else {
            return true;
        };
        let mut in_network = own
            .iter()
            .filter(|own| shares_prefix(own.address, self.remote.ip(), own.prefix_bits))
            .map(|own| &own.interface)
            .peekable();
        in_network.peek().is_some() && in_network.all(|other| other == interface)
    }

    /// Connects over the channel, and returns how its interface is chosen.
    ///
    /// # Errors
    /// The kernel's error: the address or interface does not exist, or nothing answers.
    pub fn connect(&self, deadline: Duration) -> io::Result<(TcpStream, LeavesBy)> {
        connect_from(self.local.as_ref(), self.remote, deadline)
    }
}

/// Whether the kernel lets this user bind a connection to an interface.
pub fn may_bind_to_interface(socket: impl AsFd, interface: &str) -> bool {
    bind_to_interface(socket, interface).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn from(address: &str, interface: Option<&str>, remote: SocketAddr) -> Channel {
        Channel {
            local: Some(LocalEnd {
                address: address.parse().unwrap(),
                interface: interface.map(str::to_owned),
            }),
            remote,
        }
    }

    #[test]
    fn a_connection_leaves_with_the_address_and_by_the_interface_of_its_channel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        for interface in [None, Some("lo")] {
            let channel = from("127.0.0.3", interface, remote);
            let (near, leaves_by) = channel.connect(Duration::from_secs(10)).unwrap();
            assert_eq!(leaves_by == LeavesBy::Interface, interface.is_some());
            let (_, seen) = listener.accept().unwrap();
            assert_eq!(seen, near.local_addr().unwrap());
            assert_eq!(seen.ip(), "127.0.0.3".parse::<IpAddr>().unwrap());
        }
    }

    #[test]
    fn a_missing_interface_address_or_peer_fails_at_once() {
        let remote = "127.0.0.1:1".parse().unwrap();
        let refused = |channel: Channel| channel.connect(Duration::from_secs(60)).unwrap_err();
        refused(from("127.0.0.1", Some("none-such"), remote));
        refused(from("192.0.2.1", None, remote));
        let nobody = refused(from("127.0.0.1", None, remote));
        assert_eq!(nobody.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn channels_have_names_for_people() {
        let channel = from("192.0.2.1", Some("eth1"), "192.0.2.2:7272".parse().unwrap());
        assert_eq!(channel.to_string(), "eth1 (192.0.2.1) to 192.0.2.2");
    }
}
