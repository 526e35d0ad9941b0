//! Owns the amounts that a job has done so far, in windows of equal length. Makes no forecasts.

use crate::Amount;

/// Largest number of stored windows. When there are more, each two are merged into one of twice the length: the memory does not
/// depend on the length of the job.
const WINDOWS_MAX: usize = 128;

/// The first length of a window, in seconds.
const FIRST_SECONDS: f64 = 1.0;

/// The limit determines the rate of a job whose rate is above this share of the limit; the rate without a limit is then unknown.
const HELD_SHARE: f64 = 0.85;

/// A period of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Time of its end.
    pub(crate) end: f64,
    pub(crate) seconds: f64,
    pub(crate) done: Amount,
    /// Seconds during which the limit determined the rate.
    held: f64,
}

impl Window {
    pub(crate) fn is_held(&self) -> bool {
        self.held > self.seconds / 2.0
    }

    fn and(self, next: Self) -> Self {
        Self {
            end: next.end,
            seconds: self.seconds + next.seconds,
            done: self.done.plus(next.done),
            held: self.held + next.held,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    at: f64,
    done: Amount,
    has_begun: bool,
    step: f64,
    windows: Vec<Window>,
    /// The amount since the last complete window.
    open: Window,
}

impl Seen {
    pub(crate) fn add(&mut self, at: f64, done: Amount, limit: Option<u64>) {
        if !at.is_finite() || (self.has_begun && at <= self.at) {
            return;
        }
        if !self.has_begun || done.bytes < self.done.bytes || done.files < self.done.files {
            // The first call gives the start of the job. Amounts that decrease belong to another count.
            (self.has_begun, self.at, self.done) = (true, at, done);
            return;
        }
        let seconds = at - self.at;
        let fresh = done.minus(self.done);
        let is_held =
            limit.is_some_and(|limit| fresh.bytes as f64 / seconds >= HELD_SHARE * limit as f64);
        self.open = self.open.and(Window {
            end: at,
            seconds,
            done: fresh,
            held: if is_held { seconds } else { 0.0 },
        });
        (self.at, self.done) = (at, done);
        if self.open.seconds >= self.step.max(FIRST_SECONDS) {
            self.windows.push(std::mem::take(&mut self.open));
            if self.windows.len() > WINDOWS_MAX {
                self.step = self.step.max(FIRST_SECONDS) * 2.0;
                let pairs = self.windows.chunks(2);
                self.windows = pairs
                    .map(|pair| pair.iter().copied().reduce(Window::and).unwrap_or_default())
                    .collect();
            }
        }
    }

    /// The amount that is done.
    pub(crate) const fn done(&self) -> Amount {
        self.done
    }

    /// The time of the last call.
    pub(crate) const fn at(&self) -> f64 {
        self.at
    }

    /// The windows, oldest first.
    pub(crate) fn windows(&self) -> &[Window] {
        &self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_job_needs_as_much_memory_as_a_short_one_and_loses_nothing() {
        let mut seen = Seen::default();
        for second in 0..100_000_u64 {
            let done = Amount {
                bytes: second * 10,
                files: second,
            };
            seen.add(second as f64, done, None);
        }
        assert!(seen.windows().len() <= WINDOWS_MAX);
        let bytes: u64 = seen.windows().iter().map(|one| one.done.bytes).sum();
        assert_eq!(bytes + seen.open.done.bytes, 999_990);
    }

    #[test]
    fn amounts_that_fall_and_times_that_stand_are_left_out() {
        let mut seen = Seen::default();
        let bytes = |bytes| Amount { bytes, files: 0 };
        seen.add(0.0, bytes(100), None);
        seen.add(2.0, bytes(300), None);
        seen.add(2.0, bytes(900), None);
        seen.add(f64::NAN, bytes(900), None);
        assert_eq!(seen.done(), bytes(300));
        seen.add(3.0, bytes(50), None);
        seen.add(5.0, bytes(70), None);
        let seconds: f64 = seen.windows().iter().map(|one| one.seconds).sum();
        assert_eq!(seen.windows().len(), 2);
        assert!((seconds - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_window_is_held_by_a_limit_only_if_it_comes_near_to_it() {
        let mut seen = Seen::default();
        let bytes = |bytes| Amount { bytes, files: 0 };
        seen.add(0.0, bytes(0), None);
        seen.add(1.0, bytes(95), Some(100));
        seen.add(2.0, bytes(135), Some(100));
        let held: Vec<bool> = seen.windows().iter().map(Window::is_held).collect();
        assert_eq!(held, [true, false]);
    }
}
