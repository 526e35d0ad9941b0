//! Encodes paths in the work of divided jobs. Reads no files.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as bytes. In JSON, a string, or `{"hex": "…"}` for bytes that are not UTF-8.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkPath(pub Vec<u8>);

impl From<&str> for WorkPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

#[derive(Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
enum PathForm {
    Text(String),
    Bytes { hex: String },
}

impl Serialize for WorkPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let hex = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                PathForm::Bytes { hex }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for WorkPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match PathForm::deserialize(deserializer)? {
            PathForm::Text(text) => text.into_bytes(),
            PathForm::Bytes { hex } => {
                let (digits, []) = hex.as_bytes().as_chunks::<2>() else {
                    return Err(D::Error::custom("hex: an odd number of digits"));
                };
                let byte = |pair: &[u8; 2]| {
                    let text = std::str::from_utf8(pair).ok();
                    text.and_then(|text| u8::from_str_radix(text, 16).ok())
                };
                let bytes: Option<Vec<u8>> = digits.iter().map(byte).collect();
                bytes.ok_or_else(|| D::Error::custom("hex: no hexadecimal digits"))?
            }
        };
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_any_bytes_are_read_as_they_are_written() {
        for bytes in [&b""[..], b"a/b", b"\xff\x00\"", "ä".as_bytes()] {
            let path = WorkPath(bytes.to_vec());
            let json = serde_json::to_string(&path).expect("JSON");
            let read: WorkPath = serde_json::from_str(&json).expect(&json);
            assert_eq!(read, path, "{json}");
        }
        for wrong in [r#"{"hex":"0"}"#, r#"{"hex":"zz"}"#, "1"] {
            assert!(serde_json::from_str::<WorkPath>(wrong).is_err(), "{wrong}");
        }
    }
}
