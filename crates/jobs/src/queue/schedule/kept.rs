//! Keeps the last and the next tick of each schedule, so that a pass and a list of schedules search only where a tick has passed.
//! Submits nothing; `ticks` searches.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_state::{Schedule, Timestamp};

use super::ticks::Ticks;

/// Schedules whose ticks are kept: more than the state has.
const KEPT_MAX: usize = 12_000;

/// A schedule that does not come due is searched again after a day, in milliseconds.
const AGAIN: i64 = 24 * 3_600 * 1_000;

/// The ticks around a time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Around {
    /// The last one at that time or before.
    pub(super) last: Option<Timestamp>,
    /// The first tick after `last`.
    pub(super) next: Option<Timestamp>,
}

/// The kept ticks of a schedule, and its expression.
struct Kept {
    cron: String,
    time_zone: String,
    /// The kept ticks hold from this time on.
    from: Timestamp,
    /// The kept ticks hold until this time.
    until: Timestamp,
    around: Around,
}

/// The ticks of each schedule, by its id.
#[derive(Default)]
pub(crate) struct KeptTicks(Mutex<HashMap<String, Kept>>);

impl KeptTicks {
    /// The ticks of a schedule around `at`; none if the schedule makes no sense here.
    pub(super) fn of(&self, schedule: &Schedule, at: Timestamp) -> Around {
        let is_same = |kept: &&Kept| {
            kept.cron == schedule.cron
                && kept.time_zone == schedule.time_zone
                && (kept.from..kept.until).contains(&at)
        };
        if let Some(kept) = self.lock().get(&schedule.id).filter(is_same) {
            return kept.around;
        }
        let ticks = Ticks::parse(&schedule.cron, &schedule.time_zone);
        let around = ticks.map_or_else(
            |_| Around::default(),
            |ticks| Around {
                last: ticks.last(at),
                next: ticks.next(at),
            },
        );
        let again = Timestamp(at.0.saturating_add(AGAIN));
        let kept = Kept {
            cron: schedule.cron.clone(),
            time_zone: schedule.time_zone.clone(),
            from: at,
            until: around.next.unwrap_or(again),
            around,
        };
        let mut all = self.lock();
        if all.len() >= KEPT_MAX && !all.contains_key(&schedule.id) {
            all.clear();
        }
        all.insert(schedule.id.clone(), kept);
        around
    }

    /// Forgets all schedules but these.
    pub(super) fn retain(&self, schedules: &[Schedule]) {
        let ids: HashSet<&str> = schedules.iter().map(|one| one.id.as_str()).collect();
        self.lock().retain(|id, _| ids.contains(id.as_str()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(id: &str, cron: &str) -> Schedule {
        Schedule {
            id: id.to_owned(),
            cron: cron.to_owned(),
            time_zone: "UTC".to_owned(),
            owner: "otto".to_owned(),
            role: None,
            template: String::new(),
            disabled: false,
            fired: None,
            reason: None,
            comment: String::new(),
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn ticks_are_searched_only_when_one_has_passed_or_the_schedule_has_changed() {
        let kept = KeptTicks::default();
        let one = schedule("one", "0 22 * * *");
        let around = |last: &str, next: &str| Around {
            last: Some(at(last)),
            next: Some(at(next)),
        };
        let found = kept.of(&one, at("2026-11-24T20:00:00Z"));
        let (last, next) = ("2026-11-23T22:00:00Z", "2026-11-24T22:00:00Z");
        assert_eq!(found, around(last, next));
        // Another value in the table shows that the table answers.
        let mark = around(last, "2026-11-24T21:59:59Z");
        kept.lock().get_mut("one").expect("kept").around = mark;
        for time in ["2026-11-24T20:00:00Z", "2026-11-24T21:59:59Z"] {
            assert_eq!(kept.of(&one, at(time)), mark);
        }
        let other = schedule("one", "0 23 * * *");
        let found = kept.of(&other, at("2026-11-24T20:00:00Z"));
        assert_eq!(found.next, Some(at("2026-11-24T23:00:00Z")));
        for (time, last, next) in [
            ("2026-11-24T22:00:00Z", next, "2026-11-25T22:00:00Z"),
            // The clock was set back.
            ("2026-11-24T20:00:00Z", last, next),
        ] {
            assert_eq!(kept.of(&one, at(time)), around(last, next));
        }
    }

    #[test]
    fn a_schedule_that_never_comes_due_is_kept_and_one_that_is_gone_is_not() {
        let kept = KeptTicks::default();
        let (never, often) = (
            schedule("never", "0 0 31 * +0#1"),
            schedule("often", "* * * * *"),
        );
        let now = at("2026-11-24T20:00:00Z");
        assert_eq!(kept.of(&never, now).next, None);
        assert_eq!(kept.lock()["never"].until, at("2026-11-25T20:00:00Z"));
        kept.of(&often, now);
        kept.retain(std::slice::from_ref(&often));
        assert_eq!(kept.lock().len(), 1);
    }
}
