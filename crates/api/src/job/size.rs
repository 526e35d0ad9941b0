//! Owns the forms of a size in a description: bytes, or a text with a unit.
//! See `units` for the grammar of the text.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::number_or_text;
use crate::units::{parse_size, refused};

/// A size in a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum SizeInput {
    /// Bytes.
    Bytes(u64),
    /// A number with a unit.
    #[schema(example = "100 MB")]
    Text(String),
}

impl<'de> Deserialize<'de> for SizeInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a size: a number of bytes, or a text such as `100 MB` or `4 GiB`";
        number_or_text(deserializer, expecting, Self::Bytes, Self::Text)
    }
}

/// Reads a size that may be missing.
pub(super) fn read<'de, D: Deserializer<'de>>(document: D) -> Result<Option<u64>, D::Error> {
    match Option::<SizeInput>::deserialize(document)? {
        None => Ok(None),
        Some(SizeInput::Bytes(bytes)) => Ok(Some(bytes)),
        Some(SizeInput::Text(text)) => parse_size(&text)
            .map(Some)
            .map_err(|error| D::Error::custom(refused(&text, "size", &error))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Selection;

    #[test]
    fn a_size_is_a_number_or_a_text_with_its_unit() {
        for (text, bytes) in [
            ("1000", 1_000),
            (r#""100 MB""#, 100_000_000),
            (r#""4GiB""#, 4 << 30),
        ] {
            let read: Selection =
                serde_json::from_str(&format!(r#"{{"bytes_min":{text}}}"#)).expect(text);
            assert_eq!(read.bytes_min, Some(bytes), "{text}");
        }
        let odd = serde_json::from_str::<Selection>(r#"{"bytes_max":"big"}"#).expect_err("no size");
        assert!(odd.to_string().contains("`big` is not a size"), "{odd}");
    }
}
