//! Owns the wait before something may be tried again: longer after each failed trial, shorter after a success. Does
//! not decide which trials are made.

use std::time::Duration;

/// Waiting times double up to this.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(320);

/// A time before which no trial may begin; the wait grows with each failed trial.
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

    /// Records that the trial that began at `began` failed. On a long path a trial lasts longer, and costs more.
    pub(super) fn failed(&mut self, now: Duration, began: Duration) {
        self.until = now + self.wait.max(now.saturating_sub(began));
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }

    /// Allows no trial before `until`.
    pub(super) fn hold_until(&mut self, until: Duration) {
        self.until = self.until.max(until);
    }

    /// Allows no trial for one wait.
    pub(super) fn rest(&mut self, now: Duration) {
        self.hold_until(now + self.wait);
    }

    pub(super) fn won(&mut self) {
        self.wait = (self.wait / 2).max(self.shortest);
    }

    /// Forgets earlier results, so that a trial may begin at once.
    pub(super) fn forget(&mut self, now: Duration) {
        self.until = self.until.min(now);
        self.wait = self.shortest;
    }
}
