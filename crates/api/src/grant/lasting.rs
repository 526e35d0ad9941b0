//! Owns the one rule for long work: how often its right is checked again, and how long it continues while rights are unreadable.
//! Reads no clock and no grants: the caller passes both.

use std::time::{Duration, Instant};

/// How often the rights are checked. A fast disk removes about 100,000 files in this time.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A missing right is checked once more after this time: a file of grants is empty for a moment while it is written.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long the work continues while the rights cannot be read.
pub const UNREAD_MAX: Duration = Duration::from_secs(10);

/// Result of a check of a right; `E` says why the right is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Look<E> {
    /// The right is there.
    Holds,
    /// The right is gone.
    Gone(E),
    /// The rights cannot be read.
    Unread(E),
}

/// The right to long work.
#[derive(Debug)]
pub struct Lasting<E> {
    /// When the right was last confirmed.
    held: Instant,
    next: Instant,
    ended: Option<Look<E>>,
}

impl<E> Lasting<E> {
    /// Starts with a right confirmed at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            held: now,
            next: now + LOOK_EVERY,
            ended: None,
        }
    }

    /// Whether the work may continue at `now`. `look` checks the right when that is due; `pause` waits between two checks.
    pub fn holds(
        &mut self,
        now: Instant,
        look: &dyn Fn() -> Look<E>,
        pause: &dyn Fn(Duration),
    ) -> bool {
        if self.ended.is_some() {
            return false;
        }
        if now < self.next {
            return true;
        }
        self.next = now + LOOK_EVERY;
        let mut found = look();
        if !matches!(found, Look::Holds) {
            pause(LOOK_AGAIN_AFTER);
            found = look();
        }
        match found {
            Look::Holds => self.held = now,
            Look::Gone(_) => self.ended = Some(found),
            Look::Unread(_) => self.ended = (now > self.held + UNREAD_MAX).then_some(found),
        }
        self.ended.is_none()
    }

    /// Result of the last check, once the work may not continue.
    pub const fn take_end(&mut self) -> Option<Look<E>> {
        self.ended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_its_right_at_once_and_without_a_readable_right_after_a_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let no_pause = |_| {};
        let holds = || Look::<&str>::Holds;
        let unread = || Look::Unread("unreadable");
        let gone = || Look::Gone("gone");
        let mut right = Lasting::new(start);
        assert!(right.holds(at(100), &gone, &no_pause), "not looked at yet");
        assert!(right.holds(at(300), &holds, &no_pause));
        for millis in (600..10_300).step_by(250) {
            assert!(right.holds(at(millis), &unread, &no_pause), "{millis}");
        }
        assert!(!right.holds(at(10_600), &unread, &no_pause));
        assert!(!right.holds(at(20_000), &holds, &no_pause), "it has ended");
        assert_eq!(right.take_end(), Some(Look::Unread("unreadable")));
        let mut right = Lasting::new(start);
        // A file that is being written is checked twice.
        let looks = std::cell::Cell::new(0);
        let written = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                1 => Look::Gone("empty"),
                _ => Look::Holds,
            }
        };
        assert!(right.holds(at(300), &written, &no_pause));
        assert!(!right.holds(at(600), &gone, &no_pause));
        assert_eq!(right.take_end(), Some(Look::Gone("gone")));
    }
}
