//! Runs the TLS handshake over a socket: one deadline for the whole handshake, one record at a time. Chooses
//! neither keys nor peers, and authorises no peer.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use thiserror::Error;

use crate::buffer::{InBuffer, OutBuffer, Record};
use crate::limits::SNIFF_BYTES;
use crate::session::Session;
use crate::socket::Socket;

/// Why the handshake failed.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    #[error("the handshake was not complete in time")]
    Deadline,
    #[error("the peer closed the connection before the handshake was complete")]
    Closed,
    #[error("the peer does not speak TLS: it sent {0}")]
    NotTls(ApparentProtocol),
    #[error("{0}")]
    Tls(rustls::Error),
    #[error("{0}")]
    Peer(&'static str),
    #[error("{operation}: {source}")]
    Network {
        operation: &'static str,
        source: io::Error,
    },
}

/// The protocol that a peer without TLS seems to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApparentProtocol {
    /// A request or a response of HTTP.
    Http,
    /// The banner of an ssh server or client.
    Ssh,
    /// Lines of text.
    Text,
    /// An unknown protocol.
    Unknown,
}

impl std::fmt::Display for ApparentProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Http => "an HTTP message",
            Self::Ssh => "an ssh banner",
            Self::Text => "a line of text",
            Self::Unknown => "bytes of an unknown protocol",
        })
    }
}

/// Runs the handshake to its end. Bytes received after the handshake stay in `incoming`.
pub(crate) fn handshake(
    socket: &mut Socket,
    session: &mut Session,
    incoming: &mut InBuffer,
    deadline: Instant,
) -> Result<(), HandshakeError> {
    let mut out = OutBuffer::default();
    // Bytes of records at the front that rustls has read and still needs, because a message can span several
    // records.
    let mut fed = 0;
    let mut is_tls = false;
    loop {
        let mut early = false;
        let opened = session.open(incoming.front_mut(fed), &mut out, &mut |_| early = true);
        if let Err(error) = opened {
            // The alert informs the peer of the reason; its delivery is not awaited.
            let _ = socket.send(out.filled(), &[]);
            return Err(HandshakeError::Tls(error));
        }
        send_all(socket, out.filled(), deadline)?;
        out.clear();
        let opened = opened.map_err(HandshakeError::Tls)?;
        incoming.consume(opened.used);
        fed -= opened.used;
        if early {
            return Err(HandshakeError::Peer("data before the end of the handshake"));
        }
        if opened.closed {
            return Err(HandshakeError::Closed);
        }
        if opened.traffic && !session.state().is_handshaking() {
            return if fed == 0 {
                Ok(())
            } else {
                Err(HandshakeError::Peer(
                    "a message that continues after the handshake",
                ))
            };
        }
        fed += next_record(socket, incoming, fed, &mut is_tls, deadline)?;
    }
}

/// Receives until a whole record follows the first `fed` bytes, and returns its length.
fn next_record(
    socket: &mut Socket,
    incoming: &mut InBuffer,
    fed: usize,
    is_tls: &mut bool,
    deadline: Instant,
) -> Result<usize, HandshakeError> {
    loop {
        if !*is_tls && !incoming.is_empty() {
            sniff(socket, incoming, deadline)?;
            *is_tls = true;
        }
        match incoming.record(fed) {
            Record::Whole(bytes) => return Ok(bytes),
            Record::TooLong(_) => {
                return Err(HandshakeError::Peer("a TLS record of excessive length"));
            }
            Record::Partial => {}
        }
        receive(socket, incoming, deadline)?;
    }
}

fn receive(
    socket: &mut Socket,
    incoming: &mut InBuffer,
    deadline: Instant,
) -> Result<(), HandshakeError> {
    loop {
        let room = incoming.room();
        if room.is_empty() {
            return Err(HandshakeError::Peer("a handshake of excessive length"));
        }
        match socket.receive(room, &mut []) {
            Ok(Some(0)) => return Err(HandshakeError::Closed),
            Ok(Some(bytes)) => {
                incoming.commit(bytes);
                return Ok(());
            }
            Ok(None) => await_ready(socket, PollFlags::IN, deadline)?,
            Err(source) => {
                return Err(HandshakeError::Network {
                    operation: "receive",
                    source,
                });
            }
        }
    }
}

/// Sends everything, or fails at the deadline.
pub(crate) fn send_all(
    socket: &mut Socket,
    mut bytes: &[u8],
    deadline: Instant,
) -> Result<(), HandshakeError> {
    while !bytes.is_empty() {
        match socket.send(bytes, &[]) {
            Ok(Some(sent)) => bytes = &bytes[sent..],
            Ok(None) => await_ready(socket, PollFlags::OUT, deadline)?,
            Err(source) => {
                return Err(HandshakeError::Network {
                    operation: "send",
                    source,
                });
            }
        }
    }
    Ok(())
}

fn await_ready(
    socket: &mut Socket,
    want: PollFlags,
    deadline: Instant,
) -> Result<(), HandshakeError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(HandshakeError::Deadline);
    }
    socket
        .poll(want, 1, None, left)
        .map(|_| ())
        .map_err(|source| HandshakeError::Network {
            operation: "poll",
            source,
        })
}

/// Refuses a peer that does not use TLS, after examining its first bytes.
fn sniff(
    socket: &mut Socket,
    incoming: &mut InBuffer,
    deadline: Instant,
) -> Result<(), HandshakeError> {
    let first = incoming.filled().first().copied().unwrap_or_default();
    if first == TLS_HANDSHAKE || first == TLS_ALERT {
        return Ok(());
    }
    // A client that sends single bytes gets only a short time.
    let deadline = deadline.min(Instant::now() + SNIFF_TIME);
    while incoming.filled().len() < SNIFF_BYTES && !incoming.filled().contains(&b'\n') {
        if receive(socket, incoming, deadline).is_err() {
            break;
        }
    }
    Err(HandshakeError::NotTls(looks_like(incoming.filled())))
}

fn looks_like(bytes: &[u8]) -> ApparentProtocol {
    let starts = |with: &[&str]| with.iter().any(|with| bytes.starts_with(with.as_bytes()));
    if starts(&[
        "GET ",
        "HEAD ",
        "POST ",
        "PUT ",
        "DELETE ",
        "OPTIONS ",
        "CONNECT ",
        "PATCH ",
        "TRACE ",
        "PRI * HTTP/",
        "HTTP/",
    ]) {
        ApparentProtocol::Http
    } else if starts(&["SSH-"]) {
        ApparentProtocol::Ssh
    } else if bytes
        .iter()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
    {
        ApparentProtocol::Text
    } else {
        ApparentProtocol::Unknown
    }
}

/// The TLS record types with which a handshake begins.
const TLS_HANDSHAKE: u8 = 22;
const TLS_ALERT: u8 = 21;
const SNIFF_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_common_protocols_by_their_first_bytes() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], ApparentProtocol::Http),
            (b"HTTP/1.1 400 Bad Request\r\n", ApparentProtocol::Http),
            (b"SSH-2.0-OpenSSH_9.6\r\n", ApparentProtocol::Ssh),
            (b"EHLO there\r\n", ApparentProtocol::Text),
            (b"GETAWAY", ApparentProtocol::Text),
            (b"\x00\xff\x01", ApparentProtocol::Unknown),
        ] {
            assert_eq!(looks_like(bytes), expected, "{bytes:?}");
        }
    }
}
