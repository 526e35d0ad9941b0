//! Owns what a node knows of the file system of one export: its room, whether it answers, and whether the cluster knows it for another one.
//! Looks at no file system, so that reading it never blocks: a thread of the node looks (`node/watch`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A look that takes longer than this is one at a file system that does not answer.
const HANGS_AFTER: Duration = Duration::from_secs(4);
/// How long a file system may be silent while something uses it. One that fails over is back by then.
pub const SILENT_MAX: Duration = Duration::from_secs(10);

/// Room of a file system, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Free bytes for users without privileges.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// The last look at one export. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Watched(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// A thread looks at it again and again.
    is_watched: bool,
    /// The look that has not ended.
    looking_since: Option<Instant>,
    room: Option<Room>,
    is_odd: bool,
    /// How often it was silent for longer than it may be, and answered again.
    silences: u64,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look begins.
    pub fn begins(&self, now: Instant) {
        let mut state = self.lock();
        (state.is_watched, state.looking_since) = (true, Some(now));
    }

    /// The look has ended.
    pub fn ends(&self, now: Instant, room: Option<Room>) {
        let mut state = self.lock();
        state.silences += u64::from(is_silent(state.looking_since, now));
        (state.looking_since, state.room) = (None, room);
    }

    /// How often the file system was silent for longer than it may be ([`SILENT_MAX`]), this moment included. Whoever comes out of a call
    /// that hung finds another number than before, whether the look has ended or not.
    #[must_use]
    pub fn silences(&self, now: Instant) -> u64 {
        let state = self.lock();
        state.silences + u64::from(is_silent(state.looking_since, now))
    }

    /// How long the file system has not answered; None where it answers, or is not watched.
    #[must_use]
    pub fn hangs_for(&self, now: Instant) -> Option<Duration> {
        let since = self.lock().looking_since?;
        let lasts = now.saturating_duration_since(since);
        (lasts > HANGS_AFTER).then_some(lasts)
    }

    /// The room when it was last seen; none while the file system does not answer. Where nothing watches the export, `look` looks.
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

    /// The cluster knows that the export is another file system here than at most nodes, or knows no more so.
    pub fn set_odd(&self, is_odd: bool) {
        self.lock().is_odd = is_odd;
    }

    /// Whether the cluster knows the export for another file system than that of the other nodes.
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
