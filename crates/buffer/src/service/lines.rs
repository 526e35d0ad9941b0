//! Bounds the lines of the log about files that go to slow storage: senders choose how many files there are, and cause their troubles.
//! Writes no line.

use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Lines in a row.
const LINES_MAX: u32 = 100;
/// Time after which the log takes one more.
const EVERY: Duration = Duration::from_secs(2);

/// The lines of the last time.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Lines taken, less those for which the time has passed.
    taken: u32,
    /// Until when that number counts the time.
    at: Option<Instant>,
    left_out: u64,
}

impl Lines {
    /// The line as the log takes it now; `None` if there were too many. The next one has the number of those.
    pub(super) fn take<'a>(&mut self, line: &'a str, now: Instant) -> Option<Cow<'a, str>> {
        let at = *self.at.get_or_insert(now);
        let past = now.saturating_duration_since(at).as_secs() / EVERY.as_secs();
        let past = u32::try_from(past).unwrap_or(u32::MAX);
        if past > 0 {
            self.taken = self.taken.saturating_sub(past);
            self.at = Some(now);
        }
        if self.taken >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.taken += 1;
        Some(match std::mem::take(&mut self.left_out) {
            0 => Cow::Borrowed(line),
            more => Cow::Owned(format!(
                "{line} ({more} lines about files in the transfer buffer were left out)"
            )),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_of_many_files_in_trouble_does_not_flood_the_log() {
        let (mut lines, start) = (Lines::default(), Instant::now());
        let taken = (0..1_000).filter(|_| lines.take("lost", start).is_some());
        assert_eq!(taken.count(), 100);
        let later = start + EVERY;
        let line = lines.take("lost", later).expect("one more");
        assert_eq!(
            line,
            "lost (900 lines about files in the transfer buffer were left out)"
        );
        assert!(lines.take("lost", later).is_none());
        let much_later = later + EVERY * 1_000;
        let again = (0..1_000).filter(|_| lines.take("lost", much_later).is_some());
        assert_eq!(again.count(), 100);
    }
}
