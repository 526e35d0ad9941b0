//! Interprets `--channel LOCAL[=REMOTE]` on this machine: a local end by name or address, and a remote address. Connects
//! to nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use godwit_sys::interfaces::InterfaceAddress;
use thiserror::Error;

use crate::channel::{Channel, LocalEnd};
use crate::pairing::{TheirAddress, same_network, shares_prefix};

/// A channel that the user requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelWish {
    text: String,
    local: WishedLocal,
    remote: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WishedLocal {
    Address(IpAddr),
    Interface(String),
}

/// A wish that is malformed, or cannot be fulfilled here.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("--channel {wish}: {what}")]
pub struct ChannelWishError {
    wish: String,
    what: String,
}

impl FromStr for ChannelWish {
    type Err = ChannelWishError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |what: &str| ChannelWishError {
            wish: text.to_owned(),
            what: what.to_owned(),
        };
        let (local, remote) = match text.split_once('=') {
            Some((local, remote)) => (local, Some(remote)),
            None => (text, None),
        };
        let remote = remote
            .map(|remote| {
                parse_address(remote).ok_or_else(|| error("the part after = is not an IP address"))
            })
            .transpose()?;
        let local = match parse_address(local) {
            Some(address) => WishedLocal::Address(address),
            None if is_interface_name(local) => WishedLocal::Interface(local.to_owned()),
            None => {
                return Err(error(
                    "write LOCAL or LOCAL=REMOTE; LOCAL is an address or an interface of this machine, REMOTE an address of the other",
                ));
            }
        };
        if let (WishedLocal::Address(local), Some(remote)) = (&local, remote)
            && local.is_ipv4() != remote.is_ipv4()
        {
            return Err(error("one address is IPv4 and the other is IPv6"));
        }
        Ok(Self {
            text: text.to_owned(),
            local,
            remote,
        })
    }
}

impl fmt::Display for ChannelWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ChannelWish {
    /// The remote address, if the user named one.
    pub fn remote(&self) -> Option<IpAddr> {
        self.remote
    }

    /// Whether `remote` is in the network of the local end.
    pub fn is_near(&self, own: &[InterfaceAddress], remote: IpAddr) -> bool {
        own.iter()
            .filter(|own| self.is_of(own))
            .any(|own| shares_prefix(own.address, remote, own.prefix_bits))
    }

    /// The announced address of the other side that shares a network with the local end.
    pub fn neighbour(
        &self,
        own: &[InterfaceAddress],
        their: &[TheirAddress],
    ) -> Option<SocketAddr> {
        let ends: Vec<&InterfaceAddress> = own.iter().filter(|own| self.is_of(own)).collect();
        their
            .iter()
            .find(|their| ends.iter().any(|own| same_network(own, their)))
            .map(|their| their.address)
    }

    /// The channel from its local end to `remote`.
    ///
    /// # Errors
    /// This machine has no such address or interface, or the interface has no address of the remote's family.
    pub fn to(
        &self,
        own: &[InterfaceAddress],
        remote: SocketAddr,
    ) -> Result<Channel, ChannelWishError> {
        let local = match &self.local {
            WishedLocal::Address(address) if address.is_ipv4() != remote.is_ipv4() => {
                return Err(self.error(format!(
                    "{} cannot be reached from {address}: one address is IPv4 and the other is IPv6; name an address of the other machine: {}=ADDRESS",
                    remote.ip(), self.text
                )));
            }
            // For addresses without an interface, such as loopback addresses, routing chooses.
            WishedLocal::Address(address) => LocalEnd {
                address: *address,
                interface: own
                    .iter()
                    .find(|own| self.is_of(own))
                    .map(|own| own.interface.clone()),
            },
            WishedLocal::Interface(name) => {
                let mut of_interface = own.iter().filter(|own| self.is_of(own)).peekable();
                if of_interface.peek().is_none() {
                    return Err(self.error(format!(
                        "this machine has no interface {name} that is up and has an address; its interfaces: {}",
                        listed(own)
                    )));
                }
                of_interface
                    .find(|own| own.address.is_ipv4() == remote.is_ipv4())
                    .map(LocalEnd::from)
                    .ok_or_else(|| {
                        self.error(format!(
                            "{name} has no address of the same IP version as {}; name an address of the other machine: {name}=ADDRESS",
                            remote.ip()
                        ))
                    })?
            }
        };
        Ok(Channel {
            local: Some(local),
            remote,
        })
    }

    /// The error that this wish cannot be fulfilled, and why.
    pub fn error(&self, what: impl Into<String>) -> ChannelWishError {
        ChannelWishError {
            wish: self.text.clone(),
            what: what.into(),
        }
    }

    /// Whether the user named an address and not an interface; routing may then choose the interface.
    pub fn is_address(&self) -> bool {
        matches!(self.local, WishedLocal::Address(_))
    }

    fn is_of(&self, own: &InterfaceAddress) -> bool {
        match &self.local {
            WishedLocal::Address(address) => own.address == *address,
            WishedLocal::Interface(name) => own.interface == *name,
        }
    }
}

fn listed(own: &[InterfaceAddress]) -> String {
    let mut names: Vec<&str> = own.iter().map(|own| own.interface.as_str()).collect();
    names.dedup();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Brackets around an IPv6 address are allowed, because they are usual before a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    bare.parse().ok()
}

/// Whether the kernel accepts the text as the name of an interface.
fn is_interface_name(text: &str) -> bool {
    (1..16).contains(&text.len())
        && text != "."
        && text != ".."
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"/:=,".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<InterfaceAddress> {
        [
            ("eth0", 2, "10.0.0.1"),
            ("eth1", 3, "10.0.1.1"),
            ("eth1", 3, "fd00:1::1"),
        ]
        .into_iter()
        .map(|(interface, index, address)| InterfaceAddress {
            interface: interface.to_owned(),
            index,
            address: address.parse().unwrap(),
            prefix_bits: if address.contains(':') { 64 } else { 24 },
        })
        .collect()
    }

    fn wish(text: &str) -> ChannelWish {
        text.parse().unwrap()
    }

    fn to(text: &str, remote: &str) -> Result<String, String> {
        wish(text)
            .to(&own(), SocketAddr::new(remote.parse().unwrap(), 1))
            .map(|channel| channel.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_local_end_is_an_address_or_an_interface() {
        assert_eq!(
            to("eth1", "10.0.1.2").unwrap(),
            "eth1 (10.0.1.1) to 10.0.1.2"
        );
        assert_eq!(
            to("eth1", "fd00:1::2").unwrap(),
            "eth1 (fd00:1::1) to fd00:1::2"
        );
        assert_eq!(
            to("10.0.1.1", "10.0.1.2").unwrap(),
            "eth1 (10.0.1.1) to 10.0.1.2"
        );
        assert_eq!(
            to("127.0.0.2", "127.0.0.1").unwrap(),
            "127.0.0.2 to 127.0.0.1"
        );
        assert_eq!(
            wish("[fd00:1::1]=[fd00:1::2]").remote(),
            "fd00:1::2".parse().ok()
        );
    }

    #[test]
    fn an_impossible_channel_is_refused_by_its_name() {
        let missing = to("eth9", "10.0.1.2").unwrap_err();
        assert!(
            missing.starts_with("--channel eth9: ")
                && missing.ends_with("its interfaces: eth0, eth1"),
            "{missing}"
        );
        assert!(
            to("eth0", "fd00:1::2")
                .unwrap_err()
                .contains("eth0=ADDRESS")
        );
        assert!(to("10.0.0.1", "fd00:1::2").is_err());
        for text in [
            "",
            "=10.0.0.1",
            "eth0=",
            "eth0=there",
            "10.0.0.1=fd00::1",
            "a b",
            "much-too-long-for-one",
        ] {
            assert!(text.parse::<ChannelWish>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_neighbour_is_in_the_same_network() {
        let their = ["10.0.0.2", "10.0.1.2"].map(|address| TheirAddress {
            address: SocketAddr::new(address.parse().unwrap(), 7),
            prefix_bits: 24,
            interface: 1,
            dialled: false,
        });
        let found = |text: &str| wish(text).neighbour(&own(), &their);
        assert_eq!(found("eth1"), "10.0.1.2:7".parse().ok());
        assert_eq!(found("10.0.0.1"), "10.0.0.2:7".parse().ok());
        assert_eq!(found("fd00:1::1"), None);
    }
}
