//! Where a node is reached: a socket in its home directory, or an address for HTTPS.
//! Opens nothing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use godwit_api::PORT_DEFAULT;
use godwit_api::host::{HostError, HostPort};
use thiserror::Error;

/// The socket of a node, relative to its home directory.
const SOCKET: &str = "run/node.sock";

/// Where a node is reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeAddress {
    /// The node of this machine that has this home directory.
    Home(PathBuf),
    /// The node of this machine that listens at this Unix socket.
    Socket(PathBuf),
    /// A node that is reached by HTTPS.
    Https(HostPort),
}

/// Reason why a text is not an address of a node.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum AddressError {
    /// The address has another scheme, or none.
    #[error(
        "{0:?}: write https://HOST or https://HOST:PORT; without --node the command asks the node of this machine"
    )]
    Scheme(String),
    /// The text continues after the host.
    #[error("{0:?}: remove the text after the host and the port")]
    Path(String),
    /// The host or the port is invalid.
    #[error("{text:?}: {reason}")]
    Host {
        /// The whole text.
        text: String,
        /// The error in the host.
        reason: HostError,
    },
}

impl NodeAddress {
    /// The socket of the node that the system starts; every user can connect to it.
    pub const SYSTEM_SOCKET: &str = "/run/godwit/node.sock";

    /// The socket of the node with this home directory.
    #[must_use]
    pub fn socket_of(home: &Path) -> PathBuf {
        home.join(SOCKET)
    }
}

impl FromStr for NodeAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text
            .strip_prefix("https://")
            .ok_or_else(|| AddressError::Scheme(text.to_owned()))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return Err(AddressError::Path(text.to_owned()));
        }
        HostPort::parse(rest, PORT_DEFAULT)
            .map(Self::Https)
            .map_err(|reason| AddressError::Host {
                text: text.to_owned(),
                reason,
            })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home(home) => write!(f, "the node of {}", home.display()),
            Self::Socket(socket) => write!(f, "the node at {}", socket.display()),
            Self::Https(host) => write!(f, "the node https://{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, shown) in [
            (
                "https://dtn1.example.org",
                "the node https://dtn1.example.org:7272",
            ),
            (
                "https://dtn1.example.org:443/",
                "the node https://dtn1.example.org:443",
            ),
            ("https://[::1]:7300", "the node https://[::1]:7300"),
        ] {
            let address: NodeAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), shown);
        }
        for text in [
            "dtn1.example.org",
            "http://dtn1.example.org",
            "godwit://dtn1.example.org",
            "https://dtn1.example.org/api",
            "https://user@dtn1.example.org",
            "https://",
            "https://dtn1.example.org:99999",
        ] {
            assert!(text.parse::<NodeAddress>().is_err(), "{text}");
        }
    }
}
