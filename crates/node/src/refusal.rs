//! What a peer is told of a destination that it cannot have.
//! Decides nothing; `begin` does.

use godwit_engine::tree::DestinationError;
use godwit_proto::ErrorCode;

use crate::Shared;
use crate::allow::No;

/// What the peer is told of a destination that cannot be had: its own name for it, and nothing of other users or of this machine's
/// paths. The log has the rest.
pub(crate) fn refusal(shared: &Shared, error: &DestinationError, asked: &[u8]) -> No {
    let asked = String::from_utf8_lossy(asked);
    let (code, message) = match error {
        DestinationError::Busy { same: true, .. } => (
            ErrorCode::BUSY,
            format!(
                "the same transfer to {asked} is running already, and its client is there; wait for it, or stop that one first"
            ),
        ),
        DestinationError::Busy { .. } => (
            ErrorCode::BUSY,
            format!("another transfer writes to {asked}, or above or below it; wait for that one, or name another place"),
        ),
        DestinationError::Journal { .. } => (
            ErrorCode::DESTINATION,
            "no journal can be kept for this transfer; the log of the other side says why, and its operator can mend it".to_owned(),
        ),
        DestinationError::Unsuitable(_) | DestinationError::Store(_) => {
            (ErrorCode::DESTINATION, error.to_string())
        }
    };
    if !matches!(error, DestinationError::Unsuitable(_)) {
        shared.log(&format!("{asked}: refused: {error}"));
    }
    No {
        code,
        message,
        retryable: false,
    }
}
