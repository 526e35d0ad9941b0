//! Owns the reading of this machine's IP addresses.
//! Does not know which of them others can reach.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::NonNull;

/// The addresses of all interfaces that are up, without those of loopback and without link-local ones of IPv6.
///
/// # Errors
/// What the kernel says.
#[expect(unsafe_code, reason = "getifaddrs, for which rustix has no form")]
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: it writes one pointer, to where it is told.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(first);
    let mut found = Vec::new();
    let mut next = NonNull::new(list.0);
    while let Some(entry) = next {
        // SAFETY: an entry of the list, which lives until it is dropped, and which nobody changes.
        let entry = unsafe { entry.as_ref() };
        next = NonNull::new(entry.ifa_next);
        let up = entry.ifa_flags & UP != 0 && entry.ifa_flags & LOOPBACK == 0;
        if let Some(address) = NonNull::new(entry.ifa_addr).filter(|_| up) {
            // SAFETY: the address of an entry of the list, which is as long as its family says.
            found.extend(unsafe { read(address) });
        }
    }
    found.retain(|address| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    });
    Ok(found)
}

/// # Safety
/// It must be an address as `getifaddrs` gives them: as long as its family says.
#[expect(unsafe_code, reason = "an address is read by its family")]
unsafe fn read(address: NonNull<libc::sockaddr>) -> Option<IpAddr> {
    // SAFETY: every address has a family.
    let family = unsafe { address.as_ref() }.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is; unaligned, since the kernel promises no more.
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
        // SAFETY: what getifaddrs gave, freed once.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

const UP: u32 = libc::IFF_UP as u32;
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
}
