//! Owns the form `host:port` of a peer's address and its resolution within a deadline.
//! Opens no connection.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use thiserror::Error;

/// The address of a daemon, in the user's spelling. Host names are kept in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress {
    host: String,
    port: u16,
}

/// Default port of a daemon.
pub const DEFAULT_PORT: u16 = 7272;

/// A text that is no valid address.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not an address: {what} (HOST, HOST:PORT, or [IPV6]:PORT)")]
pub struct PeerAddressError {
    text: String,
    what: &'static str,
}

impl PeerAddress {
    /// Makes an address from parsed parts; `host` without brackets.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        // Only one spelling of an IP address is kept, so that the address is found among the known peers.
        let host = host
            .parse::<IpAddr>()
            .map_or_else(|_| lower(host), |ip| ip.to_string());
        Self { host, port }
    }

    /// The host: a name or a bare IP address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All addresses of the host, in the system's order of preference.
    ///
    /// The system's resolver has no deadline: after our deadline its thread keeps running until the resolver returns.
    ///
    /// # Errors
    /// The resolver's error, or that it did not answer in time.
    pub fn resolve(&self, deadline: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let (answer, answers) = sync_channel(1);
        let (host, port) = (self.host.clone(), self.port);
        std::thread::Builder::new()
            .name("resolve".to_owned())
            .spawn(move || {
                let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
                // After the deadline this result is dropped.
                let _ = answer.send(found);
            })?;
        match answers.recv_timeout(deadline) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the resolver failed")),
        }
    }
}

/// Lower-cases a host, except for the zone of an IPv6 address, which is the name of an interface.
fn lower(host: &str) -> String {
    match host.split_once('%') {
        Some((address, zone)) => format!("{}%{zone}", address.to_ascii_lowercase()),
        None => host.to_ascii_lowercase(),
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for PeerAddress {
    type Err = PeerAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |what| PeerAddressError {
            text: text.to_owned(),
            what,
        };
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest
                .split_once(']')
                .ok_or_else(|| error("no closing bracket"))?;
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(port),
                None if rest.is_empty() => None,
                None => return Err(error("only :PORT may follow the bracket")),
            };
            (host, port)
        } else {
            match text.split_once(':') {
                Some((_, rest)) if rest.contains(':') => (text, None),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .map_err(|_too_large| error("the port is not between 1 and 65535"))?,
            Some(_) => return Err(error("the port is not a number")),
        };
        if port == 0 {
            return Err(error("the port is not between 1 and 65535"));
        }
        if host.is_empty() {
            return Err(error("no host"));
        }
        if host
            .bytes()
            .any(|byte| byte <= b' ' || byte == 127 || b"/@[]#".contains(&byte))
        {
            return Err(error("the host contains a character that is not allowed"));
        }
        if host.contains(':')
            && host
                .split('%')
                .next()
                .and_then(|ip| ip.parse::<IpAddr>().ok())
                .is_none()
        {
            return Err(error("the host is neither a name nor an IPv6 address"));
        }
        Ok(Self::new(host, port))
    }
}

/// Whether an address that a peer announces can belong to one machine. Excludes the unspecified address, by which the
/// kernel would reach this machine, and addresses of many machines.
pub fn is_of_a_machine(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast()),
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_multicast()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_users_write() {
        for (text, host, port) in [
            ("dtn2.example.org", "dtn2.example.org", 7272),
            ("DTN2:99", "dtn2", 99),
            ("192.0.2.1:65535", "192.0.2.1", 65_535),
            ("2001:DB8:0::1", "2001:db8::1", 7272),
            ("[2001:db8::1]", "2001:db8::1", 7272),
            ("[2001:db8::1]:80", "2001:db8::1", 80),
            ("[FE80::1%Eth0]:80", "fe80::1%Eth0", 80),
        ] {
            assert_eq!(text.parse(), Ok(PeerAddress::new(host, port)), "{text}");
        }
        for text in [
            "", ":80", "a:", "a:0", "a:65536", "a:+8", "a b", "[::1", "[::1]x", "a:b:c", "u@h",
            "h/x",
        ] {
            assert!(text.parse::<PeerAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn resolves_literals_and_names() {
        let literal = PeerAddress::new("::1", 7);
        assert_eq!(
            literal.resolve(Duration::ZERO).unwrap(),
            ["[::1]:7".parse().unwrap()]
        );
        let found = PeerAddress::new("localhost", 7)
            .resolve(Duration::from_secs(20))
            .unwrap();
        assert!(
            found
                .iter()
                .all(|address| address.ip().is_loopback() && address.port() == 7)
        );
    }

    proptest! {
        #[test]
        fn an_address_survives_its_text(text in "[a-z0-9.:%\\[\\]-]{1,30}") {
            if let Ok(address) = text.parse::<PeerAddress>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }

    #[test]
    fn addresses_of_no_machine_and_of_many_are_distinguished() {
        let is = |text: &str| is_of_a_machine(text.parse().unwrap());
        for text in [
            "192.0.2.1",
            "127.0.0.1",
            "fe80::1",
            "::1",
            "::ffff:192.0.2.1",
        ] {
            assert!(is(text), "{text}");
        }
        for text in [
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
        ] {
            assert!(!is(text), "{text}");
        }
    }
}
