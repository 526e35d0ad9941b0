//! Defines the trait for making a client's connections, and the reasons for failure. Does not connect (`daemon`), open
//! transfers or keep streams running (`client`, `link`).
//!
//! The session gets each connection from a connector, and therefore does not know whether a daemon is dialled or ssh starts an
//! agent. A connector reports how many channels there are, and connects over a given one.

use std::time::Duration;

use godwit_net::{Connection, DialError};
use godwit_proto::{ErrorCode, Opened};

use super::GreetError;

/// Makes the connections of one transfer.
pub trait Connector: Send + Sync {
    /// The connection that opens the transfer, after `first` was sent on it; each call may start the other end.
    ///
    /// A connection that carries no blocks, or few, is used for everything else, and not replaced when it is lost.
    ///
    /// # Errors
    /// Why there is no connection.
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal>;

    /// Called when the other end has answered the latest opening and announced its other addresses. From now on, more channels
    /// are searched while the transfer runs. Each channel proves the identity of the other end in TLS before it carries
    /// contents, even unencrypted ones.
    ///
    /// # Errors
    /// A channel that the user requested cannot be used.
    fn opened(&self, opened: &Opened) -> Result<(), Refusal> {
        let _ = opened;
        Ok(())
    }

    /// Number of channels; 0 is the channel of the connection that opened. It only grows, and restarts with each
    /// [`Self::open`]. It is below [`CHANNELS_MAX`](godwit_proto::CHANNELS_MAX).
    fn channels(&self) -> u32 {
        1
    }

    /// One more connection, over the channel of this number, to the end that was last opened.
    ///
    /// # Errors
    /// Why there is no connection. After [`Refusal::Gone`] the transfer is opened again once no stream is left.
    fn join(&self, channel: u32) -> Result<Connection, Refusal>;

    /// Whether [`join`](Self::join) can make any number of connections, because this end dials.
    fn makes_more(&self) -> bool {
        true
    }

    /// The other end, for messages.
    fn peer(&self) -> String;

    /// Called when the transfer has ended: pending connections are no longer wanted, unless the transfer is opened again.
    fn give_up(&self) {}

    /// Called when connections are no longer needed. After a `complete` transfer the other end needs nothing from this end;
    /// otherwise it may have to be stopped.
    fn end(&self, complete: bool) {
        let _ = complete;
    }
}

/// If a peer closes connections immediately for this long, it is not a flooded daemon.
const FLOODED_PATIENCE: Duration = Duration::from_secs(20);

/// Reason why a transfer could not begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No connection could be made.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The first frames failed.
    #[error(transparent)]
    Greet(#[from] GreetError),
    /// The daemon refused the request.
    #[error("{peer}: {message}")]
    Daemon {
        /// The daemon.
        peer: String,
        /// The daemon's code.
        code: ErrorCode,
        /// The daemon's message.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// The other end could not be started.
    #[error("{peer}: {message}")]
    Start {
        /// The machine on which it was to run.
        peer: String,
        /// The reason, and what to do.
        message: String,
        /// Cause for programs.
        code: ErrorCode,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// The other end no longer runs: it must be started, and the transfer opened, again.
    #[error("{0}")]
    Gone(String),
    /// The other end runs, but no allowed path for a data connection to it works.
    #[error("{0}")]
    Unreachable(String),
    /// This side refused.
    #[error("{message}")]
    Own {
        /// Cause for programs.
        code: ErrorCode,
        /// The reason, and what to do.
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

    /// Cause for programs.
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
                GreetError::Stream(_)
                | GreetError::Wire { .. }
                | GreetError::TooLong { .. }
                | GreetError::Unexpected { .. } => ErrorCode::PROTOCOL,
            },
            Self::Daemon { code, .. } | Self::Start { code, .. } | Self::Own { code, .. } => *code,
            Self::Gone(_) => ErrorCode::LOST,
            Self::Unreachable(_) => ErrorCode::UNREACHABLE,
        }
    }

    /// The peer that the refusal names, if any.
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
            Self::Daemon { peer, .. } | Self::Start { peer, .. } => Some(peer.clone()),
            _ => None,
        }
    }

    /// Whether a later attempt may succeed without any change by the user.
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

    /// How long to retry the connection that opens a transfer. A flooded daemon closes connections before it knows the client,
    /// and a full daemon reports that it is full. Any other failure is reported to the user at once.
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

    /// Whether the cause is the peers' identities, or their rights.
    pub fn is_authentication(&self) -> bool {
        matches!(
            self.code(),
            ErrorCode::AUTH | ErrorCode::NOT_GRANTED | ErrorCode::IDENTITY | ErrorCode::SSH_DENIED
        )
    }
}
