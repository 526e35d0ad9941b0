//! Owns which addresses webhooks may be sent to: those of the Internet, and the networks that the operator allows.
//! Connects to no receiver.
//!
//! A user chooses a webhook's address. A node that sent to any address would expose what only the node can reach: services of its machine,
//! and of the site's network (server-side request forgery). Each address that a name resolves to is judged, and the connection is made to
//! the judged address. A name that resolves differently a moment later gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// A network: all addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Why a text is no network.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("not a network; write a network such as 10.0.0.0/8, fd00::/8 or 192.0.2.7")]
pub struct NetworkError;

impl Network {
    const fn v4(a: u8, b: u8, c: u8, bits: u8) -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)),
            bits,
        }
    }

    const fn v6(first: u16, second: u16, bits: u8) -> Self {
        Self {
            address: IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)),
            bits,
        }
    }

    fn holds(self, address: IpAddr) -> bool {
        let (own, other, width) = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let rest: u32 = width - u32::from(self.bits);
        // A shift by all 128 bits leaves nothing to compare.
        u128::checked_shr(own ^ other, rest).is_none_or(|differing| differing == 0)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(NetworkError);
        };
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::parse::<u8>) {
            None => width,
            Some(Ok(bits)) if bits <= width => bits,
            Some(_) => return Err(NetworkError),
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

/// Networks of IPv4 that are not the public Internet: IANA's registry of special-purpose addresses, and multicast.
const SPECIAL_V4: [Network; 16] = [
    Network::v4(0, 0, 0, 8),
    Network::v4(10, 0, 0, 8),
    Network::v4(100, 64, 0, 10),
    Network::v4(127, 0, 0, 8),
    Network::v4(169, 254, 0, 16),
    Network::v4(172, 16, 0, 12),
    Network::v4(192, 0, 0, 24),
    Network::v4(192, 0, 2, 24),
    Network::v4(192, 88, 99, 24),
    Network::v4(192, 168, 0, 16),
    Network::v4(198, 18, 0, 15),
    Network::v4(198, 51, 100, 24),
    Network::v4(203, 0, 113, 24),
    Network::v4(224, 0, 0, 4),
    Network::v4(240, 0, 0, 4),
    Network::v4(255, 255, 255, 24),
];

/// The public Internet of IPv6, with the exceptions of [`SPECIAL_V6`].
const PUBLIC_V6: Network = Network::v6(0x2000, 0, 3);

/// Parts of [`PUBLIC_V6`] that are not public: Teredo and protocol assignments, documentation, and 6to4, which holds an IPv4 address.
const SPECIAL_V6: [Network; 4] = [
    Network::v6(0x2001, 0, 23),
    Network::v6(0x2001, 0xdb8, 32),
    Network::v6(0x2002, 0, 16),
    Network::v6(0x3fff, 0, 20),
];

/// Whether a webhook may be sent to this address.
pub(crate) fn may_reach(address: IpAddr, allowed: &[Network]) -> bool {
    let address = address.to_canonical();
    if allowed.iter().any(|network| network.holds(address)) {
        return true;
    }
    let among = |networks: &[Network]| networks.iter().any(|network| network.holds(address));
    match address {
        IpAddr::V4(_) => !among(&SPECIAL_V4),
        IpAddr::V6(_) => PUBLIC_V6.holds(address) && !among(&SPECIAL_V6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(address: &str, allowed: &[&str]) -> bool {
        let allowed: Vec<Network> = allowed
            .iter()
            .map(|text| text.parse().expect("a network"))
            .collect();
        may_reach(address.parse().expect("an address"), &allowed)
    }

    #[test]
    fn only_addresses_of_the_internet_are_reached() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!reaches(address, &[]), "{address}");
        }
        for address in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:4860::1",
            "2606:4700::1",
            "::ffff:1.1.1.1",
        ] {
            assert!(reaches(address, &[]), "{address}");
        }
    }

    #[test]
    fn the_operator_allows_networks() {
        assert!(reaches("10.1.2.3", &["10.1.0.0/16"]));
        assert!(!reaches("10.2.2.3", &["10.1.0.0/16"]));
        assert!(reaches("127.0.0.1", &["127.0.0.1"]));
        assert!(reaches("::ffff:127.0.0.1", &["127.0.0.1"]));
        assert!(!reaches("127.0.0.2", &["127.0.0.1"]));
        assert!(reaches("10.9.9.9", &["0.0.0.0/0"]));
        assert!(reaches("fd00::9", &["::/0"]));
        assert!(!reaches("10.9.9.9", &["::/0"]));
        assert!(reaches("fd00::9", &["fc00::/7"]));
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "host", "10/8"] {
            assert_eq!(wrong.parse::<Network>(), Err(NetworkError), "{wrong}");
        }
    }
}
