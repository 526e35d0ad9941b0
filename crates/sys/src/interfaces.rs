//! Owns queries about this machine's interfaces and addresses, and the binding of a socket to an interface. Does not decide which
//! addresses others can reach.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The name of the interface; bytes that are not valid text are replaced.
    pub interface: String,
    /// The interface's number, the same for all its addresses.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits that all addresses of its network have in common.
    pub prefix_bits: u8,
}

/// The addresses of all interfaces that are up, without loopback and IPv6 link-local addresses.
///
/// # Errors
/// The kernel's error.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    each(|entry, address| {
        let up = entry.ifa_flags & UP != 0 && entry.ifa_flags & LOOPBACK == 0;
        if up && !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
            found.push(address);
        }
    })?;
    Ok(found)
}

/// The addresses of all interfaces that are up and have a carrier, in the order of the interface numbers; without loopback and
/// link-local addresses.
///
/// # Errors
/// The kernel's error.
pub fn interfaces() -> io::Result<Vec<InterfaceAddress>> {
    let mut found: Vec<InterfaceAddress> = Vec::new();
    each(|entry, address| {
        let wanted = entry.ifa_flags & (UP | RUNNING | LOOPBACK) == UP | RUNNING;
        let link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        if !wanted || link_local || address.is_loopback() {
            return;
        }
        let (Some((interface, index)), Some(prefix_bits)) = (name(entry), prefix(entry)) else {
            return;
        };
        found.push(InterfaceAddress {
            interface,
            index,
            address,
            prefix_bits,
        });
    })?;
    found.sort_by_key(|address| address.index);
    Ok(found)
}

/// Restricts `socket` to this interface for sending and receiving. Without privileges Linux allows this from version 5.7 on, and
/// only if the socket is not bound yet.
///
/// # Errors
/// `PermissionDenied` if it is not allowed, `NotFound` or a similar error if there is no such interface.
#[expect(unsafe_code, reason = "setsockopt, for which rustix has no form")]
pub fn bind_to_interface(socket: impl AsFd, interface: &str) -> io::Result<()> {
    let length = libc::socklen_t::try_from(interface.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `length` bytes of the name, which lives until the call is over.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            interface.as_ptr().cast(),
            length,
        )
    };
    crate::check(answer)
}

/// Lets a socket be bound to an address without a port: the kernel chooses the port when the peer is known.
///
/// # Errors
/// The kernel's error.
pub fn bind_without_port(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Sets the largest number of unsent bytes in a TCP socket; a blocked sender then wakes late rather than early.
///
/// # Errors
/// Fails with the kernel's error.
pub fn set_unsent_max(socket: impl AsFd, bytes: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

#[expect(unsafe_code, reason = "setsockopt, for which rustix has no form")]
fn set(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<i32>()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads one integer, which lives until the call is over.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            length,
        )
    };
    crate::check(answer)
}

/// Calls `act` for each address.
#[expect(unsafe_code, reason = "getifaddrs, for which rustix has no form")]
fn each(mut act: impl FnMut(&libc::ifaddrs, IpAddr)) -> io::Result<()> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes one pointer, to the given address.
    crate::check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let list = List(first);
    let mut next = NonNull::new(list.0);
    while let Some(entry) = next {
        // SAFETY: an entry of the list lives until the list is dropped, and no other code changes it.
        let entry = unsafe { entry.as_ref() };
        next = NonNull::new(entry.ifa_next);
        let address = NonNull::new(entry.ifa_addr)
            // SAFETY: the address belongs to an entry of the list, and has the length of its family.
            .and_then(|address| unsafe { read(address) });
        if let Some(address) = address {
            act(entry, address);
        }
    }
    Ok(())
}

/// The interface's name and number.
#[expect(unsafe_code, reason = "a name that the C library gave")]
fn name(entry: &libc::ifaddrs) -> Option<(String, u32)> {
    let name = NonNull::new(entry.ifa_name)?;
    // SAFETY: every entry of the list has a name that ends with a zero byte, and lives as long as the entry.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    // SAFETY: the call only reads the name.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index > 0).then(|| (name.to_string_lossy().into_owned(), index))
}

#[expect(unsafe_code, reason = "an address is read by its family")]
fn prefix(entry: &libc::ifaddrs) -> Option<u8> {
    let mask = NonNull::new(entry.ifa_netmask)?;
    // SAFETY: the mask belongs to an entry of the list, and has the length of its family.
    let ones = match unsafe { read(mask) }? {
        IpAddr::V4(mask) => u32::from(mask).leading_ones(),
        IpAddr::V6(mask) => u128::from(mask).leading_ones(),
    };
    u8::try_from(ones).ok()
}

/// # Safety
/// The address must come from `getifaddrs`, with the length of its family.
#[expect(unsafe_code, reason = "an address is read by its family")]
unsafe fn read(address: NonNull<libc::sockaddr>) -> Option<IpAddr> {
    // SAFETY: every address has a family.
    let family = unsafe { address.as_ref() }.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family determines the type; the read is unaligned because the kernel guarantees no alignment.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

struct List(*mut libc::ifaddrs);

impl Drop for List {
    #[expect(unsafe_code, reason = "freeifaddrs")]
    fn drop(&mut self) {
        // SAFETY: the list comes from getifaddrs, and is freed once.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

const UP: u32 = libc::IFF_UP as u32;
const RUNNING: u32 = libc::IFF_RUNNING as u32;
const LOOPBACK: u32 = libc::IFF_LOOPBACK as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_loopback_and_each_can_be_bound() {
        for address in addresses().expect("known") {
            assert!(!address.is_loopback(), "{address}");
            std::net::UdpSocket::bind((address, 0)).expect("it is ours");
        }
    }

    #[test]
    fn each_interface_has_a_name_that_a_socket_can_be_bound_to_and_a_network_of_its_own_size() {
        let all = addresses().expect("known");
        for found in interfaces().expect("known") {
            assert!(all.contains(&found.address), "{found:?}");
            let bits = if found.address.is_ipv4() { 32 } else { 128 };
            assert!((1..=bits).contains(&found.prefix_bits), "{found:?}");
            let socket = std::net::UdpSocket::bind((found.address, 0)).expect("it is ours");
            bind_to_interface(&socket, &found.interface).expect("it is there");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("there is loopback");
        assert!(bind_to_interface(&socket, "none-such").is_err());
    }
}
