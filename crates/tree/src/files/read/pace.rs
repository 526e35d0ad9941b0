//! Owns the judgement whether other nodes are asked for data that they may lack: the time of a question, and the time that it saves.
//! Asks no node, and reads no clock: the times are arguments.
//!
//! A question takes a round trip and an open file at the other end, which is longer than a fast export takes for the whole file.

use std::time::Duration;

/// A shorter file is small.
pub(super) const SMALL_BYTES: u64 = 1 << 20;

/// If questions do not pay, one is asked after this many reads: nodes and exports get faster and slower. The number doubles up to the
/// second one.
const PAUSE_FIRST: u32 = 8;
const PAUSE_MOST: u32 = 256;
/// A new value is this part of a mean.
const PART: u32 = 4;
/// A lower time counts for more: a question that dials, or a busy disk, is soon over.
const PART_DOWN: u32 = 2;
/// The share of questions with a result, if all have one.
const ALL: u32 = 1024;

/// The times of one transfer, for reads of one kind.
#[derive(Debug)]
pub(super) struct Pace {
    own: Option<Duration>,
    asked: Option<Duration>,
    /// The share of questions with a result.
    hits: u32,
    pause: u32,
    skipped: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            own: None,
            asked: None,
            hits: ALL,
            pause: PAUSE_FIRST,
            skipped: 0,
        }
    }
}

impl Pace {
    /// Whether the next read begins with a question.
    pub(super) fn asks(&mut self) -> bool {
        let (Some(own), Some(asked)) = (self.own, self.asked) else {
            return true;
        };
        // Each question takes its time, and saves a read only if it has a result.
        if asked.saturating_mul(ALL) < own.saturating_mul(self.hits) {
            (self.pause, self.skipped) = (PAUSE_FIRST, 0);
            return true;
        }
        self.skipped += 1;
        if self.skipped < self.pause {
            return false;
        }
        self.skipped = 0;
        self.pause = self.pause.saturating_mul(2).min(PAUSE_MOST);
        true
    }

    /// A question took this time.
    pub(super) fn handle_answer(&mut self, took: Duration, has_result: bool) {
        self.asked = Some(mean(self.asked, took));
        let new = if has_result { ALL } else { 0 };
        self.hits = (self.hits * (PART - 1) + new) / PART;
    }

    /// A read of the own export took this time.
    pub(super) fn handle_read(&mut self, took: Duration) {
        self.own = Some(mean(self.own, took));
    }
}

fn mean(old: Option<Duration>, new: Duration) -> Duration {
    let Some(old) = old else { return new };
    let part = match new < old {
        true => PART_DOWN,
        false => PART,
    };
    old.saturating_mul(part - 1).saturating_add(new) / part
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(50);
    const QUESTION: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(20);
    const FILES: u32 = 100_000;

    /// Reads small files, of which other nodes have all or none. Returns the number of questions.
    fn questions(pace: &mut Pace, files: u32, own: Duration, have: bool) -> u32 {
        let mut asked = 0;
        for _ in 0..files {
            let asks = pace.asks();
            if asks {
                asked += 1;
                pace.handle_answer(QUESTION, have);
            }
            if !(asks && have) {
                pace.handle_read(own);
            }
        }
        asked
    }

    #[test]
    fn a_fast_export_is_read_without_questions() {
        let asked = questions(&mut Pace::default(), FILES, FAST, false);
        assert!(asked < FILES / 200, "{asked}");
        let mut pace = Pace::default();
        pace.handle_read(FAST);
        let asked = questions(&mut pace, FILES, FAST, true);
        assert!(asked < FILES / 200, "{asked}");
    }

    #[test]
    fn a_slow_export_is_spared_if_the_others_have_the_files() {
        let mut pace = Pace::default();
        let asked = questions(&mut pace, FILES, SLOW, true);
        assert_eq!(asked, FILES);
        let asked = questions(&mut pace, FILES, SLOW, false);
        assert!(asked < FILES / 200, "{asked}");
        // Further files are there again.
        let asked = questions(&mut pace, FILES, SLOW, true);
        assert!(asked > FILES / 100 * 95, "{asked}");
    }

    #[test]
    fn a_first_question_that_dials_does_not_end_the_others() {
        let mut pace = Pace::default();
        pace.handle_answer(SLOW * 5, true);
        pace.handle_read(SLOW);
        let asked = questions(&mut pace, 1_000, SLOW, true);
        assert!(asked > 800, "{asked}");
    }
}
