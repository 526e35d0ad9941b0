//! Durations as people write them: `5min`, `90s`, `1h30m`, `250ms`.
//! Knows no setting and no clock.

use crate::units::{UnitError, parse_decimal};
use std::time::Duration;
use thiserror::Error;

/// Why a text is not a duration.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum DurationError {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// A number was expected.
    #[error("the value must be numbers with units, as in 5min or 1h30m")]
    NoNumber,
    /// The text after the number is no unit of time.
    #[error("`{0}` is not a unit of time: write ms, s, min, h or d")]
    Unit(String),
    /// The duration is longer than a century.
    #[error("the duration is longer than a century")]
    TooLong,
}

/// Reads a duration: numbers with units (`ms`, `s`, `min` or `m`, `h`, `d`), added up. A number alone counts seconds.
///
/// # Errors
/// Says what is wrong with the text; the result never exceeds a century.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let tail = tail.trim_start();
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == ' ')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let alone = number_end == text.trim().len();
        total += nanoseconds(number, if alone { "s" } else { unit })?;
        rest = tail.trim_start();
    }
    let nanoseconds = u64::try_from(total).unwrap_or(u64::MAX);
    if nanoseconds > NANOSECONDS_MAX {
        return Err(DurationError::TooLong);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The shortest text that [`parse_duration`] reads as this duration, cut to whole milliseconds.
#[must_use]
pub fn exact_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, milliseconds) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ] {
        let count = rest / milliseconds;
        rest %= milliseconds;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    text
}

fn nanoseconds(number: &str, unit: &str) -> Result<u128, DurationError> {
    let (digits, fraction_digits) = parse_decimal(number).map_err(|error| match error {
        UnitError::TooLarge => DurationError::TooLong,
        _ => DurationError::NoNumber,
    })?;
    let multiplier: u128 = match unit {
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(DurationError::Unit(unit.to_owned())),
    };
    let scaled = digits
        .checked_mul(multiplier)
        .ok_or(DurationError::TooLong)?
        / 10_u128.pow(fraction_digits);
    if scaled > u128::from(NANOSECONDS_MAX) {
        return Err(DurationError::TooLong);
    }
    Ok(scaled)
}

/// A century of Julian years: 100 × 365.25 days.
const NANOSECONDS_MAX: u64 = 36_525 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_as_people_write_them() {
        let cases = [
            ("5min", 300_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1h 30min", 5_400_000),
            ("250ms", 250),
            ("1.5h", 5_400_000),
            ("90", 90_000),
            ("0", 0),
            ("2d", 172_800_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn an_invalid_duration_is_refused_with_its_reason() {
        let cases = [
            ("", DurationError::Empty),
            ("soon", DurationError::NoNumber),
            ("-1s", DurationError::NoNumber),
            ("5 parsecs", DurationError::Unit("parsecs".into())),
            ("1h30", DurationError::Unit(String::new())),
            ("36526d", DurationError::TooLong),
        ];
        for (text, error) in cases {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn exact_durations_read_back(milliseconds in 0..NANOSECONDS_MAX / 1_000_000, shift in 0_u32..40) {
            let duration = Duration::from_millis(milliseconds >> shift);
            prop_assert_eq!(parse_duration(&exact_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[0-9. ]{0,25}[a-zµ]{0,4}[0-9]{0,25}[a-z]{0,3}") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert!(duration <= Duration::from_nanos(NANOSECONDS_MAX));
            }
        }
    }
}
