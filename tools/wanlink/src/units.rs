//! Owns the reading of quantities from the command line: times, rates, sizes, probabilities.
//! Does not know which option they belong to.

use std::time::Duration;

use crate::line::{Loss, Rate};

/// `50ms`, `200us`, `1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let nanoseconds = if text == "0" {
        0
    } else {
        scaled(text, &units, "a time such as 50ms")?
    };
    Ok(Duration::from_nanos(nanoseconds))
}

/// `1Gbit`, `100Mbit`, `2.5Gbit`; `unlimited` for no bottleneck.
pub(crate) fn parse_rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "unlimited" {
        return Ok(None);
    }
    let units = [
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
        ("bit", 1),
    ];
    let bits = scaled(text, &units, "a rate such as 1Gbit")?;
    let rate = Rate::from_bits_per_second(bits)
        .ok_or("a rate is at least 1bit; `unlimited` means none")?;
    Ok(Some(rate))
}

/// `8MiB`, `20kB`, `65536B`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let units = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
    ];
    scaled(text, &units, "a size such as 8MiB")
}

/// `0.1%`, `0%`, down to a billionth.
pub(crate) fn parse_loss(text: &str) -> Result<Loss, String> {
    let parts = scaled(
        text,
        &[("%", 10_000_000)],
        "a share such as 0.1%, at most 100%",
    )?;
    u32::try_from(parts)
        .ok()
        .and_then(Loss::from_parts_per_billion)
        .ok_or_else(|| format!("`{text}` is more than 100%"))
}

/// A decimal number with one of the `units`, each with its worth in the base unit. Fractions of the base unit are cut off.
fn scaled(text: &str, units: &[(&str, u64)], expected: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not {expected}");
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
        .ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_empty_or_huge| wrong())?;
    let tenths: u64 = fraction.parse().map_err(|_empty| wrong())?;
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_long| wrong())?);
    let part = u128::from(tenths) * u128::from(unit) / divisor;
    let total = u128::from(whole) * u128::from(unit) + part;
    u64::try_from(total).map_err(|_huge| format!("`{text}` is too large"))
}

/// Nine digits make a billionth of the largest unit.
const FRACTION_DIGITS_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(parse_duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("0.25us"), Ok(Duration::from_nanos(250)));
        assert_eq!(
            parse_rate("2.5Gbit"),
            Ok(Rate::from_bits_per_second(2_500_000_000))
        );
        assert_eq!(parse_rate("unlimited"), Ok(None));
        assert_eq!(parse_size("8MiB"), Ok(8 << 20));
        assert_eq!(parse_size("20kB"), Ok(20_000));
        let per_mille = Loss::from_parts_per_billion(1_000_000).expect("below one");
        assert_eq!(parse_loss("0.1%"), Ok(per_mille));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (answer, text) in [
            (parse_duration("50").err(), "50"),
            (parse_duration("-1ms").err(), "-1ms"),
            (parse_duration("1e3ms").err(), "1e3ms"),
            (parse_duration(".ms").err(), ".ms"),
            (parse_size("").err(), ""),
            (parse_size("99999999999GiB").err(), "99999999999GiB"),
            (parse_rate("1.2345678901Gbit").err(), "1.2345678901Gbit"),
            (parse_loss("101%").err(), "101%"),
        ] {
            let message = answer.expect("refused");
            assert!(message.contains(&format!("`{text}`")), "{message}");
        }
        assert!(parse_rate("0bit").is_err());
    }
}
