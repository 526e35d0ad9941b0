//! Owns the observed state of the file system of one export: its free space, whether it answers, and whether other nodes see another one.
//! Reads no file system, so that access to it never blocks: a thread of the node looks (`node/watch`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A look that takes longer than this means that the file system does not answer.
const HANGS_AFTER: Duration = Duration::from_secs(4);
/// How long a file system may be silent while in use. A file system that fails over usually returns within this time.
pub const SILENT_MAX: Duration = Duration::from_secs(10);

/// Room of a file system, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Free bytes for users without privileges.
    pub free: u64,
    /// Total bytes.
    pub total: u64,
}

/// The last look at one export. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Watched(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// A thread looks at the export periodically.
    is_watched: bool,
    /// Start of the look in progress.
    looking_since: Option<Instant>,
    room: Option<Room>,
    is_odd: bool,
    /// Silences that lasted too long and have ended.
    silences: u64,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the start of a look.
    pub fn begins(&self, now: Instant) {
        let mut state = self.lock();
        (state.is_watched, state.looking_since) = (true, Some(now));
    }

    /// Notes the end of a look.
    pub fn ends(&self, now: Instant, room: Option<Room>) {
        let mut state = self.lock();
        state.silences += u64::from(is_silent(state.looking_since, now));
        (state.looking_since, state.room) = (None, room);
    }

    /// Silences longer than [`SILENT_MAX`], including a current one. A caller that returns from a hanging call sees another number than
    /// before, whether or not the look has ended.
    #[must_use]
    pub fn silences(&self, now: Instant) -> u64 {
        let state = self.lock();
        state.silences + u64::from(is_silent(state.looking_since, now))
    }

    /// How long the file system has not answered; None if it answers, or is not watched.
    #[must_use]
    pub fn hangs_for(&self, now: Instant) -> Option<Duration> {
        let since = self.lock().looking_since?;
        let lasts = now.saturating_duration_since(since);
        (lasts > HANGS_AFTER).then_some(lasts)
    }

    /// The last known space; None while the file system does not answer. If the export is not watched, `look` looks.
    pub fn room_or(&self, look: impl FnOnce() -> Option<Room>) -> Option<Room> {
        let state = self.lock();
        if !state.is_watched {
            drop(state);
            return look();
        }
        let room = state.room;
        drop(state);
        room.filter(|_| self.hangs_for(Instant::now()).is_none())
    }

    /// Sets whether the export is another file system here than at most nodes of the cluster.
    pub fn set_odd(&self, is_odd: bool) {
        self.lock().is_odd = is_odd;
    }

    /// Whether the export is another file system here than at most nodes of the cluster.
    #[must_use]
    pub fn is_odd(&self) -> bool {
        self.lock().is_odd
    }
}

fn is_silent(since: Option<Instant>, now: Instant) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) > SILENT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_does_not_end_is_seen_and_passes() {
        let (watched, start) = (Watched::default(), Instant::now());
        let room = Room { free: 1, total: 2 };
        assert_eq!(watched.room_or(|| Some(room)), Some(room));
        watched.begins(start);
        assert_eq!(watched.room_or(|| Some(room)), None);
        watched.ends(start, Some(room));
        watched.begins(start);
        assert_eq!(watched.room_or(|| None), Some(room));
        assert_eq!(watched.hangs_for(start + HANGS_AFTER), None);
        let late = Duration::from_secs(7);
        assert_eq!(watched.hangs_for(start + late), Some(late));
        watched.ends(start + late, None);
        assert_eq!(watched.hangs_for(start + late), None);
    }

    #[test]
    fn a_long_silence_counts_from_its_time_on_and_stays_counted() {
        let (watched, start) = (Watched::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        watched.begins(start);
        assert_eq!((watched.silences(at(9)), watched.silences(at(11))), (0, 1));
        watched.ends(at(12), None);
        assert_eq!(watched.silences(at(12)), 1);
        watched.begins(at(13));
        watched.ends(at(14), None);
        assert_eq!(watched.silences(at(60)), 1);
    }
}
