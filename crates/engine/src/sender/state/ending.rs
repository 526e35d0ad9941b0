//! Whether anything is left to do.
//! Does not end anything.

use super::State;

impl State {
    /// True once, when nothing is left but to say so.
    pub(crate) fn should_finish(&mut self) -> bool {
        // The thread that took the last cut does not come back for a file without any.
        self.active.retain(|file| !file.is_spent());
        let idle = self.scan_done
            && self.unanswered == 0
            && self.reading == 0
            && self.outstanding.is_empty()
            && self.again.is_empty()
            && self.notices.is_empty()
            && self.to_digest.is_empty()
            && self.small.is_empty()
            && self.large.is_empty()
            && self.active.is_empty();
        idle && self.end.is_none() && !std::mem::replace(&mut self.finish_queued, idle)
    }

    /// True once for each last item: see [`Self::only_waits`].
    pub(crate) fn is_drained(&mut self) -> bool {
        self.only_waits()
            && std::mem::replace(&mut self.drained_said, self.next_seq) != self.next_seq
    }

    /// Everything is written, and only durability is waited for.
    pub(crate) fn only_waits(&self) -> bool {
        self.scan_done
            && self.unanswered == 0
            && self.reading == 0
            && self.unwritten == 0
            && !self.outstanding.is_empty()
            && self.again.is_empty()
            && self.notices.is_empty()
            && self.to_digest.is_empty()
            && self.small.is_empty()
            && self.large.is_empty()
            && self.active.is_empty()
    }
}
