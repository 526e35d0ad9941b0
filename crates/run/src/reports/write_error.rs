//! Owns the reasons why a manifest was not written. Does not contain the manifest's path; the
//! keeper's message does.

use std::io;

use godwit_engine::PANICKED;
use godwit_store::manifest::{LineError, ManifestError};

/// Why a manifest is not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The draft, its final name, or records on disk cannot be written or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The finished draft cannot be read again to omit failed entries.
    #[error("the draft of the manifest cannot be read back: {0}")]
    Draft(#[from] ManifestError),
    /// The other machine sent an invalid line.
    #[error("the other machine sent an invalid line of the manifest: {0}")]
    ReceivedLine(#[from] LineError),
    /// A recorded line cannot be decoded.
    #[error("a stored line of the manifest cannot be decoded; please report this")]
    NotedLine,
    /// The transfer ended before it began.
    #[error("the transfer never began")]
    NeverBegan,
    /// A thread that computes digests panicked.
    #[error("{PANICKED}")]
    Panicked,
}
