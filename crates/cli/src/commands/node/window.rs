//! Times of the week with a rate, as people write and read them: `mon-fri 08:00-18:00 100MB/s`.
//! Knows no time zone; a limit has one for all of its windows.

use godwit_api::rest::{NewWindow, WindowView};
use godwit_api::units::human_rate;

use super::submit::limit;
use crate::exit::Failure;

/// Names in the order of the week; 0 is Monday.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Reads a window.
pub(super) fn parse(text: &str) -> Result<NewWindow, Failure> {
    let refused = |why: &str| {
        Failure::usage(format!(
            "--window {text:?}: {why}; write DAYS FROM-TO RATE, as in \"mon-fri 08:00-18:00 100MB/s\""
        ))
    };
    let mut words = text.splitn(3, ' ').map(str::trim);
    let (Some(named), Some(span), Some(rate)) = (words.next(), words.next(), words.next()) else {
        return Err(refused("days, times or rate are missing"));
    };
    let days = days(named).ok_or_else(|| refused("the days cannot be read"))?;
    let (from, to) = span
        .split_once('-')
        .and_then(|(from, to)| Some((minute(from)?, minute(to)?)))
        .filter(|(from, _)| *from < DAY_MINUTES)
        .ok_or_else(|| refused("the times cannot be read"))?;
    Ok(NewWindow {
        days,
        from,
        to,
        rate: Some(limit(rate)?).filter(|rate| *rate > 0),
    })
}

const DAY_MINUTES: u16 = 1_440;

/// `daily`, or days and spans of days, separated by commas.
fn days(text: &str) -> Option<Vec<u8>> {
    let text = text.to_ascii_lowercase();
    if text == "daily" {
        return Some((0..7).collect());
    }
    let number = |day: &str| {
        let at = DAYS.iter().position(|known| *known == day);
        at.and_then(|at| u8::try_from(at).ok())
    };
    let mut days = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        // A span may include the turn from Sunday to Monday.
        let length = (last + 7 - first) % 7 + 1;
        days.extend((0..length).map(|day| (first + day) % 7));
    }
    days.sort_unstable();
    days.dedup();
    Some(days)
}

/// Minutes since midnight; 24:00 is the end of the day.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    let minutes = hour.checked_mul(60)?.checked_add(minute)?;
    (minute < 60 && minutes <= DAY_MINUTES).then_some(minutes)
}

/// The window in the form that can be typed.
pub(super) fn show(window: &WindowView) -> String {
    let time = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let rate = window.rate.map_or_else(|| "none".to_owned(), human_rate);
    format!(
        "{} {}-{} {rate}",
        named(&window.days),
        time(window.from),
        time(window.to)
    )
}

/// Names of days; consecutive ones form a span.
fn named(days: &[u8]) -> String {
    if (0..7).all(|day| days.contains(&day)) {
        return "daily".to_owned();
    }
    let name = |day: u8| DAYS.get(usize::from(day)).copied().unwrap_or("?");
    let mut parts: Vec<String> = Vec::new();
    let mut days: Vec<u8> = days.to_vec();
    days.sort_unstable();
    for span in days.chunk_by(|one, next| *one + 1 == *next) {
        match span {
            [first, .., last] => parts.push(format!("{}-{}", name(*first), name(*last))),
            [only] => parts.push(name(*only).to_owned()),
            [] => {}
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_and_shown_alike() {
        for (text, shown, days) in [
            (
                "mon-fri 08:00-18:00 100MB/s",
                "mon-fri 08:00-18:00 100 MB/s",
                &[0, 1, 2, 3, 4][..],
            ),
            (
                "Sat,sun 00:00-24:00 none",
                "sat-sun 00:00-24:00 none",
                &[5, 6],
            ),
            (
                "daily 22:00-06:00 1 Gbit/s",
                "daily 22:00-06:00 125 MB/s",
                &[0, 1, 2, 3, 4, 5, 6],
            ),
            (
                "sun-mon,wed 7:30-9:00 0",
                "mon,wed,sun 07:30-09:00 none",
                &[0, 2, 6],
            ),
        ] {
            let window = parse(text).expect(text);
            assert_eq!(window.days, days, "{text}");
            let view = WindowView {
                days: window.days,
                from: window.from,
                to: window.to,
                rate: window.rate,
            };
            assert_eq!(show(&view), shown);
        }
    }

    #[test]
    fn invalid_windows_are_refused() {
        for text in [
            "",
            "mon",
            "mon 08:00-18:00",
            "someday 08:00-18:00 1MB",
            "mon- 08:00-18:00 1MB",
            "mon 8-18 1MB",
            "mon 24:00-25:00 1MB",
            "mon 08:60-18:00 1MB",
            "mon 65535:00-18:00 1MB",
        ] {
            let reported = parse(text).expect_err(text).message;
            assert!(reported.contains("write DAYS FROM-TO RATE"), "{reported}");
        }
        assert!(parse("mon 08:00-18:00 fast").is_err());
    }
}
