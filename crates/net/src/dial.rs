//! Connects to a daemon: tries all its addresses within one deadline and proves its identity. Stores no peers and does
//! not ask the user.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustls::{AlertDescription, Error as TlsError};
use thiserror::Error;

use crate::address::PeerAddress;
use crate::buffer::InBuffer;
use crate::connect::connect;
use crate::connection::{Connection, Layer};
use crate::handshake::{ApparentProtocol, HandshakeError, handshake};
use crate::identity::IdentityId;
use crate::limits::{DIAL_DEADLINE, HANDSHAKE_DEADLINE};
use crate::session::Session;
use crate::socket::Socket;
use crate::stream::StreamOptions;
use crate::tls::{ALPN_DATA, ClientTls, Expect, ServerPin};

/// Options for dialling.
#[derive(Clone, Debug)]
pub struct DialOptions {
    /// The expected peer.
    pub expect: Expect,
    /// Deadline for resolving and trying all addresses. The handshake has a separate deadline: [`HANDSHAKE_DEADLINE`],
    /// or this one if shorter.
    pub deadline: Duration,
    /// Options of the stream.
    pub stream: StreamOptions,
}

impl DialOptions {
    /// Options with the usual deadline and stream options.
    #[must_use]
    pub fn new(expect: Expect) -> Self {
        Self {
            expect,
            deadline: DIAL_DEADLINE,
            stream: StreamOptions::default(),
        }
    }
}

/// Reason why there is no connection.
#[derive(Debug, Error)]
pub enum DialError {
    /// The name has no address.
    #[error("cannot find {address}: {source}; check the name")]
    Resolve {
        /// The daemon's address.
        address: PeerAddress,
        /// The resolver's error.
        source: io::Error,
    },
    /// No connection to any address.
    #[error("cannot connect to {address}: {source}; {}", advice(source))]
    Connect {
        /// The daemon's address.
        address: PeerAddress,
        /// The kernel's error for the last address tried.
        source: io::Error,
    },
    /// Connected, but the peer is no godwit daemon.
    #[error("{address} does not speak godwit: {what}; check the port (default: 7272)")]
    NotGodwit {
        /// The daemon's address.
        address: PeerAddress,
        /// The protocol or program that seems to answer.
        what: String,
    },
    /// The daemon's key differs from the trusted one.
    #[error(
        "{address} is {found}, but {expected} is trusted: either the node's key was replaced, or an attacker intercepts the connection; \
         ask the node's administrator, then accept the new key: godwit trust {address} {found} for commands, godwit site add for jobs"
    )]
    WrongIdentity {
        /// The daemon's address.
        address: PeerAddress,
        /// The expected identity.
        expected: IdentityId,
        /// The identity that the daemon presented.
        found: IdentityId,
    },
    /// The daemon was too slow.
    #[error("{address} accepted the connection and then did not answer in time; is it overloaded?")]
    Deadline {
        /// The daemon's address.
        address: PeerAddress,
    },
    /// The connection broke during the handshake.
    #[error("the connection to {address} broke during the handshake: {what}")]
    Broken {
        /// The daemon's address.
        address: PeerAddress,
        /// The cause.
        what: String,
    },
    /// The two sides agreed on no TLS parameters.
    #[error("no TLS connection to {address}: {error}")]
    Tls {
        /// The daemon's address.
        address: PeerAddress,
        /// The error that rustls reported.
        error: TlsError,
    },
}

impl DialError {
    /// Whether a retry may succeed without any change by the user.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Deadline { .. }
            | Self::Broken { .. } => true,
            Self::NotGodwit { .. } | Self::WrongIdentity { .. } | Self::Tls { .. } => false,
        }
    }

    /// Whether an identity of a peer is the cause.
    #[must_use]
    pub fn is_authentication(&self) -> bool {
        matches!(self, Self::WrongIdentity { .. })
    }
}

/// Connects to the daemon at `address` and proves its identity; returns the stream and the identity.
///
/// # Errors
/// Contains host and port, the fault, and advice.
pub fn dial(
    address: &PeerAddress,
    tls: &ClientTls,
    options: &DialOptions,
) -> Result<(Connection, IdentityId), DialError> {
    let tcp = connect_any(address, options.deadline)?;
    dial_over(Carrier::Tcp(tcp), address, tls, options)
}

/// The socket below a connection.
pub enum Carrier {
    /// A TCP connection, dialled by either side.
    Tcp(TcpStream),
    /// A socket to another program that relays to the peer.
    Unix(UnixStream),
}

/// Proves the peer's identity over an existing connection, as [`dial`] does over a new one.
///
/// # Errors
/// Contains the fault; messages contain `address`.
pub fn dial_over(
    carrier: Carrier,
    address: &PeerAddress,
    tls: &ClientTls,
    options: &DialOptions,
) -> Result<(Connection, IdentityId), DialError> {
    let broken = |source: io::Error| DialError::Broken {
        address: address.clone(),
        what: source.to_string(),
    };
    let mut socket = match carrier {
        Carrier::Tcp(tcp) => Socket::tcp(tcp, options.stream.stall_limit),
        Carrier::Unix(socket) => Socket::local(socket, &address.to_string()),
    }
    .map_err(broken)?;
    let (connection, pin) = tls
        .connect(options.expect)
        .map_err(|error| DialError::Tls {
            address: address.clone(),
            error,
        })?;
    let mut session = Session::client(connection, options.stream.rekey_records);
    let mut incoming = InBuffer::new();
    let deadline = Instant::now() + options.deadline.min(HANDSHAKE_DEADLINE);
    handshake(&mut socket, &mut session, &mut incoming, deadline)
        .map_err(|error| explain(address, options.expect, &pin, error))?;
    if session.state().alpn_protocol() != Some(ALPN_DATA) {
        return Err(not_godwit(
            address,
            "a TLS server of another kind (no common ALPN protocol)",
        ));
    }
    tls.note_cipher(session.state().negotiated_cipher_suite());
    let Some(found) = pin.found() else {
        return Err(not_godwit(
            address,
            "a TLS server that showed no certificate",
        ));
    };
    let layer = Layer::Tls {
        session: Box::new(session),
        plain_payload: options.stream.plain_payload,
    };
    let stream = Connection::new(socket, layer, incoming, &options.stream).map_err(broken)?;
    Ok((stream, found))
}

/// Tries one address after another; each gets its share of the remaining time.
fn connect_any(address: &PeerAddress, deadline: Duration) -> Result<TcpStream, DialError> {
    let end = Instant::now() + deadline;
    let resolve_error = |source| DialError::Resolve {
        address: address.clone(),
        source,
    };
    let found: Vec<SocketAddr> = address.resolve(deadline).map_err(resolve_error)?;
    let mut last = None;
    for (tried, candidate) in found.iter().enumerate() {
        let untried = u32::try_from(found.len() - tried).unwrap_or(u32::MAX);
        let share = end.saturating_duration_since(Instant::now()) / untried;
        match connect(*candidate, share.max(CONNECT_TIME_MIN)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(source) => Err(DialError::Connect {
            address: address.clone(),
            source,
        }),
        None => Err(resolve_error(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        ))),
    }
}

fn not_godwit(address: &PeerAddress, what: impl Into<String>) -> DialError {
    DialError::NotGodwit {
        address: address.clone(),
        what: what.into(),
    }
}

fn explain(
    address: &PeerAddress,
    expect: Expect,
    pin: &ServerPin,
    error: HandshakeError,
) -> DialError {
    let address = address.clone();
    match error {
        HandshakeError::Deadline => DialError::Deadline { address },
        HandshakeError::NotTls(ApparentProtocol::Http) => {
            not_godwit(&address, "an HTTP server answers there")
        }
        HandshakeError::NotTls(ApparentProtocol::Ssh) => {
            not_godwit(&address, "an ssh server answers there")
        }
        HandshakeError::NotTls(other) => not_godwit(&address, format!("it sent {other}")),
        HandshakeError::Tls(TlsError::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            not_godwit(
                &address,
                "a TLS server of another kind (no common ALPN protocol)",
            )
        }
        HandshakeError::Tls(error) => match (expect, pin.found()) {
            (Expect::Identity(expected), Some(found)) if expected != found => {
                DialError::WrongIdentity {
                    address,
                    expected,
                    found,
                }
            }
            _ => DialError::Tls { address, error },
        },
        error @ (HandshakeError::Closed
        | HandshakeError::Peer(_)
        | HandshakeError::Network { .. }) => DialError::Broken {
            address,
            what: error.to_string(),
        },
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "is `godwit serve` running there, on that port?",
        io::ErrorKind::TimedOut => "is the host up, and does a firewall let that port through?",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "is there a route to it?"
        }
        _ => "check host and port",
    }
}

/// Minimum time for each address; a connection on a local network takes less. With many unreachable addresses, the
/// deadline is extended by this time for each of them.
const CONNECT_TIME_MIN: Duration = Duration::from_millis(100);
