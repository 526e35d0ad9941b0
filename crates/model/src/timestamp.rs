//! Owns times of events: milliseconds since 1970, in the API a text of RFC 3339.
//! Reads no clock.

use std::borrow::Cow;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::{civil_date, parse_moment};

/// Milliseconds since 1970-01-01 UTC; in JSON a text as in `2026-11-24T22:00:05.250Z`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(pub i64);

/// The first millisecond of year 1, and the last one of year 9999: RFC 3339 writes years with four digits.
const FIRST: i64 = -62_135_596_800_000;
const LAST: i64 = 253_402_300_799_999;

impl Timestamp {
    /// The time `millis` later, at most the end of year 9999.
    #[must_use]
    pub const fn after(self, millis: u64) -> Self {
        let millis = if millis > i64::MAX as u64 {
            i64::MAX
        } else {
            millis.cast_signed()
        };
        let sum = self.0.saturating_add(millis);
        Self(if sum > LAST { LAST } else { sum })
    }

    /// As in `2026-11-24T22:00:05.250Z`, by RFC 3339.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let (date, clock) = self.parts();
        format!("{date}T{clock}.{:03}Z", self.0.rem_euclid(1_000))
    }

    /// As in `2026-11-24 22:00:05 UTC`, for sentences.
    #[must_use]
    pub fn utc(self) -> String {
        let (date, clock) = self.parts();
        format!("{date} {clock} UTC")
    }

    /// Date and time of day in UTC.
    fn parts(self) -> (String, String) {
        // A time out of bounds could not be read again.
        let millis = self.0.clamp(FIRST, LAST);
        let seconds = millis.div_euclid(1_000);
        let (year, month, day) = civil_date(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        (
            format!("{year:04}-{month:02}-{day:02}"),
            format!("{hour:02}:{minute:02}:{second:02}"),
        )
    }
}

impl FromStr for Timestamp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let moment = parse_moment(text).ok_or(
            "not a time; write it as 2026-11-24T22:00:00Z, with an offset as +02:00 or in UTC",
        )?;
        let millis = i64::from(moment.nanoseconds / 1_000_000);
        moment
            .seconds
            .checked_mul(1_000)
            .and_then(|seconds| seconds.checked_add(millis))
            .filter(|millis| (FIRST..=LAST).contains(millis))
            .map(Self)
            .ok_or("a time that far away cannot be used")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.rfc3339())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A time of RFC 3339, in answers always in UTC."))
            .into()
    }
}

impl ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_250, "2024-02-29T23:59:59.250Z"),
        ] {
            assert_eq!(Timestamp(millis).rfc3339(), text);
            assert_eq!(text.parse(), Ok(Timestamp(millis)));
        }
        assert_eq!(
            "2026-11-24T22:00:00+02:00".parse(),
            Ok(Timestamp(1_795_550_400_000))
        );
        assert!("tomorrow".parse::<Timestamp>().is_err());
        // With its offset such a time lies in a year that RFC 3339 cannot write.
        for text in [
            "9999-12-31T23:59:59-12:00",
            "0000-12-31T23:59:59+12:00",
            "0000-01-01T00:00:00Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        let last = "9999-12-31T23:59:59.999Z"
            .parse::<Timestamp>()
            .expect("a time");
        for far in [
            last.after(1),
            last.after(u64::MAX),
            Timestamp(i64::MAX),
            Timestamp(i64::MIN),
        ] {
            let text = far.rfc3339();
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_utc() {
        for (millis, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199_999, "2024-02-29 23:59:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Timestamp(millis).utc(), shown);
        }
        assert_eq!(
            Timestamp(951_782_400_007).rfc3339(),
            "2000-02-29T00:00:00.007Z"
        );
        // The farthest time is shown, too.
        assert!(Timestamp(i64::MAX).utc().ends_with("UTC"));
    }
}
