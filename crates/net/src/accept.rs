//! Accepts connections for a daemon: completes the handshake within a deadline and proves the client's identity.
//! Does not listen, and grants no rights.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::Error as TlsError;
use thiserror::Error;

use crate::buffer::InBuffer;
use crate::connection::{Connection, Layer};
use crate::handshake::{ApparentProtocol, HandshakeError, handshake};
use crate::identity::IdentityId;
use crate::limits::HANDSHAKE_DEADLINE;
use crate::session::Session;
use crate::socket::Socket;
use crate::stream::StreamOptions;
use crate::tls::{ALPN_DATA, Cipher, ServerTls};

/// Options for accepting a connection.
#[derive(Clone, Debug)]
pub struct AcceptOptions {
    /// Deadline of the whole handshake, however slowly the client sends its bytes.
    pub deadline: Duration,
    /// Options of the stream.
    pub stream: StreamOptions,
}

impl Default for AcceptOptions {
    fn default() -> Self {
        Self {
            deadline: HANDSHAKE_DEADLINE,
            stream: StreamOptions::default(),
        }
    }
}

/// A client that completed the handshake.
pub struct Accepted {
    /// The stream to the client.
    pub stream: Connection,
    /// The client's identity: proven, not authorised.
    pub peer: IdentityId,
    /// The agreed protocol; today always [`ALPN_DATA`].
    pub alpn: Vec<u8>,
    /// The cipher of the connection.
    pub cipher: Cipher,
}

/// Why a connection was not accepted.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// The client uses another protocol.
    #[error("{peer}: not a godwit client: it sent {looks_like}")]
    NotGodwit {
        /// The client.
        peer: String,
        /// The protocol that the client seems to use.
        looks_like: ApparentProtocol,
    },
    /// The client asked for another protocol over TLS.
    #[error("{peer}: a TLS client, but not of godwit (it does not offer ALPN godwit-data/1)")]
    Alpn {
        /// The client.
        peer: String,
    },
    /// The client was silent or slow.
    #[error("{peer}: no complete handshake within {} s", after.as_secs_f64())]
    Deadline {
        /// The client.
        peer: String,
        /// The deadline.
        after: Duration,
    },
    /// The two sides agreed on no TLS parameters.
    #[error("{peer}: TLS: {error}")]
    Tls {
        /// The client.
        peer: String,
        /// The error that rustls reported.
        error: TlsError,
    },
    /// The connection broke.
    #[error("{peer}: {what}")]
    Broken {
        /// The client.
        peer: String,
        /// The cause.
        what: String,
    },
}

/// Completes the handshake on an accepted connection.
///
/// Blocks up to the deadline, so call it on a thread for this connection alone.
///
/// # Errors
/// Names the client and its mistake.
pub fn accept(
    tcp: TcpStream,
    tls: &ServerTls,
    options: &AcceptOptions,
) -> Result<Accepted, AcceptError> {
    let unknown = |source: io::Error| AcceptError::Broken {
        peer: "a client".to_owned(),
        what: source.to_string(),
    };
    let mut socket = Socket::tcp(tcp, options.stream.stall_limit).map_err(unknown)?;
    let peer = socket.peer().to_owned();
    let tls_error = |error| AcceptError::Tls {
        peer: peer.clone(),
        error,
    };
    let connection = tls.connection().map_err(tls_error)?;
    let mut session = Session::server(connection, options.stream.rekey_records);
    let mut incoming = InBuffer::new();
    let deadline = Instant::now() + options.deadline;
    if let Err(error) = handshake(&mut socket, &mut session, &mut incoming, deadline) {
        if let HandshakeError::NotTls(ApparentProtocol::Http) = error {
            refuse_http(&mut socket);
        }
        return Err(explain(peer, options.deadline, error));
    }
    let state = session.state();
    let alpn = match state.alpn_protocol() {
        Some(protocol) if protocol == ALPN_DATA => protocol.to_vec(),
        _ => return Err(AcceptError::Alpn { peer }),
    };
    let certificate = state.peer_certificates().and_then(<[_]>::first);
    let id = certificate
        .ok_or(TlsError::NoCertificatesPresented)
        .and_then(IdentityId::of_certificate)
        .map_err(tls_error)?;
    let cipher = state.negotiated_cipher_suite().and_then(Cipher::of_suite);
    let cipher = cipher.ok_or_else(|| tls_error(TlsError::HandshakeNotComplete))?;
    let layer = Layer::Tls {
        session: Box::new(session),
        plain_payload: options.stream.plain_payload,
    };
    let stream = Connection::new(socket, layer, incoming, &options.stream).map_err(unknown)?;
    Ok(Accepted {
        stream,
        peer: id,
        alpn,
        cipher,
    })
}

fn explain(peer: String, after: Duration, error: HandshakeError) -> AcceptError {
    match error {
        HandshakeError::Deadline => AcceptError::Deadline { peer, after },
        HandshakeError::NotTls(looks_like) => AcceptError::NotGodwit { peer, looks_like },
        HandshakeError::Tls(TlsError::NoApplicationProtocol) => AcceptError::Alpn { peer },
        HandshakeError::Tls(error) => AcceptError::Tls { peer, error },
        error @ (HandshakeError::Closed
        | HandshakeError::Peer(_)
        | HandshakeError::Network { .. }) => AcceptError::Broken {
            peer,
            what: error.to_string(),
        },
    }
}

/// Answers a browser or a health check with an HTTP error. Never blocks: the answer fits into any socket buffer.
fn refuse_http(socket: &mut Socket) {
    let _ = socket.send(HTTP_ANSWER, &[]);
    socket.end();
    // Unread bytes would make the kernel reset the connection and lose the answer; an endless request is cut.
    let mut rest = [0; 4096];
    for _ in 0..16 {
        if !matches!(socket.receive(&mut rest, &mut []), Ok(Some(1..))) {
            return;
        }
    }
}

const HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 78\r\n\
    Connection: close\r\n\
    \r\n\
    This port speaks godwit, not HTTP: use `godwit cp ... godwit://host/export/`.\n";

#[cfg(test)]
mod tests {
    use super::HTTP_ANSWER;

    #[test]
    fn the_answer_to_http_has_the_length_it_says() {
        let text = std::str::from_utf8(HTTP_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }
}
