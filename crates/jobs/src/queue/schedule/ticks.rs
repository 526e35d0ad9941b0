//! Owns the search for the ticks of a cron expression in a time zone. Its work is bounded, whatever the expression.
//! Keeps nothing (`kept`), and submits nothing.
//!
//! The expressions are those of crontab(5), with an optional field of seconds in front. A tick in the hour that a change to summer time
//! leaves out comes when the clock has moved on, if that day is due. A tick in the hour that comes twice comes once.
//!
//! `croner` alone walks to the year 5000 for an expression that is never due. So the days are searched here, and `croner` finds the time
//! within a day.

use std::iter::successors;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::errors::CronError;
use croner::{Cron, Weekday};
use godwit_api::failure::FailureCode;
use godwit_state::Timestamp;

use crate::basis::error::JobsError;
use crate::basis::zone::{self, check_time_zone};

/// An expression that is not due within this many years is refused.
pub(super) const YEARS_MAX: usize = 10;

/// Days of a search.
const DAYS_MAX: usize = YEARS_MAX * 366;

/// Due days of a search: today, whose ticks may have passed, and days whose ticks all lie in an hour that the zone leaves out. Each of
/// those costs 3,600 steps.
const DUE_DAYS_MAX: usize = 4;

/// Hours that a zone leaves out at most: a day.
const GAP_HOURS_MAX: i64 = 25;

/// An expression that makes sense.
pub(super) struct Ticks {
    cron: Cron,
    /// The same on each day.
    daily: Cron,
    zone: Tz,
}

impl Ticks {
    pub(super) fn parse(cron: &str, zone: &str) -> Result<Self, JobsError> {
        let refused = |error: CronError| {
            JobsError::invalid(
                FailureCode::Invalid,
                format!(
                    "cron: {cron:?}: {error}; write minute, hour, day of the month, month, day of the week, as in `0 22 * * 1-5`"
                ),
            )
        };
        let parsed: Cron = cron.parse().map_err(refused)?;
        let each: Cron = "* * * * *".parse().map_err(refused)?;
        check_time_zone(zone)?;
        let mut daily = parsed.clone();
        daily.pattern.days = each.pattern.days;
        daily.pattern.months = each.pattern.months;
        daily.pattern.days_of_week = each.pattern.days_of_week;
        daily.pattern.years = each.pattern.years;
        Ok(Self {
            cron: parsed,
            daily,
            zone: zone::zone(zone).unwrap_or(Tz::UTC),
        })
    }

    /// The last tick at `at` or before.
    pub(super) fn last(&self, at: Timestamp) -> Option<Timestamp> {
        let at = self.local(at)?;
        let days = successors(Some(at.date_naive()), NaiveDate::pred_opt);
        self.first(days, |day| {
            let (from, inclusive) = match day == at.date_naive() {
                true => (at, true),
                false => (self.behind(day)?, false),
            };
            let found = self.daily.find_previous_occurrence(&from, inclusive);
            found.ok()
        })
    }

    /// The first tick after `at`.
    pub(super) fn next(&self, at: Timestamp) -> Option<Timestamp> {
        let at = self.local(at)?;
        let days = successors(Some(at.date_naive()), NaiveDate::succ_opt);
        self.first(days, |day| {
            let (from, inclusive) = match day == at.date_naive() {
                true => (at, false),
                false => self.start(day)?,
            };
            self.daily.find_next_occurrence(&from, inclusive).ok()
        })
    }

    /// The tick of the first of these days that has one.
    fn first(
        &self,
        days: impl Iterator<Item = NaiveDate>,
        tick: impl Fn(NaiveDate) -> Option<DateTime<Tz>>,
    ) -> Option<Timestamp> {
        let days = days.take(DAYS_MAX);
        let mut due = days.filter(|day| self.is_due(*day)).take(DUE_DAYS_MAX);
        // The time found may lie on a later day, which need not be due.
        let found = due
            .find_map(|day| tick(day).filter(|tick| tick.date_naive() == day && self.is_own(tick)));
        found.map(|tick| Timestamp(tick.timestamp_millis()))
    }

    fn is_due(&self, day: NaiveDate) -> bool {
        let pattern = &self.cron.pattern;
        let weekday = Weekday::from_days_from_sunday(day.weekday().num_days_from_sunday());
        let (year, month) = (day.year(), day.month());
        pattern.year_match(year).unwrap_or(false)
            && pattern.month_match(month).unwrap_or(false)
            && pattern
                .day_match(year, month, day.day(), weekday)
                .unwrap_or(false)
    }

    fn local(&self, at: Timestamp) -> Option<DateTime<Tz>> {
        DateTime::<Utc>::from_timestamp_millis(at.0).map(|utc| utc.with_timezone(&self.zone))
    }

    /// Whether a tick is one of its day, or of the day before it, which is due, too. In Greenland the skipped hour ends at
    /// midnight, and the tick of a day that is not due would move there.
    fn is_own(&self, tick: &DateTime<Tz>) -> bool {
        let before = tick.date_naive().pred_opt();
        tick.time() != NaiveTime::MIN
            || self.daily.is_time_matching(tick).unwrap_or(false)
            || before.is_some_and(|day| self.is_due(day))
    }

    /// The time from which the ticks of a day are searched, and whether it may be one.
    fn start(&self, day: NaiveDate) -> Option<(DateTime<Tz>, bool)> {
        let midnight = day.and_time(NaiveTime::MIN);
        let is_left_out = |second| self.zone.from_local_datetime(&second).earliest().is_none();
        let last = midnight.checked_sub_signed(TimeDelta::seconds(1))?;
        match self.zone.from_local_datetime(&midnight).earliest() {
            Some(first) if is_left_out(last) && !self.is_due(last.date()) => Some((first, true)),
            _ => self.before(day).map(|second| (second, false)),
        }
    }

    /// The last second before a day.
    fn before(&self, day: NaiveDate) -> Option<DateTime<Tz>> {
        let midnight = day.and_time(NaiveTime::MIN);
        (0..GAP_HOURS_MAX).find_map(|hours| {
            let earlier = TimeDelta::seconds(1 + hours * 3_600);
            let second = midnight.checked_sub_signed(earlier)?;
            self.zone.from_local_datetime(&second).latest()
        })
    }

    /// The first second behind a day.
    fn behind(&self, day: NaiveDate) -> Option<DateTime<Tz>> {
        let midnight = day.succ_opt()?.and_time(NaiveTime::MIN);
        (0..GAP_HOURS_MAX).find_map(|hours| {
            let second = midnight.checked_add_signed(TimeDelta::hours(hours))?;
            self.zone.from_local_datetime(&second).earliest()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn ticks_are_in_the_time_zone() {
        let ticks = Ticks::parse("0 22 * * *", "Europe/Berlin").expect("ticks");
        assert_eq!(
            ticks.next(at("2026-11-24T20:00:00Z")),
            Some(at("2026-11-24T21:00:00Z"))
        );
        assert_eq!(
            ticks.last(at("2026-11-24T20:00:00Z")),
            Some(at("2026-11-23T21:00:00Z"))
        );
        assert_eq!(
            ticks.last(at("2026-07-01T20:00:00Z")),
            Some(at("2026-07-01T20:00:00Z"))
        );
    }

    #[test]
    fn an_hour_that_is_left_out_or_comes_twice_has_one_tick() {
        for (cron, zone, from, to) in [
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-03-28T12:00:00Z",
                "2026-03-29T12:00:00Z",
            ),
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-10-24T12:00:00Z",
                "2026-10-25T12:00:00Z",
            ),
            // Here the left out hour begins at midnight.
            (
                "0 0 * * *",
                "Africa/Cairo",
                "2026-04-23T12:00:00Z",
                "2026-04-24T12:00:00Z",
            ),
        ] {
            let ticks = Ticks::parse(cron, zone).expect("ticks");
            let mut seen = Vec::new();
            let mut time = at(from);
            while let Some(tick) = ticks.next(time).filter(|tick| *tick < at(to)) {
                seen.push(tick);
                time = tick;
            }
            assert_eq!(seen.len(), 1, "{seen:?}");
            assert_eq!(ticks.last(at(to)), Some(seen[0]));
        }
    }

    /// Times through a year, and each half hour around the changes of the clock.
    fn times() -> Vec<Timestamp> {
        let mut times: Vec<Timestamp> = (0..60)
            .map(|step| Timestamp(at("2026-01-01T00:00:00Z").0 + step * 532_007_000))
            .collect();
        for change in [
            "2026-03-08T05:00:00Z",
            "2026-03-28T23:00:00Z",
            "2026-04-23T20:00:00Z",
            "2026-10-24T23:00:00Z",
            "2026-10-29T19:00:00Z",
            "2026-11-01T04:00:00Z",
        ] {
            times.extend((0..10).map(|half| Timestamp(at(change).0 + half * 1_800_000)));
        }
        times
    }

    #[test]
    fn the_ticks_are_those_of_croner() {
        for zone in [
            "UTC",
            "Europe/Berlin",
            "Africa/Cairo",
            "America/New_York",
            "America/Nuuk",
        ] {
            for text in [
                "* * * * *",
                "*/7 * * * * *",
                "0 0 * * *",
                "30 2 * * *",
                "*/20 1-3 * * 0",
                "59 23 L * *",
                "30 23 * * 0",
                "30 23 * * 6",
                "30 23 * * *",
                "0 12 15W * *",
                "0 6 1,15 * 1",
                "0 6 8-14 * +2",
                "0 0 29 2 *",
                "0 4 * * 5#2",
                "0 4 * 3,10 0L",
                "0 0 9 1 1 * 2019-2030",
            ] {
                let ticks = Ticks::parse(text, zone).expect("ticks");
                for time in times() {
                    let local = ticks.local(time).expect("a time");
                    let next = ticks.cron.find_next_occurrence(&local, false);
                    let last = ticks.cron.find_previous_occurrence(&local, true);
                    let [last, next] = [last, next]
                        .map(|found| found.ok().map(|found| Timestamp(found.timestamp_millis())));
                    let found = (ticks.last(time), ticks.next(time));
                    assert_eq!(found, (last, next), "{text} {zone} {}", time.utc());
                }
            }
        }
    }

    #[test]
    fn a_search_ends_after_ten_years() {
        let now = at("2026-11-24T20:00:00Z");
        for (cron, zone) in [
            // Found in the year 4991 only.
            ("0 0 0 L * +1#4 4-4996/4,4991", "UTC"),
            // A first Sunday is no 31st.
            ("0 0 31 * +0#1", "UTC"),
            // The hour that is skipped each year.
            ("* * 2 25-31 3 +0", "Europe/Berlin"),
            ("0 0 0 1 1 * 2037", "UTC"),
        ] {
            let ticks = Ticks::parse(cron, zone).expect("ticks");
            assert_eq!(ticks.next(now), None, "{cron}");
        }
        let ticks = Ticks::parse("0 0 0 1 1 * 2036", "UTC").expect("ticks");
        assert_eq!(ticks.next(now), Some(at("2036-01-01T00:00:00Z")));
        assert_eq!(ticks.last(now), None);
    }

    #[test]
    fn a_wrong_schedule_is_refused_with_a_valid_example() {
        let wrong = |cron, zone| Ticks::parse(cron, zone).map(|_| ()).expect_err("wrong");
        assert!(
            wrong("at ten", "UTC")
                .to_string()
                .contains("day of the week")
        );
        assert!(
            wrong("0 22 * * *", "Mars")
                .to_string()
                .contains("Europe/Berlin")
        );
    }
}
