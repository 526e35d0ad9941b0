//! Owns the judgement of another node of the pool: whether it is asked, and how long it is left out after a fault. Asks nothing, and reads no
//! clock: the time is an argument.

use std::fmt;
use std::time::Duration;

/// The first time that a silent node is left out. It doubles with each further fault.
const OUT_FIRST: Duration = Duration::from_secs(10);
const OUT_MOST: Duration = Duration::from_secs(300);
/// A node that sent wrong bytes is left out for this long at least.
const OUT_LIAR: Duration = Duration::from_secs(600);

/// Refusals in a row after which a node rests, and the time of the rest. The time doubles with each further refusal.
const REFUSALS: u32 = 16;
const REST_FIRST: Duration = Duration::from_secs(1);
const REST_MOST: Duration = Duration::from_secs(60);

/// The misdeed of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// The node did not answer in time.
    Silent,
    /// The node answered, and did not give the extent in time.
    Slow,
    /// The bytes are not those that it named.
    Lied,
}

impl fmt::Display for Misdeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "it does not answer",
            Self::Slow => "it gives data too slowly",
            Self::Lied => "it sent wrong bytes, which were not used",
        })
    }
}

/// The judgement of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    out: Option<(Duration, Misdeed)>,
    faults: u32,
}

impl Watch {
    /// Whether the node is asked at this time.
    #[must_use]
    pub fn may_ask(&self, now: Duration) -> bool {
        self.left_out(now).is_none()
    }

    /// Why the node is left out at this time, and for how much longer.
    #[must_use]
    pub fn left_out(&self, now: Duration) -> Option<(Misdeed, Duration)> {
        let (until, misdeed) = self.out?;
        let left = until.saturating_sub(now);
        (!left.is_zero()).then_some((misdeed, left))
    }

    /// The node gave what it was asked for. Answers to earlier questions do not let a node in again.
    pub fn handle_good(&mut self, now: Duration) {
        if self.may_ask(now) {
            *self = Self::default();
        }
    }

    /// A node answers a question in words. One that was silent for the first time had perhaps started again, and is asked for extents. One
    /// that then gives none stays out: it would hold readers up after each of its words.
    pub fn handle_alive(&mut self, now: Duration) {
        if let (Some((Misdeed::Silent, _)), 1) = (self.left_out(now), self.faults) {
            self.out = Some((now, Misdeed::Silent));
        }
    }

    /// The node did wrong. Returns how long the node is left out, or None if it is left out already: many readers may find the
    /// same fault.
    pub fn handle_fault(&mut self, now: Duration, misdeed: Misdeed) -> Option<Duration> {
        let worse = misdeed == Misdeed::Lied;
        if let Some((known, _)) = self.left_out(now)
            && (!worse || known == misdeed)
        {
            return None;
        }
        // A node that restarts each night has no row of faults.
        let is_over = |(until, _): (Duration, _)| now > until.saturating_add(OUT_MOST);
        if self.out.is_some_and(is_over) {
            self.faults = 0;
        }
        let doubled = OUT_FIRST.saturating_mul(1 << self.faults.min(8));
        let lasts = match worse {
            true => OUT_LIAR,
            false => doubled.min(OUT_MOST),
        };
        self.faults = self.faults.saturating_add(1);
        self.out = Some((now.saturating_add(lasts), misdeed));
        Some(lasts)
    }
}

/// The refusals of one node about one export. A node that sees other inodes or times there never has what it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    row: u32,
    rests: u32,
    until: Duration,
}

impl Refusals {
    /// Whether the node is asked at this time.
    #[must_use]
    pub fn may_ask(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// The node refused what it could have read.
    pub fn handle_refused(&mut self, now: Duration) {
        self.row = self.row.saturating_add(1);
        // Questions that were on their way are no news.
        if self.row < REFUSALS || !self.may_ask(now) {
            return;
        }
        let doubled = REST_FIRST.saturating_mul(1 << self.rests.min(8));
        self.rests = self.rests.saturating_add(1);
        self.until = now.saturating_add(doubled.min(REST_MOST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_node_is_left_out_longer_each_time_until_it_answers() {
        let mut watch = Watch::default();
        assert!(watch.may_ask(at(0)));
        assert_eq!(watch.handle_fault(at(0), Misdeed::Silent), Some(at(10)));
        assert_eq!(watch.handle_fault(at(1), Misdeed::Slow), None, "no news");
        watch.handle_good(at(2));
        assert!(!watch.may_ask(at(9)), "a late answer changes nothing");
        watch.handle_alive(at(9));
        assert!(watch.may_ask(at(9)), "it answered a look");
        assert_eq!(watch.handle_fault(at(10), Misdeed::Slow), Some(at(20)));
        watch.handle_alive(at(11));
        assert!(!watch.may_ask(at(11)), "a slow node answers, too");
        let mut now = at(30);
        for _ in 0..12 {
            let lasts = watch.handle_fault(now, Misdeed::Silent).expect("news");
            assert!(lasts <= OUT_MOST);
            now += lasts;
        }
        watch.handle_good(now);
        assert_eq!(watch, Watch::default());
    }

    #[test]
    fn a_node_that_answers_in_words_alone_stays_out() {
        let mut watch = Watch::default();
        assert_eq!(watch.handle_fault(at(0), Misdeed::Silent), Some(at(10)));
        watch.handle_alive(at(3));
        assert!(watch.may_ask(at(3)), "it may have started again");
        assert_eq!(watch.handle_fault(at(5), Misdeed::Silent), Some(at(20)));
        watch.handle_alive(at(8));
        assert!(!watch.may_ask(at(24)));
        assert!(watch.may_ask(at(25)));
        assert_eq!(watch.handle_fault(at(900), Misdeed::Silent), Some(at(10)));
    }

    #[test]
    fn a_node_that_always_refuses_is_asked_less() {
        let mut refusals = Refusals::default();
        for _ in 0..REFUSALS {
            assert!(refusals.may_ask(at(5)));
            refusals.handle_refused(at(5));
        }
        refusals.handle_refused(at(5));
        assert!(!refusals.may_ask(at(5)));
        assert!(refusals.may_ask(at(6)));
        refusals.handle_refused(at(6));
        assert!(!refusals.may_ask(at(7)));
        assert!(refusals.may_ask(at(8)));
        for _ in 0..40 {
            refusals.handle_refused(at(100));
            refusals.until = Duration::ZERO;
        }
        refusals.handle_refused(at(100));
        assert!(refusals.may_ask(at(100) + REST_MOST));
    }

    #[test]
    fn a_liar_is_left_out_even_if_it_was_silent_before() {
        let mut watch = Watch::default();
        watch.handle_fault(at(0), Misdeed::Silent);
        assert_eq!(watch.handle_fault(at(1), Misdeed::Lied), Some(OUT_LIAR));
        assert_eq!(watch.handle_fault(at(2), Misdeed::Lied), None);
        assert_eq!(watch.left_out(at(2)), Some((Misdeed::Lied, at(599))));
        assert!(watch.may_ask(at(601)));
    }
}
