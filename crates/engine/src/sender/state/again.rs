//! Pieces that are read again: at once after a loss, or later because their entry changed while it was read. Decides when
//! each changed entry is tried again, and how often. Does not read entries; the sender does.
//!
//! Each retry is a new attempt under a new generation, after a pause. Bytes of two generations never mix.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use godwit_proto::Record;

use super::Piece;
use crate::limits;

/// An entry that changed while it was read.
pub(crate) struct Retry {
    /// The entry as it was announced.
    pub(crate) record: Record,
    /// Announced bytes that were neither sent nor skipped.
    pub(crate) rest: u64,
    /// Whether only the digest was requested, so that the entry is announced again and not sent.
    pub(crate) announces: bool,
}

/// An entry that has had its last try.
pub(crate) struct Spent {
    pub(crate) retry: Retry,
    pub(crate) tries: u16,
    /// Time since the entry's first try failed.
    pub(crate) over: Duration,
}

/// Pieces to read again, and entries that wait for their next try.
#[derive(Default)]
pub(crate) struct Again {
    pieces: VecDeque<Piece>,
    by_time: BTreeMap<(Instant, u64), Retry>,
    /// Time at which each unsettled entry was first found changed.
    since: HashMap<u64, Instant>,
    /// Distinguishes entries with the same time.
    count: u64,
}

impl Again {
    /// Queues a piece to be read again at once.
    pub(super) fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    /// The next piece to read again.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Whether no piece can be read again at once.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether an entry waits for its next try.
    pub(crate) fn has_resting(&self) -> bool {
        !self.by_time.is_empty()
    }

    /// Removes an entry that has arrived or failed.
    pub(super) fn forget(&mut self, record: &Record) {
        if record.attempt > 0 {
            self.since.remove(&record.id.0);
        }
    }

    /// Keeps the entry until its next try; other work continues meanwhile.
    ///
    /// # Errors
    /// The entry has had its last try.
    pub(crate) fn rest(&mut self, mut retry: Retry, now: Instant) -> Result<(), Box<Spent>> {
        let id = retry.record.id.0;
        let attempt = retry.record.attempt;
        if attempt + 1 >= limits::ATTEMPTS_MAX {
            let since = self.since.remove(&id).unwrap_or(now);
            return Err(Box::new(Spent {
                retry,
                tries: attempt + 1,
                over: now.saturating_duration_since(since),
            }));
        }
        if self.since.len() < limits::WANTED_RECORDS_MAX {
            self.since.entry(id).or_insert(now);
        }
        // The extensions are read again with the entry.
        retry.record.extensions = Vec::new();
        self.count += 1;
        let due = now + limits::RETRY_GAP_FIRST * (1 << attempt);
        self.by_time.insert((due, self.count), retry);
        if self.by_time.len() > limits::RESTING_MAX {
            self.take_first_rested();
        }
        Ok(())
    }

    /// Queues the entries whose pause is over.
    pub(crate) fn take_rested(&mut self, now: Instant) {
        while self.rest_left(now).is_some_and(|left| left.is_zero()) {
            self.take_first_rested();
        }
    }

    /// The time until [`Self::take_rested`] has an entry to queue; `None` if no entry waits.
    pub(crate) fn rest_left(&self, now: Instant) -> Option<Duration> {
        let ((due, _), _) = self.by_time.first_key_value()?;
        Some(due.saturating_duration_since(now))
    }

    fn take_first_rested(&mut self) {
        if let Some((_, retry)) = self.by_time.pop_first() {
            self.pieces.push_back(Piece::Retry(retry));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use godwit_proto::{EntryId, Record};

    use super::super::{Piece, State};
    use super::Retry;
    use crate::limits;

    fn retry(id: u64, attempt: u16) -> Retry {
        Retry {
            record: Record {
                id: EntryId(id),
                attempt,
                ..Record::default()
            },
            rest: 0,
            announces: false,
        }
    }

    fn taken(state: &mut State) -> Option<u64> {
        match state.again.pop()? {
            Piece::Retry(retry) => Some(retry.record.id.0),
            _ => None,
        }
    }

    #[test]
    fn the_gaps_grow_and_end_after_half_a_minute() {
        let begun = Instant::now();
        let (mut state, mut now) = (State::default(), begun);
        let mut gaps = Vec::new();
        for attempt in 0..limits::ATTEMPTS_MAX - 1 {
            assert!(state.again.rest(retry(1, attempt), now).is_ok());
            let gap = state.again.rest_left(now).unwrap();
            state
                .again
                .take_rested(now + gap - Duration::from_millis(1));
            assert_eq!(taken(&mut state), None);
            now += gap;
            state.again.take_rested(now);
            assert_eq!(taken(&mut state), Some(1));
            assert!(!state.again.has_resting());
            gaps.push(gap);
        }
        assert!(gaps.is_sorted() && gaps[0] < Duration::from_secs(1));
        let spent = state.again.rest(retry(1, limits::ATTEMPTS_MAX - 1), now);
        let spent = spent.err().unwrap();
        assert_eq!(spent.tries, limits::ATTEMPTS_MAX);
        assert_eq!(spent.over, now - begun);
        assert!((30..40).contains(&spent.over.as_secs()));
        assert!(state.again.since.is_empty());
    }

    #[test]
    fn the_first_that_is_due_comes_first_and_few_wait() {
        let now = Instant::now();
        let mut state = State::default();
        assert!(state.again.rest(retry(1, 3), now).is_ok());
        assert!(state.again.rest(retry(2, 0), now).is_ok());
        assert!(state.again.rest(retry(3, 0), now).is_ok());
        state.again.take_rested(now + Duration::from_secs(60));
        let order = [(); 3].map(|()| taken(&mut state));
        assert_eq!(order, [Some(2), Some(3), Some(1)]);
        for id in 0..limits::RESTING_MAX as u64 + 2 {
            assert!(state.again.rest(retry(id, 0), now).is_ok());
        }
        assert_eq!(
            [(); 3].map(|()| taken(&mut state)),
            [Some(0), Some(1), None]
        );
    }

    #[test]
    fn nothing_is_at_its_end_while_an_entry_waits() {
        let now = Instant::now();
        let mut state = State {
            scan_done: true,
            ..State::default()
        };
        assert!(state.again.rest(retry(1, 0), now).is_ok());
        assert!(!state.should_finish());
        state.again.take_rested(now + limits::RETRY_GAP_FIRST);
        assert!(taken(&mut state).is_some());
        assert!(state.should_finish());
    }
}
