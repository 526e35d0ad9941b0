//! Checks whether this machine's kernel allows a congestion control, and makes sockets for the check. Does not set the
//! congestion control of connections.
//!
//! A congestion control that the user names is set on the sockets that send. If the kernel refuses it, the transfer is
//! refused.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use thiserror::Error;

/// The congestion control is not available.
#[derive(Debug, Error)]
#[error(
    "the congestion control {name} is not available on {machine}: {source}; available there: {allowed} (sysctl net.ipv4.tcp_allowed_congestion_control)"
)]
pub struct CongestionError {
    name: String,
    machine: String,
    allowed: String,
    source: io::Error,
}

/// Checks whether sockets of this process may use the congestion control `name`. `machine` names this machine in the
/// message.
///
/// # Errors
/// The kernel does not have it or does not allow it; the message lists the allowed ones.
pub fn check_congestion(name: &str, machine: &str) -> Result<(), CongestionError> {
    let tried = socket_to_try().and_then(|socket| sockopt::set_tcp_congestion(&socket, name));
    tried.map_err(|errno| {
        let listed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
        let allowed = listed.map_or_else(
            |_| "unknown".to_owned(),
            |listed| listed.split_whitespace().collect::<Vec<_>>().join(", "),
        );
        CongestionError {
            name: name.to_owned(),
            machine: machine.to_owned(),
            allowed,
            source: match errno {
                // For an unknown congestion control the kernel reports that there is no such file.
                rustix::io::Errno::NOENT => io::Error::other("the kernel does not have it"),
                errno => errno.into(),
            },
        }
    })
}

/// A socket without a connection: it has the system's default, and tests other congestion controls.
pub(crate) fn socket_to_try() -> rustix::io::Result<OwnedFd> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    socket_with(family, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests {
    use super::check_congestion;

    #[test]
    fn an_unknown_congestion_control_is_refused_with_the_known_ones() {
        let message = check_congestion("nosuch", "dtn2").unwrap_err().to_string();
        let listed =
            std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
        for name in listed.split_whitespace() {
            assert!(message.contains(name), "{message}");
            check_congestion(name, "dtn2").unwrap();
        }
        assert!(
            message.contains("nosuch") && message.contains("dtn2"),
            "{message}"
        );
    }
}
