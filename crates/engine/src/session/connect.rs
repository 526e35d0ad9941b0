//! How a client's connections are made: the trait, and why there may be none.
//! Makes none (`daemon`), opens no transfer and keeps no stream up (`client`, `link`).
//!
//! The session asks a connector for each connection, and so does not know whether a daemon is dialled or ssh starts an agent. A
//! connector says how many channels there are, and connects over a given one.

use std::time::Duration;

use godwit_net::{Connection, DialError};
use godwit_proto::{ErrorCode, Opened};

use super::GreetError;

/// Makes the connections of one transfer.
pub trait Connector: Send + Sync {
    /// The connection that opens the transfer, with `first` sent on it; may start the other end, each time anew.
    ///
    /// A connection that does not carry blocks, or few, is used for everything else, and not replaced when it is lost.
    ///
    /// # Errors
    /// Why there is none.
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal>;

    /// The other end has answered to what was opened last: its word on where else it may be reached. Further channels are
    /// looked for beside the transfer, from now on; none where contents go `in_clear`, which was meant for the way that was named.
    ///
    /// # Errors
    /// A channel that the user asked for cannot be had.
    fn opened(&self, opened: &Opened, in_clear: bool) -> Result<(), Refusal> {
        let _ = (opened, in_clear);
        Ok(())
    }

    /// How many channels there are; their numbers begin with 0, that of the connection that opened. Grows only, and from
    /// nothing anew with each [`Self::open`]. Below [`CHANNELS_MAX`](godwit_proto::CHANNELS_MAX).
    fn channels(&self) -> u32 {
        1
    }

    /// One more connection to the end that was opened last, over the channel of this number.
    ///
    /// # Errors
    /// Why there is none. [`Refusal::Gone`] has the transfer opened anew once no stream is left.
    fn join(&self, channel: u32) -> Result<Connection, Refusal>;

    /// Whether [`join`](Self::join) can make as many connections as are wanted: they are made from this end.
    fn makes_more(&self) -> bool {
        true
    }

    /// The other end, for messages.
    fn peer(&self) -> String;

    /// What the user may want to know of the connections, once the transfer is open.
    fn advice(&self) -> Option<String> {
        None
    }

    /// The end is known: a connection that is being waited for is not wanted any more, unless the transfer is opened anew.
    fn give_up(&self) {}

    /// No connection is wanted any more. After a `complete` transfer the other end needs nothing from this one; else it
    /// may have to be ended.
    fn end(&self, complete: bool) {
        let _ = complete;
    }
}

/// What closes connections at once for so long is no daemon that is flooded.
const FLOODED_PATIENCE: Duration = Duration::from_secs(20);

/// Why a transfer did not come about.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The first frames.
    #[error(transparent)]
    Greet(#[from] GreetError),
    /// The daemon said no.
    #[error("{peer}: {message}")]
    Daemon {
        /// The daemon.
        peer: String,
        /// Its code.
        code: ErrorCode,
        /// Its words.
        message: String,
        /// Whether the same may succeed later.
        retryable: bool,
    },
    /// The other end could not be started.
    #[error("{message}")]
    Start {
        /// Why, and what to do.
        message: String,
        /// Why, for programs.
        code: ErrorCode,
        /// Whether the same may succeed later.
        retryable: bool,
    },
    /// The other end runs no more: it has to be started, and the transfer opened, anew.
    #[error("{0}")]
    Gone(String),
    /// The other end runs, and no connection for data can be made to it in any way that is allowed.
    #[error("{0}")]
    Unreachable(String),
    /// This side.
    #[error("{message}")]
    Own {
        /// Why, for programs.
        code: ErrorCode,
        /// Why, and what to do.
        message: String,
    },
}

impl Refusal {
    /// A refusal by this side.
    pub fn own(code: ErrorCode, message: impl ToString) -> Self {
        Self::Own {
            code,
            message: message.to_string(),
        }
    }

    /// Why, for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Dial(error) => match error {
                DialError::Resolve { .. }
                | DialError::Connect { .. }
                | DialError::Broken { .. } => ErrorCode::UNREACHABLE,
                DialError::NotGodwit { .. } => ErrorCode::NOT_GODWIT,
                DialError::WrongIdentity { .. } => ErrorCode::IDENTITY,
                DialError::Deadline { .. } => ErrorCode::SILENT,
                DialError::Tls { .. } => ErrorCode::TLS,
            },
            Self::Greet(error) => match error {
                GreetError::Stream(error) if error.is_retryable() => ErrorCode::UNREACHABLE,
                GreetError::Deadline { .. } => ErrorCode::SILENT,
                GreetError::Lacks { .. } | GreetError::Version { .. } => ErrorCode::VERSION,
                GreetError::Stream(_) | GreetError::Wire { .. } | GreetError::Unexpected { .. } => {
                    ErrorCode::PROTOCOL
                }
            },
            Self::Daemon { code, .. } | Self::Start { code, .. } | Self::Own { code, .. } => *code,
            Self::Gone(_) => ErrorCode::LOST,
            Self::Unreachable(_) => ErrorCode::UNREACHABLE,
        }
    }

    /// The peer that it is about, where the refusal names one.
    pub fn peer(&self) -> Option<String> {
        match self {
            Self::Dial(
                DialError::Resolve { address, .. }
                | DialError::Connect { address, .. }
                | DialError::NotGodwit { address, .. }
                | DialError::WrongIdentity { address, .. }
                | DialError::Deadline { address }
                | DialError::Broken { address, .. }
                | DialError::Tls { address, .. },
            ) => Some(address.to_string()),
            Self::Daemon { peer, .. } => Some(peer.clone()),
            _ => None,
        }
    }

    /// Whether a later attempt may do better, with nothing changed by anyone.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Dial(error) => error.is_retryable(),
            Self::Greet(GreetError::Stream(error)) => error.is_retryable(),
            Self::Greet(GreetError::Deadline { .. }) => true,
            Self::Gone(_) => true,
            Self::Greet(_) | Self::Own { .. } | Self::Unreachable(_) => false,
            Self::Daemon { retryable, .. } | Self::Start { retryable, .. } => *retryable,
        }
    }

    /// For how long the connection that opens a transfer is tried again: a daemon that is flooded closes connections before it knows
    /// whose they are, and one that is full says so. Of anything else the user hears at once.
    pub fn load_patience(&self) -> Option<Duration> {
        match self {
            Self::Dial(DialError::Broken { .. } | DialError::Deadline { .. }) => {
                Some(FLOODED_PATIENCE)
            }
            Self::Daemon {
                code: ErrorCode::LIMIT,
                retryable: true,
                ..
            } => Some(Duration::MAX),
            _ => None,
        }
    }

    /// Whether the cause is who the peers are, or what they may do.
    pub fn is_authentication(&self) -> bool {
        matches!(
            self.code(),
            ErrorCode::AUTH | ErrorCode::NOT_GRANTED | ErrorCode::IDENTITY | ErrorCode::SSH_DENIED
        )
    }
}
