//! Lists of names that say which entries are meant, however long: from a file or pipe, or streamed from a client to a daemon.
//! Does not look the names up (`ListWork` of `tree`).
//!
//! In a pull the client streams the list in numbered parts, at most `PARTS_AHEAD_MAX` ahead of those that the daemon has taken.
//! Parts that a dying stream may have lost are sent again. A list from a pipe is kept on disk, so that a transfer can be opened
//! anew.

mod feed;
mod lines;
mod queue;

use std::time::Duration;

pub(crate) use feed::{FeedWatch, NameFeed};
pub use lines::{LineNames, ListBytes};
pub use queue::{NameQueue, QueueNames};

/// Longest wait for names before a thread looks whether the transfer still wants them.
pub const NAMES_WAIT: Duration = Duration::from_millis(200);

/// Gives the names of a list, in order.
pub trait Names: Send {
    /// Appends some names to `out`, each followed by a zero byte; at most about 128 KiB of them. Gives what there is rather than wait
    /// for more, and waits for the first no longer than `wait`.
    fn next(&mut self, out: &mut Vec<u8>, wait: Duration) -> Supply;
}

/// What came of asking for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// Some were appended; ask again.
    Some,
    /// None yet; ask again.
    NotYet,
    /// The list has ended; some may have been appended.
    End,
    /// The list cannot be read on: it is not known what else it names.
    Failed(String),
}
