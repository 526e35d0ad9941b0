//! Computes the rate of one node of a divided job between two samples, from the bytes that the node reports to have written.
//! Reads no clock: all times are the node's, so a late answer changes no rate.

use godwit_api::rest::Timestamp;

use crate::attempt::per_second;

/// The bytes of a node since the last sample.
pub(super) struct Written {
    /// The report that the last sample counted, and the latest one.
    sampled_at: Timestamp,
    latest_at: Timestamp,
    /// The figure of the latest report.
    latest: u64,
    /// Bytes between the two.
    since: u64,
    rate: f64,
}

impl Written {
    /// The first report of a node. Its bytes are no rate: the node may have worked for another controller for long.
    pub(super) const fn first(at: Timestamp, written: u64) -> Self {
        Self {
            sampled_at: at,
            latest_at: at,
            latest: written,
            since: 0,
            rate: 0.0,
        }
    }

    /// Takes a report.
    pub(super) fn add(&mut self, at: Timestamp, written: u64) {
        // The clock of the node was set back.
        if at < self.latest_at {
            (self.sampled_at, self.since) = (at, 0);
        }
        // A new worker of the node counts from zero.
        let new = written.checked_sub(self.latest).unwrap_or(written);
        self.since = self.since.saturating_add(new);
        (self.latest_at, self.latest) = (at, written);
    }

    /// The node does not work on the job now.
    pub(super) const fn rests(&mut self) {
        (self.latest, self.since, self.rate) = (0, 0, 0.0);
    }

    /// Takes a sample: the rate since the last one, or that one's where the node has not reported since.
    pub(super) fn sample(&mut self) -> f64 {
        if self.latest_at > self.sampled_at {
            self.rate = per_second(self.since, (self.sampled_at, self.latest_at));
            (self.sampled_at, self.since) = (self.latest_at, 0);
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_reports_whenever_they_are_asked_for() {
        let mut written = Written::first(Timestamp(0), 0);
        let report = |written: &mut Written, second: i64, bytes| {
            written.add(Timestamp(second * 1_000), bytes);
        };
        report(&mut written, 1, 10);
        report(&mut written, 2, 20);
        // Two reports between two samples, then none, then one over two seconds.
        assert_eq!(written.sample(), 10.0);
        assert_eq!(written.sample(), 10.0);
        report(&mut written, 4, 60);
        assert_eq!(written.sample(), 20.0);
        // A new worker begins at zero.
        report(&mut written, 5, 7);
        assert_eq!(written.sample(), 7.0);
        written.rests();
        assert_eq!(written.sample(), 0.0);
        report(&mut written, 7, 8);
        assert_eq!(written.sample(), 4.0);
        // A clock that was set back.
        report(&mut written, 3, 9);
        report(&mut written, 4, 12);
        assert_eq!(written.sample(), 4.0);
    }

    #[test]
    fn bytes_for_an_earlier_controller_are_no_rate() {
        let mut written = Written::first(Timestamp(1), 12_500_000);
        assert_eq!(written.sample(), 0.0);
        written.add(Timestamp(1_001), 12_500_500);
        assert_eq!(written.sample(), 500.0);
    }
}
