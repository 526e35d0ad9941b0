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
    /// A look has ended.
    was_seen: bool,
    /// Start of the look in progress.
    looking_since: Option<Instant>,
    /// Time since which the checks at the start of a node have waited for the file system.
    unchecked_since: Option<Instant>,
    is_closed: bool,
    room: Option<Room>,
    /// When the export last became usable after it was not.
    returned: Option<Instant>,
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

    /// Notes the end of a look. `room` is `None` if the export cannot be used.
    pub fn ends(&self, now: Instant, room: Option<Room>) {
        let mut state = self.lock();
        let was_silent = is_silent(state.looking_since, now);
        state.silences += u64::from(was_silent);
        if room.is_some() && (was_silent || state.was_seen && state.room.is_none()) {
            state.returned = Some(now);
        }
        (state.looking_since, state.room, state.was_seen) = (None, room, true);
    }

    /// Whether the export became usable again within this time.
    #[must_use]
    pub fn returned_within(&self, time: Duration, now: Instant) -> bool {
        let returned = self.lock().returned;
        returned.is_some_and(|returned| now.saturating_duration_since(returned) < time)
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
        let state = self.lock();
        let since = state.unchecked_since.or(state.looking_since)?;
        drop(state);
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

    /// Notes that the checks of a node's start wait for the file system. Until these calls have ended, the mount counts as one that does
    /// not answer.
    pub fn awaits_checks(&self, since: Instant) {
        self.lock().unchecked_since = Some(since);
    }

    /// Notes that the checks have found the directory as it must be.
    pub fn passes_checks(&self) {
        self.lock().unchecked_since = None;
    }

    /// Notes that the checks have found that the directory must not be exported. The export counts as silent for good.
    pub fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Whether the checks have found that the directory must not be exported.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
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
    fn an_export_that_can_be_used_again_has_returned_for_a_while() {
        let (watched, start) = (Watched::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let room = Some(Room { free: 1, total: 2 });
        let look = |seconds, room| {
            watched.begins(at(seconds));
            watched.ends(at(seconds), room);
            watched.returned_within(Duration::from_secs(10), at(seconds))
        };
        assert!(!look(0, room), "it was usable from the first look on");
        assert!(!look(1, None));
        assert!(look(2, room) && look(11, room));
        assert!(!look(12, room));
        watched.begins(at(13));
        watched.ends(at(30), room);
        assert!(
            watched.returned_within(Duration::from_secs(1), at(30)),
            "it was silent"
        );
    }

    #[test]
    fn an_export_that_is_not_checked_counts_as_silent_though_its_file_system_answers() {
        let (watched, start) = (Watched::default(), Instant::now());
        let later = start + Duration::from_secs(5);
        let hangs = |watched: &Watched| watched.hangs_for(later).is_some();
        watched.awaits_checks(start);
        watched.begins(later);
        watched.ends(later, None);
        assert!(hangs(&watched));
        watched.passes_checks();
        assert!(!hangs(&watched));
        watched.awaits_checks(start);
        watched.close();
        assert!(hangs(&watched) && watched.is_closed());
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
