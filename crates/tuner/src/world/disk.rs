//! A disk that accepts a batch at once into a cache and then syncs it, while the next batch fills. Does not know
//! streams.

/// Two batches: one is synced while the other fills.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    filled: f64,
    /// Bytes left of the batch that is being synced.
    left: f64,
    /// Speed of this sync in bytes a second.
    speed: f64,
    /// Seconds without acceptance in the last whole second and in the current one, and the length of the current one so
    /// far.
    stalled_before: f64,
    stalled: f64,
    passed: f64,
}

impl Disk {
    /// Whether the disk accepts no data now.
    pub(super) fn is_full(&self, batch: f64) -> bool {
        self.filled >= batch && self.left > 0.0
    }

    /// Whether the disk accepted no data for most of the last whole second.
    pub(super) fn held_up(&self) -> bool {
        self.stalled_before > 0.5
    }

    /// Advances the disk by `tick` seconds in which it receives `bytes`. A sync that begins in this time runs at `rate`.
    pub(super) fn pass(&mut self, tick: f64, bytes: f64, batch: f64, rate: f64) {
        self.stalled += if self.is_full(batch) { tick } else { 0.0 };
        self.passed += tick;
        if self.passed >= 1.0 {
            self.stalled_before = self.stalled;
            (self.stalled, self.passed) = (0.0, 0.0);
        }
        self.filled += bytes;
        self.left = (self.left - self.speed * tick).max(0.0);
        if self.filled >= batch && self.left <= 0.0 {
            self.left = self.filled;
            self.speed = rate;
            self.filled = 0.0;
        }
    }
}
