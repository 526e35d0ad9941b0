//! Holds the requests of the receiving client to the sender while the transfer runs (limit, priority), and decides
//! when to repeat them. Sends nothing. Time is an argument.

use std::time::{Duration, Instant};

use godwit_proto::{Limit, priority};

use crate::limits;

/// Requests to the sender, and the state that the sender reports.
#[derive(Debug, Default)]
pub(crate) struct SenderRequests {
    limit: Option<u64>,
    background: Option<bool>,
    said: Option<Instant>,
    obeyed: Option<(u64, Option<bool>)>,
}

impl SenderRequests {
    pub(super) fn ask_limit(&mut self, limit: u64) {
        (self.limit, self.said) = (Some(limit), None);
    }

    pub(super) fn ask_background(&mut self, background: bool) {
        (self.background, self.said) = (Some(background), None);
    }

    /// The limit and the priority requested last.
    pub(crate) const fn asked(&self) -> (Option<u64>, Option<bool>) {
        (self.limit, self.background)
    }

    /// Whether the sender reports that it runs in the background; `None` if unknown.
    pub(crate) fn background(&self) -> Option<bool> {
        self.obeyed.and_then(|(_, background)| background)
    }

    /// Records that the sender obeys this limit: it reported so, or was opened with it.
    pub(crate) fn obeys(&mut self, limit: u64, number: u32) {
        self.obeyed = Some((limit, priority::is_background(number)));
    }

    /// The request to send now: a new request immediately, a request that the sender does not obey at intervals.
    pub(super) fn poll_limit(&mut self, now: Instant) -> Option<Limit> {
        let known = self.obeyed;
        let is_obeyed = self
            .limit
            .is_none_or(|limit| known.is_some_and(|(known, _)| known == limit))
            && (self.background.is_none() || self.background == self.background());
        let since = |said: Instant| now.saturating_duration_since(said);
        let waits = match self.said {
            Some(said) => is_obeyed || since(said) < SAY_EVERY,
            None => self.limit.is_none() && self.background.is_none(),
        };
        if waits {
            return None;
        }
        // A changed priority is sent with the current limit, as soon as that limit is known.
        let bytes_per_second = self.limit.or_else(|| known.map(|(limit, _)| limit))?;
        self.said = Some(now);
        Some(Limit {
            bytes_per_second,
            priority: self.background.map_or(0, priority::of),
        })
    }
}

/// Requests are repeated as often as the sender reports its state.
const SAY_EVERY: Duration = limits::STATUS_EVERY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_until_it_is_obeyed() {
        let mut asked = SenderRequests::default();
        let now = Instant::now();
        let later = now + SAY_EVERY;
        asked.obeys(7, priority::NORMAL);
        assert_eq!(asked.poll_limit(now), None, "nothing was asked for");
        asked.ask_background(true);
        let wanted = Some(Limit {
            bytes_per_second: 7,
            priority: priority::BACKGROUND,
        });
        assert_eq!(asked.poll_limit(now), wanted);
        assert_eq!(asked.poll_limit(now), None);
        assert_eq!(asked.poll_limit(later), wanted, "it does not obey yet");
        asked.obeys(7, priority::BACKGROUND);
        assert_eq!(asked.poll_limit(later + SAY_EVERY), None);
        asked.ask_limit(9);
        let wanted = Some(Limit {
            bytes_per_second: 9,
            priority: priority::BACKGROUND,
        });
        assert_eq!(asked.poll_limit(later), wanted);
        asked.obeys(9, priority::BACKGROUND);
        assert_eq!(asked.poll_limit(later + SAY_EVERY), None);
        asked.obeys(9, priority::NORMAL);
        assert_eq!(
            asked.poll_limit(later + SAY_EVERY),
            wanted,
            "it has forgotten"
        );
    }

    #[test]
    fn a_limit_stays_as_it_is_where_only_the_priority_changes() {
        let mut asked = SenderRequests::default();
        let now = Instant::now();
        asked.ask_background(false);
        assert_eq!(asked.poll_limit(now), None, "the limit is not known yet");
        asked.obeys(0, 0);
        let said = asked.poll_limit(now).expect("something");
        assert_eq!(
            (said.bytes_per_second, said.priority),
            (0, priority::NORMAL)
        );
    }
}
