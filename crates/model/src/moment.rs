//! Moments as people write them: a date, a date with a time, or seconds since 1970.
//! Knows no clock and no time zone but UTC and a written offset.

use chrono::{Datelike as _, NaiveDate};

/// A moment: seconds since 1970-01-01 UTC (negative before), and nanoseconds that count forward from there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Moment {
    /// Since 1970-01-01 UTC.
    pub seconds: i64,
    /// Below 10⁹.
    pub nanoseconds: u32,
}

/// Reads `2026-01-31`, `2026-01-31T12:30`, `2026-01-31T12:30:05.25Z`, `2026-01-31 12:30+02:00` or `@1700000000`; without an offset
/// it is UTC. `None` for anything else.
#[must_use]
pub fn parse_moment(text: &str) -> Option<Moment> {
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let digits = whole.strip_prefix('-').unwrap_or(whole);
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let mut seconds: i64 = whole.parse().ok().filter(|_| plain)?;
        let mut nanoseconds = parse_fraction(fraction)?;
        if whole.starts_with('-') && nanoseconds > 0 {
            seconds = seconds.checked_sub(1)?;
            nanoseconds = 1_000_000_000 - nanoseconds;
        }
        return Some(Moment {
            seconds,
            nanoseconds,
        });
    }
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut fields = date.split('-');
    let year = number(fields.next()?, 4)?;
    let month = number(fields.next()?, 2)?;
    let day = number(fields.next()?, 2)?;
    if fields.next().is_some() {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(
        i32::try_from(year).ok()?,
        u32::try_from(month).ok()?,
        u32::try_from(day).ok()?,
    )?;
    let midnight = i64::from(date.to_epoch_days()) * 86_400;
    let (seconds, nanoseconds) = match time {
        Some(time) => parse_time(time)?,
        None => (0, 0),
    };
    Some(Moment {
        seconds: midnight + seconds,
        nanoseconds,
    })
}

/// Seconds from midnight UTC.
fn parse_time(text: &str) -> Option<(i64, u32)> {
    let (clock, offset) = match text.find(['Z', '+', '-']) {
        Some(at) => (&text[..at], parse_offset(&text[at..])?),
        None => (text, 0),
    };
    let mut fields = clock.split(':');
    let hours = number(fields.next()?, 2)?;
    let minutes = number(fields.next()?, 2)?;
    let (seconds, fraction) = match fields.next() {
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
        None => ("00", ""),
    };
    let seconds = number(seconds, 2)?;
    if fields.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let nanoseconds = parse_fraction(fraction)?;
    Some((hours * 3_600 + minutes * 60 + seconds - offset, nanoseconds))
}

fn parse_offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    (hours <= 14 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Digits behind a point, as nanoseconds; further digits are cut.
fn parse_fraction(digits: &str) -> Option<u32> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    Some(nine.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Year, month and day that many days after 1970-01-01. Days beyond the calendar count as its first or its last.
#[must_use]
pub fn civil_date(days: i64) -> (i64, i64, i64) {
    let end = if days < 0 {
        NaiveDate::MIN
    } else {
        NaiveDate::MAX
    };
    let date = i32::try_from(days)
        .ok()
        .and_then(NaiveDate::from_epoch_days);
    let date = date.unwrap_or(end);
    (
        i64::from(date.year()),
        i64::from(date.month()),
        i64::from(date.day()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<(i64, u32)> {
        parse_moment(text).map(|moment| (moment.seconds, moment.nanoseconds))
    }

    #[test]
    fn moments() {
        let cases = [
            ("1970-01-01", (0, 0)),
            ("1969-12-31", (-86_400, 0)),
            ("2000-02-29", (951_782_400, 0)),
            ("2026-01-31T12:30", (1_769_862_600, 0)),
            ("2026-01-31T12:30:05.25Z", (1_769_862_605, 250_000_000)),
            ("2026-01-31 12:30+02:00", (1_769_855_400, 0)),
            ("2026-01-31 12:30-00:30", (1_769_864_400, 0)),
            ("0001-01-01", (-62_135_596_800, 0)),
            ("9999-12-31T23:59:59", (253_402_300_799, 0)),
            ("@1700000000", (1_700_000_000, 0)),
            ("@-1.25", (-2, 750_000_000)),
        ];
        for (text, moment) in cases {
            assert_eq!(seconds(text), Some(moment), "{text}");
        }
    }

    #[test]
    fn invalid_moments_are_refused() {
        for text in [
            "",
            "@",
            "@x",
            "@+1",
            "2026",
            "2026-1-1",
            "2026-13-01",
            "2026-02-29",
            "2026-01-00",
            "2026-01-01T",
            "2026-01-01T24:00",
            "2026-01-01T12:00:61",
            "2026-01-01T12:00+2",
            "2026-01-01T12:00+15:00",
            "2026-01-01-01",
            "list.txt",
            "run-2026-01-01",
        ] {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }
}
