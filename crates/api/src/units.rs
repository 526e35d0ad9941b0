//! Sizes and rates as people write them: bytes or bits, with SI or IEC prefixes.
//! Knows no setting and no range beyond what a file offset can hold.

use thiserror::Error;

/// The largest size or rate: what a signed 64-bit file offset can hold.
pub const SIZE_BYTES_MAX: u64 = i64::MAX.unsigned_abs();

/// Why a text is not a size or a rate.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum UnitError {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// The text does not begin with a decimal number.
    #[error("the value must begin with a number, as in 64GiB")]
    NoNumber,
    /// The text after the number is no unit.
    #[error(
        "`{0}` is not a unit: write B for bytes or bit for bits, with k, M, G, T, P, E (1000) or Ki, Mi, Gi, Ti, Pi, Ei (1024) before it"
    )]
    Unit(String),
    /// A lone `b` may mean either.
    #[error("`b` may mean bits or bytes: write bit or B")]
    Ambiguous,
    /// The value does not fit a file offset.
    #[error("it is larger than 8EiB less one byte")]
    TooLarge,
}

/// A longer text is cut in a message.
const SHOWN_CHARS: usize = 40;

/// The message about a text in a request that cannot be parsed as a `what`.
pub(crate) fn refused(text: &str, what: &str, error: &UnitError) -> String {
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    format!("`{shown}` is not a {what}: {error}")
}

/// Reads a size: `300MB`, `20Gbit`, `64GiB`, `1.5TiB`, `4096`. A number alone counts bytes.
///
/// Fractions of a byte are rounded up.
///
/// # Errors
/// Says what is wrong with the text; the result never exceeds [`SIZE_BYTES_MAX`].
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(UnitError::Empty);
    }
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let (digits, fraction_digits) = parse_decimal(number)?;
    let (multiplier, bits) = parse_unit(unit.trim_start())?;
    let scaled = digits
        .checked_mul(u128::from(multiplier))
        .ok_or(UnitError::TooLarge)?;
    let divisor = 10_u128.pow(fraction_digits) * if bits { 8 } else { 1 };
    let bytes = u64::try_from(scaled.div_ceil(divisor)).unwrap_or(u64::MAX);
    if bytes > SIZE_BYTES_MAX {
        return Err(UnitError::TooLarge);
    }
    Ok(bytes)
}

/// Reads a rate, in bytes a second: a size, optionally with `/s` behind it; `Mbps` is read as `Mbit/s`.
/// `none` and `0` are 0.
///
/// # Errors
/// As [`parse_size`].
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text == "none" {
        return Ok(0);
    }
    if let Some(size) = text.strip_suffix("/s") {
        return parse_size(size);
    }
    if let Some(size) = text.strip_suffix("bps") {
        return parse_size(&format!("{size}bit"));
    }
    parse_size(text.strip_suffix("ps").unwrap_or(text))
}

/// The shortest text that [`parse_size`] reads as exactly this size: `4MiB`, `1000B`.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    let (divisor, unit) = IEC
        .iter()
        .rev()
        .find(|(divisor, _)| bytes != 0 && bytes.is_multiple_of(*divisor))
        .copied()
        .unwrap_or((1, ""));
    format!("{}{unit}B", bytes / divisor)
}

/// A size for people, three digits or more: `1.50 GB`. Not for parsing.
#[must_use]
pub fn human_size(bytes: u64) -> String {
    let Some((divisor, unit)) = SI.iter().rev().find(|(divisor, _)| bytes >= *divisor) else {
        return format!("{bytes} B");
    };
    let (bytes, divisor) = (u128::from(bytes), u128::from(*divisor));
    let rounded = |scale: u128| (bytes * scale + divisor / 2) / divisor;
    match (rounded(100), rounded(10)) {
        (hundredths @ 0..1000, _) => {
            format!("{}.{:02} {unit}B", hundredths / 100, hundredths % 100)
        }
        (_, tenths @ 0..1000) => format!("{}.{} {unit}B", tenths / 10, tenths % 10),
        _ => format!("{} {unit}B", rounded(1)),
    }
}

/// A number for people: `1.2 M`, and all digits of less than a million. Not for parsing.
#[must_use]
pub fn human_count(number: u64) -> String {
    let (divisor, unit) = match number {
        0..1_000_000 => return number.to_string(),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    // Rounded down, so that the text never exceeds the number.
    let tenths = number / (divisor / 10);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A number with its noun: `1 file`, `2 files`, `0 entries`, `3 batches`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) if noun.ends_with("ch") => format!("{number} {noun}es"),
        (_, None) => format!("{number} {noun}s"),
    }
}

/// A rate for people: `1.50 GB/s`. Not for parsing.
#[must_use]
pub fn human_rate(bytes_per_second: u64) -> String {
    format!("{}/s", human_size(bytes_per_second))
}

/// A decimal number as its digits, and the number of digits after the point.
pub(crate) fn parse_decimal(number: &str) -> Result<(u128, u32), UnitError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (fraction.is_empty() && number.contains('.')) {
        return Err(UnitError::NoNumber);
    }
    // 20 digits hold any u64; 18 behind the point are finer than a byte of the largest prefix.
    let fraction = fraction.trim_end_matches('0');
    if whole.trim_start_matches('0').len() > 20 || fraction.len() > 18 {
        return Err(UnitError::TooLarge);
    }
    let digits = format!("{whole}{fraction}");
    let value = digits.parse().map_err(|_error| UnitError::TooLarge)?;
    Ok((value, u32::try_from(fraction.len()).unwrap_or(18)))
}

/// The factor of a unit and whether it counts bits.
fn parse_unit(unit: &str) -> Result<(u64, bool), UnitError> {
    let unknown = || UnitError::Unit(unit.to_owned());
    if unit.ends_with('b') {
        return Err(UnitError::Ambiguous);
    }
    let (prefix, bits) = if let Some(prefix) = unit
        .strip_suffix("bits")
        .or_else(|| unit.strip_suffix("bit"))
    {
        (prefix, true)
    } else {
        let plain = unit
            .strip_suffix("bytes")
            .or_else(|| unit.strip_suffix("byte"))
            .or_else(|| unit.strip_suffix('B'));
        (plain.unwrap_or(unit), false)
    };
    if prefix.is_empty() {
        return Ok((1, bits));
    }
    SI.iter()
        .chain(&IEC)
        .find(|(_, name)| name.eq_ignore_ascii_case(prefix))
        .map(|(multiplier, _)| (*multiplier, bits))
        .ok_or_else(unknown)
}

const SI: [(u64, &str); 6] = [
    (1_000, "k"),
    (1_000_000, "M"),
    (1_000_000_000, "G"),
    (1_000_000_000_000, "T"),
    (1_000_000_000_000_000, "P"),
    (1_000_000_000_000_000_000, "E"),
];

const IEC: [(u64, &str); 6] = [
    (1 << 10, "Ki"),
    (1 << 20, "Mi"),
    (1 << 30, "Gi"),
    (1 << 40, "Ti"),
    (1 << 50, "Pi"),
    (1 << 60, "Ei"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_as_people_write_them() {
        let cases = [
            ("300MB", 300_000_000),
            ("20Gbit", 2_500_000_000),
            ("64GiB", 64 << 30),
            ("1.5TiB", 3 << 39),
            ("4096", 4096),
            ("0", 0),
            ("64k", 64_000),
            ("64Ki", 65_536),
            ("1 MiB", 1 << 20),
            ("8 bits", 1),
            ("9bit", 2),
            ("0.5KiB", 512),
            ("2.50GB", 2_500_000_000),
            ("9223372036854775807", SIZE_BYTES_MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn an_invalid_size_is_refused_with_its_reason() {
        let cases = [
            ("", UnitError::Empty),
            ("GiB", UnitError::NoNumber),
            ("-1", UnitError::NoNumber),
            ("1..5k", UnitError::NoNumber),
            ("1.", UnitError::NoNumber),
            ("300Mb", UnitError::Ambiguous),
            ("3 apples", UnitError::Unit("apples".into())),
            ("8EiB", UnitError::TooLarge),
            ("99999999999999999999999", UnitError::TooLarge),
            ("0.0000000000000000001EiB", UnitError::TooLarge),
        ];
        for (text, error) in cases {
            assert_eq!(parse_size(text), Err(error), "{text}");
        }
    }

    #[test]
    fn rates_may_say_per_second() {
        for text in ["100Mbit/s", "100Mbps", "12.5MB/s", "12.5MBps", "12500000"] {
            assert_eq!(parse_rate(text), Ok(12_500_000), "{text}");
        }
        assert_eq!(parse_rate("none"), Ok(0));
        assert_eq!(parse_rate("1bit/s"), Ok(1), "a limit never rounds to none");
    }

    #[test]
    fn sizes_for_people_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (1_536_000, "1.54 MB"),
            (9_996_000, "10.0 MB"),
            (10_485_760, "10.5 MB"),
            (15_340_000, "15.3 MB"),
            (99_960_000, "100 MB"),
            (153_600_000, "154 MB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human_size(bytes), text);
        }
    }

    #[test]
    fn large_counts_are_short_and_never_more_than_there_are() {
        for (number, text) in [
            (0, "0"),
            (999_999, "999999"),
            (1_000_000, "1.0 M"),
            (1_299_999, "1.2 M"),
            (999_999_999, "999.9 M"),
            (12_345_678_901, "12.3 G"),
        ] {
            assert_eq!(human_count(number), text);
        }
    }

    #[test]
    fn one_thing_is_no_plural() {
        let shown = [0, 1, 2].map(|number| counted(number, "file"));
        assert_eq!(shown, ["0 files", "1 file", "2 files"]);
        let shown = [1, 3].map(|number| counted(number, "entry"));
        assert_eq!(shown, ["1 entry", "3 entries"]);
        let shown = [1, 3].map(|number| counted(number, "batch"));
        assert_eq!(shown, ["1 batch", "3 batches"]);
    }

    proptest! {
        #[test]
        fn exact_sizes_read_back(bytes in 0..=SIZE_BYTES_MAX, shift in 0_u32..63) {
            let bytes = bytes >> shift << (shift / 2);
            prop_assert_eq!(parse_size(&exact_size(bytes)), Ok(bytes));
        }

        #[test]
        fn any_prefix_multiplies(count in 0_u64..1_000, prefix in 0_usize..5) {
            let (multiplier, name) = SI[prefix];
            prop_assert_eq!(parse_size(&format!("{count}{name}B")), Ok(count * multiplier));
            prop_assert_eq!(parse_size(&format!("{count}{name}bit")), Ok((count * multiplier).div_ceil(8)));
            let (multiplier, name) = IEC[prefix];
            prop_assert_eq!(parse_size(&format!("{count}{name}B")), Ok(count * multiplier));
        }

        #[test]
        fn no_text_panics_or_exceeds_the_bound(text in "[0-9.]{0,30}[ ]?[a-zA-Zµ/]{0,6}") {
            for bytes in [parse_size(&text), parse_rate(&text)].into_iter().flatten() {
                prop_assert!(bytes <= SIZE_BYTES_MAX);
            }
        }
    }
}
