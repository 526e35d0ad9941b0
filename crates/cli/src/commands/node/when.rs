//! Times as people write and read them, in the local time zone.
//! Reads the clock once, when a command begins.

use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::duration::parse_duration;
use godwit_api::rest::Timestamp;
use godwit_api::{civil_date, parse_moment};
use godwit_sys::local_time;

use crate::exit::Failure;

const DAY: i64 = 86_400;

/// The name of this machine's time zone, as `Europe/Berlin`; None without a name that a node knows.
pub(super) fn time_zone() -> Option<String> {
    let name = match std::env::var("TZ") {
        Ok(name) => name.trim_start_matches(':').to_owned(),
        Err(_) => {
            let file = std::fs::canonicalize("/etc/localtime").ok()?;
            let (_, name) = file.to_str()?.split_once("/zoneinfo/")?;
            name.to_owned()
        }
    };
    (godwit_jobs::time_zone_trouble(&name).is_none() && !name.is_empty()).then_some(name)
}

/// The current time, and the offset of local time from UTC.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    now: Timestamp,
    /// Seconds that local time is ahead of UTC at a moment.
    offset_at: fn(i64) -> i64,
}

impl Clock {
    /// The clock of this machine.
    pub(super) fn now() -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            });
        Self {
            now: Timestamp(now),
            // If the time zone is unknown, local time is UTC.
            offset_at: |moment| local_time::offset_at(moment).unwrap_or(0),
        }
    }

    /// The start time of the command.
    pub(super) const fn present(&self) -> Timestamp {
        self.now
    }

    /// Seconds from then until now; 0 for a future time.
    pub(super) fn seconds_since(&self, then: Timestamp) -> u64 {
        u64::try_from((self.now.0 - then.0) / 1_000).unwrap_or(0)
    }

    /// A future begin, as a user gives it to this option. A day means its first moment.
    pub(super) fn parse(&self, option: &str, text: &str) -> Result<Timestamp, Failure> {
        self.parse_at(option, text, Edge::Begin)
    }

    /// A future end, as a user gives it to this option. A day means its end.
    pub(super) fn parse_end(&self, option: &str, text: &str) -> Result<Timestamp, Failure> {
        self.parse_at(option, text, Edge::End)
    }

    fn parse_at(&self, option: &str, text: &str, edge: Edge) -> Result<Timestamp, Failure> {
        let failed = |what: &str| {
            Failure::usage(format!(
                "{option}: {text:?} {what}; write 22:00, friday, 2026-12-24, 2026-12-24T22:00 (all local time), 2026-12-24T22:00Z, or 90min (from now)"
            ))
        };
        let time = self.day(text, edge).or_else(|| self.read(text));
        let time = time.ok_or_else(|| failed("is not a time"))?;
        if time <= self.now {
            return Err(failed("is in the past"));
        }
        Ok(time)
    }

    /// The edge of a day: `today`, `tomorrow`, a day of the week, or a date. A day of the week means the next such day whose
    /// edge is in the future.
    fn day(&self, text: &str, edge: Edge) -> Option<Timestamp> {
        let now = self.now.0.div_euclid(1_000);
        let today = (now + (self.offset_at)(now)).div_euclid(DAY);
        let edge_of = |day: i64| {
            let first = match edge {
                Edge::Begin => day,
                Edge::End => day.checked_add(1)?,
            };
            let seconds = self.utc_of(first.checked_mul(DAY)?);
            seconds.checked_mul(1_000).map(Timestamp)
        };
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "today" => return edge_of(today),
            "tomorrow" => return edge_of(today + 1),
            _ => {}
        }
        if let Some(weekday) = weekday(&text) {
            let mut days = (today..today + 8).filter(|day| weekday_of(*day) == weekday);
            return days.find_map(|day| edge_of(day).filter(|time| *time > self.now));
        }
        let is_date = text.len() == "2026-12-24".len() && text.contains('-');
        let date = parse_moment(&text).filter(|_| is_date)?;
        edge_of(date.seconds.div_euclid(DAY))
    }

    /// A past time, as a user gives it to this option.
    pub(super) fn parse_past(&self, option: &str, text: &str) -> Result<Timestamp, Failure> {
        let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic() && last != 'Z');
        let ago = parse_duration(text).ok().filter(|_| has_unit);
        let ago = ago.and_then(|ago| i64::try_from(ago.as_millis()).ok());
        let time = match ago {
            Some(ago) => self.now.0.checked_sub(ago).map(Timestamp),
            // A time of day alone might mean yesterday.
            None => self.read(text).filter(|_| time_of_day(text).is_none()),
        };
        time.ok_or_else(|| {
            Failure::usage(format!(
                "{option}: {text:?} is not a time: write 2026-11-24, 2026-11-24T22:00 (both local time), 2026-11-24T22:00Z, or 7d (ago)"
            ))
        })
    }

    fn read(&self, text: &str) -> Option<Timestamp> {
        let text = text.trim();
        if let Some(of_day) = time_of_day(text) {
            return Some(self.next(of_day));
        }
        if let Some(moment) = parse_moment(text) {
            let seconds = match has_zone(text) {
                true => moment.seconds,
                false => self.utc_of(moment.seconds),
            };
            let millis = i64::from(moment.nanoseconds / 1_000_000);
            return Some(Timestamp(seconds.checked_mul(1_000)?.checked_add(millis)?));
        }
        // A number alone would be ambiguous.
        let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
        let span = parse_duration(text).ok().filter(|_| has_unit)?;
        let millis = i64::try_from(span.as_millis()).ok()?;
        self.now.0.checked_add(millis).map(Timestamp)
    }

    /// The next moment at which local clocks show this time of the day, in seconds.
    fn next(&self, of_day: i64) -> Timestamp {
        let now = self.now.0.div_euclid(1_000);
        let local = now + (self.offset_at)(now);
        let today = local - local.rem_euclid(DAY) + of_day;
        let candidate = self.utc_of(today);
        let seconds = match candidate > now {
            true => candidate,
            false => self.utc_of(today + DAY),
        };
        Timestamp(seconds * 1_000)
    }

    /// UTC of a local time. A time that a change of the clocks skips counts as if they had not changed yet.
    fn utc_of(&self, local: i64) -> i64 {
        let first = local - (self.offset_at)(local);
        let second = local - (self.offset_at)(first);
        match second + (self.offset_at)(second) == local {
            true => second,
            false => first.max(second),
        }
    }

    /// A time for people: without the date if it is today.
    pub(super) fn show(&self, time: Timestamp) -> String {
        let local = |time: Timestamp| {
            let seconds = time.0.div_euclid(1_000);
            seconds.saturating_add((self.offset_at)(seconds))
        };
        let (at, now) = (local(time), local(self.now));
        let (day, of_day) = (at.div_euclid(DAY), at.rem_euclid(DAY));
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        if day == now.div_euclid(DAY) {
            return format!("{hour:02}:{minute:02}:{second:02}");
        }
        let (year, month, day) = civil_date(day);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

/// The moment that the name of a day means.
#[derive(Clone, Copy)]
enum Edge {
    /// Its first moment.
    Begin,
    /// The first moment after the window.
    End,
}

/// Monday is 0. At least three letters of the name.
fn weekday(text: &str) -> Option<i64> {
    const NAMES: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let found = NAMES.iter().position(|name| name.starts_with(text));
    let found = found.filter(|_| text.len() >= 3)?;
    i64::try_from(found).ok()
}

/// The day of the week of a number of days since 1970-01-01, which was a Thursday.
const fn weekday_of(day: i64) -> i64 {
    (day + 3).rem_euclid(7)
}

/// Seconds of the day in `HH:MM` or `HH:MM:SS`.
fn time_of_day(text: &str) -> Option<i64> {
    let mut fields = text.split(':');
    let mut field = |max: i64| {
        let field = fields.next()?;
        let plain = (1..=2).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit());
        field.parse().ok().filter(|n| plain && *n <= max)
    };
    let (hour, minute) = (field(23)?, field(59)?);
    let second = match text.matches(':').count() {
        1 => 0,
        2 => field(59)?,
        _ => return None,
    };
    Some(hour * 3_600 + minute * 60 + second)
}

/// Whether a text includes its offset from UTC.
fn has_zone(text: &str) -> bool {
    text.starts_with('@')
        || text
            .get(10..)
            .is_some_and(|time| time.contains(['Z', '+', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Berlin in 2026: summer time from 29 March, 01:00 UTC, to 25 October, 01:00 UTC.
    const fn berlin(moment: i64) -> i64 {
        if moment >= 1_774_746_000 && moment < 1_792_890_000 {
            7_200
        } else {
            3_600
        }
    }

    fn at(now: &str) -> Clock {
        Clock {
            now: now.parse().expect("a time"),
            offset_at: berlin,
        }
    }

    #[test]
    fn times_are_read_in_local_time() {
        for (now, text, expected) in [
            ("2026-11-24T12:00:00Z", "22:00", "2026-11-24T21:00:00.000Z"),
            ("2026-11-24T21:00:00Z", "22:00", "2026-11-25T21:00:00.000Z"),
            (
                "2026-11-24T23:30:00Z",
                "0:15:30",
                "2026-11-25T23:15:30.000Z",
            ),
            ("2026-03-28T22:00:00Z", "22:00", "2026-03-29T20:00:00.000Z"),
            ("2026-10-24T21:00:00Z", "22:00", "2026-10-25T21:00:00.000Z"),
            // The clocks skip 02:30 on that day.
            ("2026-03-28T22:00:00Z", "02:30", "2026-03-29T01:30:00.000Z"),
            (
                "2026-11-24T12:00:00Z",
                "2026-12-24",
                "2026-12-23T23:00:00.000Z",
            ),
            (
                "2026-06-24T12:00:00Z",
                "2026-07-01T22:00",
                "2026-07-01T20:00:00.000Z",
            ),
            (
                "2026-11-24T12:00:00Z",
                "2026-12-24T22:00Z",
                "2026-12-24T22:00:00.000Z",
            ),
            (
                "2026-11-24T12:00:00Z",
                "2026-12-24 22:00-05:00",
                "2026-12-25T03:00:00.000Z",
            ),
            ("2026-11-24T12:00:00Z", "90min", "2026-11-24T13:30:00.000Z"),
            ("2026-11-24T12:00:00Z", "90d", "2027-02-22T12:00:00.000Z"),
        ] {
            let read = at(now).parse("--after", text).expect(text);
            assert_eq!(read.rfc3339(), expected, "{text} at {now}");
        }
    }

    #[test]
    fn a_day_ends_when_the_next_one_begins() {
        // 24 November 2026 is a Tuesday.
        for (now, text, begin, end) in [
            (
                "2026-11-24T12:00:00Z",
                "friday",
                "2026-11-26T23",
                "2026-11-27T23",
            ),
            (
                "2026-11-24T12:00:00Z",
                "Fri",
                "2026-11-26T23",
                "2026-11-27T23",
            ),
            (
                "2026-11-24T12:00:00Z",
                "tuesday",
                "2026-11-30T23",
                "2026-11-24T23",
            ),
            (
                "2026-11-24T12:00:00Z",
                "tomorrow",
                "2026-11-24T23",
                "2026-11-25T23",
            ),
            (
                "2026-11-24T12:00:00Z",
                "2026-12-24",
                "2026-12-23T23",
                "2026-12-24T23",
            ),
            // The clocks change in that night.
            (
                "2026-10-24T12:00:00Z",
                "sunday",
                "2026-10-24T22",
                "2026-10-25T23",
            ),
        ] {
            let shown = |time: Timestamp| time.rfc3339()[..13].to_owned();
            let clock = at(now);
            assert_eq!(shown(clock.parse("--after", text).expect(text)), begin);
            assert_eq!(shown(clock.parse_end("--expires", text).expect(text)), end);
        }
        let today = at("2026-11-24T12:00:00Z");
        let end = today.parse_end("--expires", "today").expect("to come");
        assert_eq!(end.rfc3339(), "2026-11-24T23:00:00.000Z");
        assert!(today.parse("--after", "today").is_err());
        assert!(today.parse_end("--expires", "2026-11-23").is_err());
    }

    #[test]
    fn times_that_are_invalid_or_past_are_refused() {
        let clock = at("2026-11-24T12:00:00Z");
        for text in [
            "", "90", "24:00", "22:60", "1:2:3:4", "soon", "fr", "22:00h",
        ] {
            let reported = clock.parse("--after", text).expect_err(text).message;
            assert!(
                reported.contains("is not a time; write 22:00"),
                "{reported}"
            );
        }
        for text in ["2026-11-24T12:00Z", "2025-01-01", "@0", "0min"] {
            let reported = clock.parse("--after", text).expect_err(text).message;
            assert!(reported.contains("is in the past"), "{reported}");
        }
    }

    #[test]
    fn times_of_today_are_shown_without_the_date() {
        let clock = at("2026-11-24T12:00:00Z");
        let show = |text: &str| clock.show(text.parse().expect("a time"));
        assert_eq!(show("2026-11-24T21:00:05Z"), "22:00:05");
        assert_eq!(show("2026-11-24T23:00:05Z"), "2026-11-25 00:00");
        assert_eq!(show("2026-07-01T20:00:00Z"), "2026-07-01 22:00");
    }
}
