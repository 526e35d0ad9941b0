//! Decides whether work is left. Does not end the transfer.

use super::State;

impl State {
    /// True once: when no work is left except to announce that.
    pub(crate) fn should_finish(&mut self) -> bool {
        // The thread that took the last cut does not remove the file from the list.
        self.files.drop_spent();
        let idle = self.is_all_taken() && self.items.outstanding.is_empty();
        idle && self.end.is_none() && !std::mem::replace(&mut self.finish_queued, idle)
    }

    /// True at the first call after each last item: see [`Self::only_waits`].
    pub(crate) fn is_drained(&mut self) -> bool {
        self.only_waits()
            && std::mem::replace(&mut self.drained_said, self.items.last_seq) != self.items.last_seq
    }

    /// Whether everything is written, and the sender waits only for durability.
    pub(crate) fn only_waits(&self) -> bool {
        self.is_all_taken() && self.items.unwritten() == 0 && !self.items.outstanding.is_empty()
    }

    /// Returns the number of each last item once. Everything is sent then, and no item follows unless one is lost.
    pub(crate) fn announced_end(&mut self) -> Option<u64> {
        let all_sent =
            self.is_ending() && !self.items.outstanding.is_empty() && !self.finish_queued;
        (all_sent
            && std::mem::replace(&mut self.ending_said, self.items.last_seq) != self.items.last_seq)
            .then_some(self.items.last_seq)
    }

    /// Whether everything is read and handed to streams, and only their data is still moving.
    pub(crate) fn is_ending(&mut self) -> bool {
        self.files.drop_spent();
        self.is_all_taken() && !self.items.any_waits()
    }

    /// Whether any data is left to read.
    pub(super) fn has_work(&self) -> bool {
        !(self.again.is_empty()
            && self.notices.is_empty()
            && self.wanted.count() == 0
            && self.files.active.is_empty())
    }

    /// Whether all entries are found, answered and read.
    fn is_all_taken(&self) -> bool {
        let idle = self.reading == 0 && !self.has_work() && !self.again.has_resting();
        self.scan_done && self.unanswered == 0 && idle
    }
}
