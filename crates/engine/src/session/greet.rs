//! Exchanges the first frames of a connection: hello both ways, one frame with a deadline, an error as the
//! final frame. Does not decide rights.

use std::io;
use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError};
use godwit_proto::hello::capability;
use godwit_proto::{
    Agreed, Error as WireFailure, ErrorCode, Frame, Hello, Open, PartialOpen, VersionMismatch,
    WireError, negotiate,
};

/// Time within which the other side must send its hello, and then the frame after it.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// Reason why the first frames failed.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// The connection failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The received bytes are not a valid frame.
    #[error("{peer}: the peer broke the protocol: {error}")]
    Wire {
        /// The other side.
        peer: String,
        /// The decoder's error.
        error: WireError,
    },
    /// Another frame arrived than the expected one.
    #[error("{peer}: the peer broke the protocol: {what}")]
    Unexpected {
        /// The other side.
        peer: String,
        /// The frame that arrived.
        what: String,
    },
    /// No frame arrived in time.
    #[error("{peer}: no answer within {} s", deadline.as_secs())]
    Deadline {
        /// The other side.
        peer: String,
        /// Length of the deadline.
        deadline: Duration,
    },
    /// The other side lacks a needed capability.
    #[error(
        "{peer}: the node there ({software}) is too old for {what}; nothing was started. Update the node, or leave this feature out"
    )]
    Lacks {
        /// The other side.
        peer: String,
        /// Name and version of its program.
        software: String,
        /// The missing capability.
        what: &'static str,
    },
    /// The frame was longer than the other side may send now, and was not kept.
    #[error("{peer}: the request is longer than the node takes from a peer that it does not know")]
    TooLong {
        /// The other side.
        peer: String,
    },
    /// The two sides have no protocol version in common.
    #[error("{peer}: {mismatch}")]
    Version {
        /// The other side.
        peer: String,
        /// Both sides' versions.
        mismatch: VersionMismatch,
    },
}

/// This program's hello.
pub fn our_hello() -> Hello {
    Hello::ours(
        concat!("godwit ", env!("CARGO_PKG_VERSION")),
        capability::ALL,
    )
}

/// Makes sure that the other side knows all of `needed`.
///
/// # Errors
/// Contains the program that is too old, and the missing capability.
pub fn require_capability(theirs: &Hello, needed: u64, peer: &str) -> Result<(), GreetError> {
    let lacking = needed & !theirs.capabilities;
    if lacking == 0 {
        return Ok(());
    }
    Err(GreetError::Lacks {
        peer: peer.to_owned(),
        software: theirs.software.escape_default().to_string(),
        what: capability::name(lacking),
    })
}

/// Waits for one frame without payload.
///
/// # Errors
/// The connection or the frame failed, or no frame arrived within `deadline`.
pub fn receive_frame(stream: &mut dyn Stream, deadline: Duration) -> Result<Frame, GreetError> {
    receive_frame_while(stream, deadline, deadline, &|| true)
}

/// Like [`receive_frame`]; `goes_on` is called after every `every`, and ends the wait by returning false.
pub(super) fn receive_frame_while(
    stream: &mut dyn Stream,
    deadline: Duration,
    every: Duration,
    goes_on: &dyn Fn() -> bool,
) -> Result<Frame, GreetError> {
    let until = Instant::now() + deadline;
    loop {
        if let Some((prelude, head)) = stream.try_recv()? {
            if head.len() < prelude.head_bytes as usize {
                return Err(GreetError::TooLong {
                    peer: stream.peer(),
                });
            }
            return match godwit_proto::decode(&prelude, &head) {
                Ok(Frame::Block(_)) => Err(GreetError::Unexpected {
                    peer: stream.peer(),
                    what: "a block before the transfer was open".to_owned(),
                }),
                Ok(frame) => Ok(frame),
                Err(error) => Err(GreetError::Wire {
                    peer: stream.peer(),
                    error,
                }),
            };
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !goes_on() {
            return Err(GreetError::Deadline {
                peer: stream.peer(),
                deadline,
            });
        }
        stream.wait(left.min(every))?;
    }
}

impl GreetError {
    /// Whether the other side ended the connection.
    #[must_use]
    pub fn is_end(&self) -> bool {
        match self {
            Self::Stream(StreamError::Closed { .. }) => true,
            Self::Stream(StreamError::Network { source, .. }) => {
                source.kind() == io::ErrorKind::UnexpectedEof
            }
            _ => false,
        }
    }
}

/// Waits for the rest of an OPEN whose sources take several frames.
///
/// # Errors
/// The connection or a frame failed, or the rest did not arrive within `deadline`.
pub fn receive_rest(
    stream: &mut dyn Stream,
    open: Open,
    deadline: Duration,
) -> Result<Open, GreetError> {
    let until = Instant::now() + deadline;
    let peer = stream.peer();
    let wire = |error| GreetError::Wire {
        peer: peer.clone(),
        error,
    };
    let mut whole = PartialOpen::new(open);
    while whole.waits() {
        let left = until.saturating_duration_since(Instant::now());
        match receive_frame(stream, left)? {
            Frame::Open(next) => whole.add(next).map_err(wire)?,
            other => {
                return Err(GreetError::Unexpected {
                    peer,
                    what: format!("{} instead of the rest of OPEN", other.name()),
                });
            }
        }
    }
    whole.finish().map_err(wire)
}

/// The accepting side's part: receives the client's hello and answers with its own.
///
/// # Errors
/// No hello, or no common version; the client has then received the reason.
pub fn greet_client(stream: &mut dyn Stream, deadline: Duration) -> Result<Agreed, GreetError> {
    let theirs = match receive_frame(stream, deadline)? {
        Frame::Hello(hello) => hello,
        other => {
            return Err(GreetError::Unexpected {
                peer: stream.peer(),
                what: format!("{} instead of hello", other.name()),
            });
        }
    };
    let ours = our_hello();
    let mut head = Vec::new();
    ours.encode(&mut head);
    stream.send(&head, &[])?;
    negotiate(&ours, &theirs).map_err(|mismatch| {
        send_error(stream, ErrorCode::VERSION, &mismatch.to_string(), false);
        GreetError::Version {
            peer: stream.peer(),
            mismatch,
        }
    })
}

/// Sends the reason, and closes. Best effort.
pub fn send_error(stream: &mut dyn Stream, code: ErrorCode, message: &str, retryable: bool) {
    stream.set_stall_limit(Duration::from_secs(2));
    let mut head = Vec::new();
    WireFailure {
        code: code.0,
        message: message.to_owned(),
        retryable,
    }
    .encode(&mut head);
    // The peer receives this, or finds the connection closed.
    let _ = stream.send(&head, &[]);
    stream.shutdown();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_is_recognised_by_the_fields_that_it_lacks() {
        let old = Hello::ours("godwit 0.0\n", capability::ALL & !capability::COMPARISON);
        assert!(require_capability(&old, capability::SELECTION, "h:1").is_ok());
        let needed = capability::COMPARISON | capability::SELECTION;
        let lack = require_capability(&old, needed, "h:1")
            .unwrap_err()
            .to_string();
        assert!(
            lack.contains("sync") && lack.contains("(godwit 0.0\\n)"),
            "{lack}"
        );
        assert!(require_capability(&our_hello(), capability::ALL, "h:1").is_ok());
    }
}
