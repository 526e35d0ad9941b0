//! Decides which changes of a site between answering and silence are reported. A site that flaps is reported rarely.
//! Dials no site, and reads no clock.

use std::time::{Duration, Instant};

/// Changes that are reported at once.
const ROOM: u32 = 6;

/// After this time one more change is reported at once.
const ROOM_EVERY: Duration = Duration::from_secs(10 * 60);

/// A change that lasts this long is reported in any case.
const LASTS: Duration = Duration::from_secs(60);

/// How one site answers.
pub(super) struct SiteState {
    /// Whether the last dial was answered, and the time since which the result is the same.
    answers: bool,
    since: Instant,
    /// The state that was reported last. A site that answers from the first look on is not reported.
    reported: bool,
    room: u32,
    /// End of the interval in which changes are counted.
    counted: Instant,
}

impl SiteState {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            answers: true,
            since: now,
            reported: true,
            room: ROOM,
            counted: now,
        }
    }

    /// Whether the site was reported as away, and not as back since.
    pub(super) const fn is_away(&self) -> bool {
        !self.reported
    }

    /// Notes a look. Returns whether a change is to be reported.
    pub(super) fn see(&mut self, answers: bool, now: Instant) -> bool {
        if self.answers != answers {
            (self.answers, self.since) = (answers, now);
        }
        while self.room < ROOM && now.duration_since(self.counted) >= ROOM_EVERY {
            self.room += 1;
            self.counted += ROOM_EVERY;
        }
        let is_due = self.room > 0 || now.duration_since(self.since) >= LASTS;
        if self.reported == answers || !is_due {
            return false;
        }
        if self.room == ROOM {
            self.counted = now;
        }
        self.room = self.room.saturating_sub(1);
        self.reported = answers;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_flaps_notes_few_changes_and_a_changed_one_is_noted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = SiteState::new(start);
        let mut reported = 0;
        // There is a look every 5 s for an hour, and each look finds the opposite of the last.
        for look in 0..720 {
            reported += u32::from(state.see(look % 2 == 1, at(5 * look)));
        }
        assert!((ROOM..=ROOM + 6).contains(&reported), "{reported}");
        // A site that stays away is reported within a minute, and only once.
        let mut reported = Vec::new();
        for look in 720..780 {
            if state.see(false, at(5 * look)) {
                reported.push(5 * (look - 720));
            }
        }
        assert!(reported.len() <= 1 && reported.iter().all(|after| *after <= 60));
        assert!(!state.reported, "the last report is true");
    }

    #[test]
    fn a_site_that_goes_and_comes_back_is_noted_at_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = SiteState::new(start);
        assert!(!state.see(true, start));
        for hour in 1..100 {
            assert!(state.see(false, at(3_600 * hour)));
            assert!(!state.see(false, at(3_600 * hour + 5)));
            assert!(state.see(true, at(3_600 * hour + 10)));
        }
    }
}
