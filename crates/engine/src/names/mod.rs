//! Lists of names that select entries, of any length: from a file or pipe, or streamed from a client to a daemon. Does
//! not look up the names (`ListWork` of `tree` does).
//!
//! In a pull the client streams the list in numbered parts, at most `PARTS_AHEAD_MAX` ahead of the daemon. Parts that a
//! dying stream may have lost are sent again. A list from a pipe is kept on disk, so that a transfer can be opened
//! again.

mod feed;
mod lines;
mod queue;

use std::time::Duration;

pub(crate) use feed::{FeedWatch, NameFeed};
pub use lines::{LineNames, ListBytes};
pub use queue::{NameQueue, QueueNames};

/// Longest wait for names before a thread checks whether the transfer still wants them.
pub const NAMES_WAIT: Duration = Duration::from_millis(200);

/// Supplies the names of a list, in order.
pub trait Names: Send {
    /// Appends some names to `out`, each followed by a zero byte; at most about 128 KiB. Returns the available names
    /// instead of waiting for more, and waits for the first one at most `wait`.
    fn next(&mut self, out: &mut Vec<u8>, wait: Duration) -> Supply;
}

/// Result of a request for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// Names were appended; ask again.
    Some,
    /// No name yet; ask again.
    NotYet,
    /// The list has ended; some names may have been appended.
    End,
    /// The list cannot be read further, so its other names are unknown.
    Failed(String),
}
