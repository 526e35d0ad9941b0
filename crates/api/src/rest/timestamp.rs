//! Times in the API: RFC 3339 in UTC, to the millisecond.
//! Reads no clock.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::time::{civil_date, parse_moment};

/// Milliseconds since 1970-01-01 UTC; in JSON a text as in `2026-11-24T22:00:05.250Z`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(pub i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000);
        let (year, month, day) = civil_date(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            self.0.rem_euclid(1_000)
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
            .map(Self)
            .ok_or("a time that far away cannot be used")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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
            assert_eq!(Timestamp(millis).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(millis)));
        }
        assert_eq!(
            "2026-11-24T22:00:00+02:00".parse(),
            Ok(Timestamp(1_795_550_400_000))
        );
        assert!("tomorrow".parse::<Timestamp>().is_err());
    }
}
