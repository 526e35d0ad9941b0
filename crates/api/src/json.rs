//! Bounds JSON texts before a parser builds values from them, and reads a value of two forms without a buffer.
//! Does not know what a text means. The figures are upper bounds for any text, valid or not.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Most values of a text from a user or another site: twice as many as the rules of the longest selection have.
pub const VALUES_MAX: usize = 50_000;

/// Upper bounds of what a JSON text contains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Values: each value but the first follows a comma or the start of a list or an object.
    pub values: usize,
    /// Lists and objects within each other.
    pub depth: usize,
}

impl Shape {
    /// Scans a text. An empty string has three bytes in a list, and takes ten times as many in memory.
    #[must_use]
    pub fn of(json: &[u8]) -> Self {
        let (mut values, mut depth, mut deepest) = (1, 0_usize, 0);
        let (mut in_text, mut escaped) = (false, false);
        for byte in json {
            match (in_text, escaped, byte) {
                (true, true, _) => escaped = false,
                (true, false, b'\\') => escaped = true,
                (_, _, b'"') => in_text = !in_text,
                (false, _, b',') => values += 1,
                (false, _, b'[' | b'{') => {
                    values += 1;
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                (false, _, b']' | b'}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Self {
            values,
            depth: deepest,
        }
    }
}

/// Reads a number or a text as it comes. An untagged enum would buffer any other value first.
pub(crate) fn number_or_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expecting: &'static str,
    number: fn(u64) -> T,
    text: fn(String) -> T,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(NumberOrText {
        expecting,
        number,
        text,
    })
}

struct NumberOrText<T> {
    expecting: &'static str,
    number: fn(u64) -> T,
    text: fn(String) -> T,
}

impl<T> Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.expecting)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Ok((self.number)(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok((self.text)(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_depth_are_counted_and_signs_in_texts_are_none() {
        for (json, values, depth) in [
            ("5", 1, 0),
            (r#"["", "", ""]"#, 4, 1),
            (r#"{"a": [1, 2], "b": {}}"#, 6, 2),
            (r#"["a,b,[{\",,\\", "c"]"#, 3, 1),
            ("[[],[[]]]", 6, 3),
            ("]]}[", 2, 1),
        ] {
            assert_eq!(
                Shape::of(json.as_bytes()),
                Shape { values, depth },
                "{json}"
            );
        }
    }
}
