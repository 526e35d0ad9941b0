//! Owns listening at several addresses: an IPv6 address does not occupy the port of an IPv4 address. Does not accept connections
//! or resolve names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Largest number of connections that wait to be accepted, as in the standard library.
const BACKLOG: i32 = 128;

/// An address that cannot be listened at.
#[derive(Debug)]
pub struct Unheard {
    /// The address.
    pub address: SocketAddr,
    /// The kernel's error.
    pub source: io::Error,
}

/// Listens at all of `addresses`, in their order. `[::]` includes IPv4, unless an IPv4 address has the same port. Beside
/// `0.0.0.0`, `[::]` is omitted if the machine has no IPv6.
///
/// # Errors
/// The first address that cannot be listened at.
pub fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, Unheard> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for &address in addresses {
        let is_all = address.is_ipv6() && address.ip().is_unspecified();
        let same_port = |other: &&SocketAddr| other.is_ipv4() && other.port() == address.port();
        let is_beside = addresses.iter().any(|other| same_port(&other));
        let all_of_ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        match bind(address, is_beside) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_all && has_no_ipv6(&error) && addresses.contains(&all_of_ipv4) => {}
            Err(source) => return Err(Unheard { address, source }),
        }
    }
    Ok(listeners)
}

fn bind(address: SocketAddr, only_ipv6: bool) -> io::Result<TcpListener> {
    let IpAddr::V6(_) = address.ip() else {
        return TcpListener::bind(address);
    };
    let socket: OwnedFd = rustix::net::socket_with(
        AddressFamily::INET6,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    if address.ip().is_unspecified() {
        sockopt::set_ipv6_v6only(&socket, only_ipv6)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn has_no_ipv6(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}
