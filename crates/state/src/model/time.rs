//! Owns the time that a command carries.
//! Reads no clock: the caller does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// The time `millis` later, without overflow.
    #[must_use]
    pub const fn after(self, millis: u64) -> Self {
        let millis = if millis > i64::MAX as u64 {
            i64::MAX
        } else {
            millis.cast_signed()
        };
        Self(self.0.saturating_add(millis))
    }
}

impl UnixMillis {
    /// As in `2026-11-24T22:00:05.250Z`, by RFC 3339.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let text = self.to_string().replacen(' ', "T", 1);
        let text = text.trim_end_matches(" UTC");
        format!("{text}.{:03}Z", self.0.rem_euclid(1_000))
    }
}

impl fmt::Display for UnixMillis {
    /// As in `2026-11-24 22:00:05 UTC`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000);
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"
        )
    }
}

/// The date that many days after 1970-01-01, counted in eras of 400 years that begin with a March.
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        for (millis, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199_999, "2024-02-29 23:59:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(UnixMillis(millis).to_string(), shown);
        }
        assert_eq!(
            UnixMillis(951_782_400_007).rfc3339(),
            "2000-02-29T00:00:00.007Z"
        );
        // The farthest time is shown, too.
        assert!(UnixMillis(i64::MAX).to_string().ends_with("UTC"));
    }
}
