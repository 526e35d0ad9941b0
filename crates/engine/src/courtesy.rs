//! Sets the priority of a thread that works for a transfer; it follows the transfer's priority. Does not
//! choose the priority; a user does.

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

    /// Whether the priority is lowered.
    pub(crate) const fn is_lowered(&self) -> bool {
        self.lowered
    }
}
