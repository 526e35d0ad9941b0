//! Encodes bytes that may not be UTF-8 in an event: as text under one name, or in base64 under another.
//! Does not know what the bytes name.

use std::borrow::Cow;

use data_encoding::BASE64;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Evidence, Limited};
use crate::rest::Bottleneck;

/// A pair of fields for bytes, of which one is present.
macro_rules! bytes_as {
    ($module:ident, $text:literal, $encoded:literal) => {
        pub(super) mod $module {
            use super::*;

            #[derive(serde::Serialize, serde::Deserialize)]
            struct Form<'a> {
                #[serde(rename = $text, default, skip_serializing_if = "Option::is_none")]
                text: Option<Cow<'a, str>>,
                #[serde(rename = $encoded, default, skip_serializing_if = "Option::is_none")]
                encoded: Option<String>,
            }

            pub(in super::super) fn serialize<S: Serializer>(
                bytes: &[u8],
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let text = std::str::from_utf8(bytes).ok();
                Form {
                    encoded: text.is_none().then(|| BASE64.encode(bytes)),
                    text: text.map(Cow::Borrowed),
                }
                .serialize(serializer)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Vec<u8>, D::Error> {
                match Form::deserialize(deserializer)? {
                    Form {
                        text: Some(text), ..
                    } => Ok(text.into_owned().into_bytes()),
                    Form {
                        encoded: Some(encoded),
                        ..
                    } => BASE64.decode(encoded.as_bytes()).map_err(D::Error::custom),
                    Form { .. } => Err(D::Error::missing_field($text)),
                }
            }
        }
    };
}

bytes_as!(path, "path", "path_b64");
bytes_as!(name, "name", "name_b64");
bytes_as!(line, "line", "line_b64");
bytes_as!(destination, "destination", "destination_b64");

/// Several names: all of them as text, or all of them in base64.
pub(super) mod sources {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Form {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sources: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sources_b64: Option<Vec<String>>,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        names: &[Vec<u8>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let texts = names.iter().map(|name| String::from_utf8(name.clone()));
        let sources: Option<Vec<String>> = texts.collect::<Result<_, _>>().ok();
        let encoded = || names.iter().map(|name| BASE64.encode(name)).collect();
        Form {
            sources_b64: sources.is_none().then(encoded),
            sources,
        }
        .serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<u8>>, D::Error> {
        let form = Form::deserialize(deserializer)?;
        match (form.sources, form.sources_b64) {
            (Some(texts), _) => Ok(texts.into_iter().map(String::into_bytes).collect()),
            (None, Some(encoded)) => encoded
                .iter()
                .map(|name| BASE64.decode(name.as_bytes()).map_err(D::Error::custom))
                .collect(),
            (None, None) => Err(D::Error::missing_field("sources")),
        }
    }
}

/// The limit of a transfer: the stage for programs, with figure and advice.
pub(super) mod bottleneck {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Form {
        #[serde(default, deserialize_with = "Bottleneck::known")]
        bottleneck: Option<Bottleneck>,
        #[serde(default)]
        bottleneck_evidence: Option<Evidence>,
    }

    #[expect(
        clippy::ref_option,
        reason = "this is how serde gives a field to its module"
    )]
    pub(in super::super) fn serialize<S: Serializer>(
        limited: &Option<Limited>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("bottleneck", &limited.as_ref().map(|one| &one.stage))?;
        if let Some(limited) = limited {
            map.serialize_entry("bottleneck_evidence", &limited.evidence)?;
        }
        map.end()
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Limited>, D::Error> {
        let form = Form::deserialize(deserializer)?;
        Ok(form.bottleneck.map(|stage| Limited {
            stage,
            evidence: form.bottleneck_evidence.unwrap_or_default(),
        }))
    }
}
