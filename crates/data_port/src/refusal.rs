//! Makes the messages for a transfer that is refused: its destination is not free, or there are too many.
//! Does not decide; `begin` does.

use godwit_net::IdentityId;
use godwit_proto::ErrorCode;
use godwit_tree::DestinationError;

use crate::Shared;
use crate::allow::Denial;
use crate::gate::Full;

/// The answer about a destination that is not available. The answer uses the peer's name for the
/// destination, and reveals no other users and no paths of this machine. The log contains the rest.
pub(crate) fn refusal(
    shared: &Shared,
    peer: IdentityId,
    error: &DestinationError,
    asked: &[u8],
) -> Denial {
    let asked = String::from_utf8_lossy(asked);
    let (code, message) = match error {
        DestinationError::Busy { same: true, .. } => (
            error.code(),
            format!(
                "the same transfer to {asked} is already running, and its client is connected; wait for that transfer, or stop it first"
            ),
        ),
        DestinationError::Busy { .. } => (
            error.code(),
            format!("another transfer writes to {asked}, or above or below it; wait for that transfer, or name another place"),
        ),
        DestinationError::Journal { .. } => (
            error.code(),
            "no journal can be written for this transfer; the log of the other side has the reason, and its operator can correct it".to_owned(),
        ),
        DestinationError::Unsuitable(_)
        | DestinationError::Store(_)
        | DestinationError::Stale(_) => {
            (error.code(), error.to_string())
        }
    };
    if !matches!(error, DestinationError::Unsuitable(_)) {
        shared
            .operator
            .log_peer(peer, &format!("{asked}: refused: {error}"));
    }
    Denial::new(code, message)
}

/// The answer if the earlier transfer of this name ends too slowly: its client does not answer, so it is
/// gone or cut off.
pub(crate) fn silent(
    shared: &Shared,
    peer: IdentityId,
    error: &DestinationError,
    asked: &[u8],
) -> Denial {
    let asked = String::from_utf8_lossy(asked);
    let line = format!("{asked}: refused: {error}; its client does not answer");
    shared.operator.log_peer(peer, &line);
    let message = format!(
        "the same transfer to {asked} has not ended yet, though its client does not answer; run the command again in a moment"
    );
    Denial {
        retryable: true,
        ..Denial::new(error.code(), message)
    }
}

/// The answer if there are too many transfers. Waiting may help while one of them runs.
pub(crate) fn too_many(shared: &Shared, peer: &IdentityId, full: Full) -> Denial {
    let limits = shared.gate.transfers();
    let (running, held) = shared.table.count_of(peer);
    let message = match full {
        Full::Peer => format!(
            "you have {} transfers at this daemon, which is its limit, and {held} of them wait for a disconnected client; finish or cancel one, or ask the operator to raise --transfers-per-peer",
            running + held
        ),
        Full::All => format!(
            "this daemon runs {} transfers, which is its limit; try again later, or ask the operator to raise --transfers-max",
            limits.all
        ),
    };
    Denial {
        retryable: full == Full::All || running > 0,
        ..Denial::new(ErrorCode::LIMIT, message)
    }
}
