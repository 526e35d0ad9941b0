//! Owns the record of a benchmark's time: the runs themselves, and the work around them. Makes no
//! comparisons, and provides no figures of contenders.

use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

/// Time of one case, by kind of work.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Spent {
    /// Making data sets.
    #[serde(serialize_with = "seconds")]
    pub(crate) making: Duration,
    /// Running contenders, including their start and end.
    #[serde(serialize_with = "seconds")]
    pub(crate) running: Duration,
    /// Making copies for second runs, and dropping caches.
    #[serde(serialize_with = "seconds")]
    pub(crate) preparing: Duration,
    /// Checking the copies.
    #[serde(serialize_with = "seconds")]
    pub(crate) checking: Duration,
    /// Removing the copies.
    #[serde(serialize_with = "seconds")]
    pub(crate) removing: Duration,
}

impl Spent {
    /// The sum of all times.
    pub(crate) fn total(&self) -> Duration {
        self.making + self.running + self.preparing + self.checking + self.removing
    }

    /// The text for the user.
    pub(crate) fn describe(&self) -> String {
        let parts = [
            ("making", self.making),
            ("running", self.running),
            ("preparing", self.preparing),
            ("checking", self.checking),
            ("removing", self.removing),
        ];
        let said = parts.map(|(what, time)| format!("{what} {:.1}", time.as_secs_f64()));
        let total = self.total().as_secs_f64();
        format!("{total:.1} s: {}", said.join(", "))
    }
}

/// Adds the time that `work` takes to `time`.
pub(crate) fn timed<T>(time: &mut Duration, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    *time += started.elapsed();
    result
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let mut spent = Spent::default();
        assert_eq!(timed(&mut spent.making, || 7), 7);
        spent.making = Duration::from_secs(1);
        spent.running = Duration::from_secs(2);
        spent.preparing = Duration::from_secs(3);
        spent.checking = Duration::from_secs(4);
        spent.removing = Duration::from_millis(500);
        assert_eq!(spent.total(), Duration::from_millis(10_500));
        let said = "10.5 s: making 1.0, running 2.0, preparing 3.0, checking 4.0, removing 0.5";
        assert_eq!(spent.describe(), said);
    }
}
