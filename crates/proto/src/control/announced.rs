//! Owns an address that one side announces, so that the other side finds more channels to it. Knows
//! no interfaces. `docs/wire.md`, "Channels".

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use prost::Message;

use crate::error::WireError;
use crate::limits::ANNOUNCED_MAX;

/// An address at which a side accepts connections of the transfer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Announced {
    /// 4 or 16 bytes, as in packets.
    #[prost(bytes = "vec", tag = "1")]
    pub ip: Vec<u8>,
    /// Length of the network prefix that all addresses of its network share.
    #[prost(uint32, tag = "2")]
    pub prefix_bits: u32,
    /// The TCP port.
    #[prost(uint32, tag = "3")]
    pub port: u32,
    /// Number of the interface: the same for all its addresses, and different for other interfaces.
    #[prost(uint32, tag = "4")]
    pub interface: u32,
    /// The connection that carries this message arrived at this interface.
    #[prost(bool, tag = "5")]
    pub dialled: bool,
}

impl Announced {
    /// Makes an announced address from its parts.
    pub fn new(ip: IpAddr, prefix_bits: u8, port: u16, interface: u32) -> Self {
        let ip = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        Self {
            ip,
            prefix_bits: prefix_bits.into(),
            port: port.into(),
            interface,
            dialled: false,
        }
    }

    /// The address, the length of its network prefix, and the port.
    ///
    /// # Errors
    /// One of them is invalid; impossible after decoding.
    pub fn parts(&self) -> Result<(IpAddr, u8, u16), WireError> {
        let ip = if let Ok(octets) = <[u8; 4]>::try_from(self.ip.as_slice()) {
            IpAddr::V4(Ipv4Addr::from(octets))
        } else if let Ok(octets) = <[u8; 16]>::try_from(self.ip.as_slice()) {
            IpAddr::V6(Ipv6Addr::from(octets))
        } else {
            return Err(WireError::invalid("address", "has neither 4 nor 16 bytes"));
        };
        let bits = self.ip.len() * 8;
        let prefix_bits = u8::try_from(self.prefix_bits)
            .ok()
            .filter(|prefix| usize::from(*prefix) <= bits)
            .ok_or_else(|| WireError::invalid("prefix", "is longer than its address"))?;
        let port = u16::try_from(self.port)
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| WireError::invalid("port", "is not from 1 to 65535"))?;
        Ok((ip, prefix_bits, port))
    }
}

/// Checks a list of announced addresses.
pub(crate) fn check_announced(addresses: &[Announced]) -> Result<(), WireError> {
    if addresses.len() > ANNOUNCED_MAX {
        return Err(WireError::too_long(
            "list of addresses",
            ANNOUNCED_MAX as u64,
        ));
    }
    addresses
        .iter()
        .try_for_each(|address| address.parts().map(drop))
}
