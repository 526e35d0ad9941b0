//! Owns the reasons for which a manifest is not written.
//! Does not name the manifest; the keeper's message does.

use std::io;

use godwit_engine::PANICKED;
use godwit_store::manifest::{LineError, ManifestError};

/// Why a manifest is not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The draft, its final name, or notes on disk cannot be written or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The finished draft cannot be read again to leave failed entries out.
    #[error("the draft of the manifest cannot be read back: {0}")]
    Draft(#[from] ManifestError),
    /// The other machine sent a line that no manifest has.
    #[error("the other machine sent an invalid line of the manifest: {0}")]
    ReceivedLine(#[from] LineError),
    /// A noted line cannot be decoded.
    #[error("a stored line of the manifest cannot be decoded; please report this")]
    NotedLine,
    /// The transfer ended before it began.
    #[error("the transfer never began")]
    NeverBegan,
    /// A thread that takes digests panicked.
    #[error("{PANICKED}")]
    Panicked,
}
