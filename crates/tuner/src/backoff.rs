//! Owns the waiting time until something may be tried again: longer after each trial in vain, shorter after a success.
//! Does not decide what is tried.

use std::time::Duration;

/// Waiting times double up to this.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(320);

/// A time before which nothing is tried, longer after each trial in vain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    pub(super) until: Duration,
    pub(super) wait: Duration,
    shortest: Duration,
}

impl Backoff {
    pub(super) const fn new(shortest: Duration, until: Duration) -> Self {
        Self {
            until,
            wait: shortest,
            shortest,
        }
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// The trial that began at `began` was in vain. On a long path it took long, and cost as much.
    pub(super) fn failed(&mut self, now: Duration, began: Duration) {
        self.until = now + self.wait.max(now.saturating_sub(began));
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }

    /// Nothing is tried before `until`.
    pub(super) fn hold_until(&mut self, until: Duration) {
        self.until = self.until.max(until);
    }

    /// Nothing is tried for one wait.
    pub(super) fn rest(&mut self, now: Duration) {
        self.hold_until(now + self.wait);
    }

    pub(super) fn won(&mut self) {
        self.wait = (self.wait / 2).max(self.shortest);
    }

    /// Earlier results no longer hold: a trial may begin at once.
    pub(super) fn forget(&mut self, now: Duration) {
        self.until = self.until.min(now);
        self.wait = self.shortest;
    }
}
