//! Owns the forms of a rate in a request: bytes per second, or a text with a unit.
//! See `units` for the grammar of the text, and the documents for the meaning of the rate.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::number_or_text;
use crate::units::{parse_rate, refused};

/// A rate in a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum RateInput {
    /// Bytes per second; 0 is no limit.
    Bytes(u64),
    /// A number with a unit, `none` or `0`. `Mbps` is `Mbit/s`.
    #[schema(example = "300 MB/s")]
    Text(String),
}

impl<'de> Deserialize<'de> for RateInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a rate: a number of bytes per second, or a text such as `300 MB/s`, `2.5 Gbit/s` or `none`";
        number_or_text(deserializer, expecting, Self::Bytes, Self::Text)
    }
}

impl RateInput {
    /// Bytes per second; 0 is no limit.
    ///
    /// # Errors
    /// The text is no rate. The error is a message for the author of the text.
    fn bytes(self) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => parse_rate(&text).map_err(|error| refused(&text, "rate", &error)),
        }
    }
}

/// Reads a rate that may be missing. No limit stays 0, for a request that removes a limit.
pub(super) fn change<'de, D: Deserializer<'de>>(document: D) -> Result<Option<u64>, D::Error> {
    let input = Option::<RateInput>::deserialize(document)?;
    let bytes = input.map(RateInput::bytes).transpose();
    bytes.map_err(D::Error::custom)
}

/// Reads a rate that may be missing. The text `none` counts as missing; the number 0 stays, and is refused where a rate cannot be 0.
pub(super) fn limit<'de, D: Deserializer<'de>>(document: D) -> Result<Option<u64>, D::Error> {
    let input = Option::<RateInput>::deserialize(document)?;
    let is_text = matches!(input, Some(RateInput::Text(_)));
    let bytes = input.map(RateInput::bytes).transpose();
    let bytes = bytes.map_err(D::Error::custom)?;
    Ok(bytes.filter(|bytes| !is_text || *bytes > 0))
}

#[cfg(test)]
mod tests {
    use super::super::{ChangeJob, NewLimit};

    #[test]
    fn a_rate_is_a_number_or_a_text_with_its_unit() {
        for (text, bytes) in [
            ("1000", 1_000),
            (r#""100Mbps""#, 12_500_000),
            (r#""100 Mbit/s""#, 12_500_000),
            (r#""100 MB/s""#, 100_000_000),
            (r#""none""#, 0),
        ] {
            let body = format!(r#"{{"limit":{text}}}"#);
            let change: ChangeJob = serde_json::from_str(&body).expect(text);
            assert_eq!(change.limit, Some(bytes), "{text}");
        }
        let missing: ChangeJob = serde_json::from_str("{}").expect("nothing changes");
        assert_eq!(missing.limit, None);
    }

    #[test]
    fn none_is_no_rate_of_a_limit() {
        let read = |text: &str| serde_json::from_str::<NewLimit>(text).expect("valid").rate;
        assert_eq!(read(r#"{"rate":"none"}"#), None);
        assert_eq!(read(r#"{"rate":null}"#), None);
        assert_eq!(read(r#"{"rate":0}"#), Some(0));
        assert_eq!(read(r#"{"rate":"8kbit/s"}"#), Some(1_000));
    }

    #[test]
    fn an_invalid_rate_is_refused_with_the_expected_form() {
        for text in [r#""fast""#, r#""100 b/s""#, "true", "-1", "1.5"] {
            let body = format!(r#"{{"limit":{text}}}"#);
            let refused = serde_json::from_str::<ChangeJob>(&body).expect_err(text);
            let refused = refused.to_string();
            assert!(refused.contains("rate"), "{refused}");
        }
    }
}
