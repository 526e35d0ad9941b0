//! Chooses which interfaces of two machines are tried as channels, from addresses alone. Opens no connections.
//!
//! Interfaces that share a network are paired first, then the i-th with the i-th, each interface once. Two addresses of one pair
//! are two tries of one channel.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use godwit_sys::interfaces::InterfaceAddress;

use crate::channel::{Channel, LocalEnd};

/// An address that the other side announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TheirAddress {
    /// The address on which the other side accepts connections.
    pub address: SocketAddr,
    /// Length of the network prefix that all addresses of its network share.
    pub prefix_bits: u8,
    /// Number of the other side's interface, the same for all its addresses.
    pub interface: u32,
    /// Whether the client dialled this interface, which therefore already has a channel.
    pub dialled: bool,
}

/// Two interfaces and the paths between them, which are tried one after another until one works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Number of our interface.
    pub(crate) own: u32,
    /// Number of the other side's interface.
    pub(crate) their: u32,
    pub(crate) ways: Vec<Channel>,
}

/// The interfaces that have no channel yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairing {
    own: BTreeMap<u32, Vec<InterfaceAddress>>,
    /// The other side's interfaces, in the order in which they were announced.
    their: Vec<(u32, Vec<TheirAddress>)>,
}

impl Pairing {
    /// All interfaces of both sides. An address that both sides have is left out, because it leads back to this machine.
    pub(crate) fn new(own: &[InterfaceAddress], their: &[TheirAddress]) -> Self {
        let mut pairing = Self::default();
        for address in own {
            let interface = pairing.own.entry(address.index).or_default();
            interface.push(address.clone());
        }
        for announced in their {
            let ip = announced.address.ip();
            if announced.dialled || ip.is_loopback() || own.iter().any(|own| own.address == ip) {
                continue;
            }
            match pairing
                .their
                .iter_mut()
                .find(|(interface, _)| *interface == announced.interface)
            {
                Some((_, addresses)) => addresses.push(announced.clone()),
                None => pairing
                    .their
                    .push((announced.interface, vec![announced.clone()])),
            }
        }
        pairing
    }

    /// Records that the interfaces of these addresses have a channel.
    pub(crate) fn take_addresses(&mut self, local: IpAddr, remote: IpAddr) {
        self.own
            .retain(|_, addresses| addresses.iter().all(|own| own.address != local));
        self.their
            .retain(|(_, addresses)| addresses.iter().all(|their| their.address.ip() != remote));
    }

    /// Records that the interfaces of this pair have a channel.
    pub(crate) fn take(&mut self, pair: &Pair) {
        self.own.remove(&pair.own);
        self.their.retain(|(number, _)| *number != pair.their);
    }

    /// Maximum number of possible pairs.
    pub(crate) fn room(&self) -> usize {
        self.own.len().min(self.their.len())
    }

    /// Whether an interface of the other side has no channel. A new interface of this machine could reach it.
    pub(crate) fn has_unpaired_remote(&self) -> bool {
        !self.their.is_empty()
    }

    /// Number of different rounds of [`Self::far`].
    pub(crate) fn rounds(&self) -> usize {
        self.own.len().max(self.their.len())
    }

    /// Pairs of interfaces that share a network, each interface once.
    pub(crate) fn near(&self) -> Vec<Pair> {
        let mut taken: Vec<u32> = Vec::new();
        let mut pairs = Vec::new();
        for (own, addresses) in &self.own {
            let found = self
                .their
                .iter()
                .filter(|(number, _)| !taken.contains(number))
                .find_map(|(number, theirs)| {
                    let ways = ways(addresses, theirs, same_network);
                    (!ways.is_empty()).then_some((*number, ways))
                });
            if let Some((their, ways)) = found {
                taken.push(their);
                pairs.push(Pair {
                    own: *own,
                    their,
                    ways,
                });
            }
        }
        pairs
    }

    /// Pairs of interfaces that share no network: in round 0 the i-th with the i-th, in round 1 the i-th with the next, and so
    /// on.
    pub(crate) fn far(&self, round: usize) -> Vec<Pair> {
        let (own_count, their_count) = (self.own.len(), self.their.len());
        let places = own_count.max(their_count);
        let mut pairs = Vec::new();
        for (at, (own, addresses)) in self.own.iter().enumerate() {
            let Some((their, theirs)) = self.their.get((at + round) % places) else {
                continue;
            };
            let ways = ways(addresses, theirs, |_, _| true);
            if !ways.is_empty() {
                pairs.push(Pair {
                    own: *own,
                    their: *their,
                    ways,
                });
            }
        }
        pairs
    }
}

/// One path for each family, IPv4 first.
fn ways(
    own: &[InterfaceAddress],
    theirs: &[TheirAddress],
    fits: impl Fn(&InterfaceAddress, &TheirAddress) -> bool,
) -> Vec<Channel> {
    let of_family = |v4: bool| {
        own.iter()
            .filter(|own| own.address.is_ipv4() == v4)
            .find_map(|own| {
                let their = theirs
                    .iter()
                    .find(|their| their.address.is_ipv4() == v4 && fits(own, their))?;
                Some(Channel {
                    local: Some(LocalEnd::from(own)),
                    remote: their.address,
                })
            })
    };
    [true, false].into_iter().filter_map(of_family).collect()
}

/// Whether each address lies in the network of the other.
pub(crate) fn same_network(own: &InterfaceAddress, their: &TheirAddress) -> bool {
    own.prefix_bits == their.prefix_bits
        && shares_prefix(own.address, their.address.ip(), own.prefix_bits)
}

/// Whether two addresses have the first `bits` in common.
pub(crate) fn shares_prefix(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let common = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u32::from(one) ^ u32::from(other)).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (u128::from(one) ^ u128::from(other)).leading_zeros()
        }
        _ => return false,
    };
    common >= u32::from(bits)
}

#[cfg(test)]
mod tests;
