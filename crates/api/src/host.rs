//! A host and a port as people write them: `dtn2.example.org`, `dtn2:7273`, `[2001:db8::7]:7272`.
//! Resolves no name and opens no socket.

use std::fmt;
use std::net::Ipv6Addr;
use thiserror::Error;

/// A host, by name or address, and a port. The host is in lower case; an IPv6 address is without its brackets.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostPort {
    /// DNS name, IPv4 or IPv6 address, the latter with an optional zone: `fe80::1%eth0`.
    pub host: String,
    /// The TCP port; 0 only where a caller listens on any free port.
    pub port: u16,
}

/// Why a text is not a host with an optional port.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum HostError {
    /// No host was given.
    #[error("the host is missing")]
    NoHost,
    /// The host has a character that no host name has.
    #[error("`{0}` is no host name or address")]
    Host(String),
    /// An IPv6 address without brackets, and its correct form.
    #[error("an IPv6 address goes in brackets: {0}")]
    Bare(String),
    /// The port is not a number up to 65535.
    #[error("`{0}` is no port: write a number up to 65535")]
    Port(String),
}

impl HostPort {
    /// Reads `HOST[:PORT]`; `port_default` is the port if the text names none.
    ///
    /// # Errors
    /// Says which part is wrong.
    pub fn parse(text: &str, port_default: u16) -> Result<Self, HostError> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, tail) = rest
                .split_once(']')
                .ok_or_else(|| HostError::Host(text.to_owned()))?;
            let found = ipv6(address).ok_or_else(|| HostError::Host(address.to_owned()))?;
            let port = match tail.strip_prefix(':') {
                Some(port) => Some(port),
                None if tail.is_empty() => None,
                None => return Err(HostError::Host(text.to_owned())),
            };
            (found, port)
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            (check_name(host, text)?, port)
        };
        let port = match port {
            None => port_default,
            Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
                port.parse()
                    .map_err(|_error| HostError::Port(port.to_owned()))?
            }
            Some(port) => return Err(HostError::Port(port.to_owned())),
        };
        Ok(Self { host, port })
    }

    /// The host without the zone of its address, which is valid on this machine only.
    #[must_use]
    pub fn name(&self) -> &str {
        self.host.split('%').next().unwrap_or_default()
    }
}

/// The canonical spelling of an IPv6 address, with an optional zone. In a URL, `%25` may stand for the sign before the zone.
pub(crate) fn ipv6(text: &str) -> Option<String> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => {
            let bare = zone.strip_prefix("25").filter(|bare| !bare.is_empty());
            (address, Some(bare.unwrap_or(zone)))
        }
        None => (text, None),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let Some(zone) = zone else {
        return Some(address.to_string());
    };
    let fits = (1..=ZONE_BYTES_MAX).contains(&zone.len())
        && zone
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    fits.then(|| format!("{address}%{zone}"))
}

/// Finds an IPv6 address without brackets at the start of `text`. Returns the address in brackets, and the rest: nothing, or a colon and
/// more. The longest address counts.
pub(crate) fn bracketed(text: &str) -> Option<(String, &str)> {
    let colons = text.match_indices(':').map(|(at, _)| at);
    let ends: Vec<usize> = colons.chain([text.len()]).collect();
    ends.into_iter().rev().find_map(|end| {
        let (address, rest) = text.split_at(end);
        ipv6(address).map(|_address| (format!("[{address}]"), rest))
    })
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn check_name(host: &str, text: &str) -> Result<String, HostError> {
    if let Some((address, rest)) = bracketed(text) {
        return Err(HostError::Bare(format!("{address}{rest}")));
    }
    if host.is_empty() {
        return Err(HostError::NoHost);
    }
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    let fits = host.len() <= HOST_BYTES_MAX
        && !host.starts_with('-')
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !fits || colons > 1 {
        return Err(HostError::Host(
            if colons > 1 { text } else { host }.to_owned(),
        ));
    }
    Ok(host.to_ascii_lowercase())
}

/// The longest name of an interface.
const ZONE_BYTES_MAX: usize = 15;

/// The longest DNS name.
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_with_and_without_a_port() {
        let cases = [
            ("dtn2.example.org", "dtn2.example.org:7272"),
            ("DTN2:80", "dtn2:80"),
            ("10.0.0.1:0", "10.0.0.1:0"),
            ("[2001:DB8::7]", "[2001:db8::7]:7272"),
            ("[::1]:9", "[::1]:9"),
            ("[FE80::1%Eth0]:9", "[fe80::1%Eth0]:9"),
            ("[fe80::1%25lo]", "[fe80::1%lo]:7272"),
        ];
        for (text, display) in cases {
            assert_eq!(
                HostPort::parse(text, 7272).map(|host| host.to_string()),
                Ok(display.to_owned())
            );
        }
    }

    #[test]
    fn an_address_without_brackets_is_shown_with_them() {
        for (text, meant) in [
            ("::1", "[::1]"),
            ("2001:db8::7", "[2001:db8::7]"),
            ("fe80::1%lo", "[fe80::1%lo]"),
            ("fe80::1%lo:7272", "[fe80::1%lo]:7272"),
            ("1:2:3:4:5:6:7:8:7272", "[1:2:3:4:5:6:7:8]:7272"),
        ] {
            let bare = HostError::Bare(meant.to_owned());
            assert_eq!(HostPort::parse(text, 7272), Err(bare), "{text}");
        }
    }

    #[test]
    fn invalid_hosts_are_refused() {
        for text in [
            "",
            ":80",
            "a b",
            "user@host",
            "::1",
            "[::1",
            "[::1]x",
            "[host]",
            "[fe80::1%]",
            "[fe80::1%a/b]",
            "[fe80::1%a%b]",
            "[fe80::1%an_interface_name]",
            "host:",
            "host:x",
            "host:65536",
            "host:+1",
            "-host",
            "höst",
        ] {
            assert!(HostPort::parse(text, 7272).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_displayed_host_parses_to_the_same_host(text in "([a-z0-9.-]{1,20}|\\[[0-9a-f:]{2,20}(%[a-z0-9]{1,6})?\\])(:[0-9]{1,6})?") {
            if let Ok(host) = HostPort::parse(&text, 7272) {
                prop_assert_eq!(HostPort::parse(&host.to_string(), 1), Ok(host));
            }
        }
    }
}
