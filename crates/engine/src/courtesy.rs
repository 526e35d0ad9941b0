//! Owns the priority of a thread that works for a transfer, which follows the transfer's own while it runs.
//! Decides nothing: a user does.

use crate::Live;

/// The priority of the calling thread.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    lowered: bool,
}

impl Courtesy {
    /// Sets the calling thread's priority to that of the transfer; returns whether the priority changed.
    pub(crate) fn follow(&mut self, live: &Live) -> bool {
        let background = live.background();
        if background == self.lowered {
            return false;
        }
        self.lowered = background;
        if background {
            godwit_net::lower_thread();
        } else {
            godwit_net::raise_thread();
        }
        true
    }

    /// Whether it yields to others.
    pub(crate) const fn is_lowered(&self) -> bool {
        self.lowered
    }
}
