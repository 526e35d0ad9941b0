//! Owns the part of a document that is read before its content: version, name and job; and the bounds of the whole.
//! Does not know what the content means.
//!
//! Content that comes before the name waits in a buffer that takes up to a hundred times its bytes. So the name comes first in any document
//! that is not small.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::grant::Mandate;
use crate::json::Shape;

/// Longest document whose content may come before its name. The order of its parts does not matter.
pub const SMALL_BYTES: usize = 8 << 10;

/// Most lists and objects within each other in a document. Eight are the most that a known document has.
const DEPTH_MAX: usize = 16;

/// Most values and bytes of a question within a cluster, if the asker is no member: a request to join, with as many exports with long names
/// as a node may have. A message of the consensus may hold any values, so it takes more memory than other documents.
const JOIN_VALUES_MAX: usize = 4_096;
const JOIN_BYTES_MAX: usize = 64 << 10;

/// The beginning of a document.
#[derive(Default)]
pub(super) struct Head {
    pub(super) version: u32,
    /// Name of the question or reply.
    pub(super) name: String,
    pub(super) mandate: Option<Mandate>,
    /// The content comes before the name.
    late_name: bool,
}

/// Reads the head of a document whose author is not trusted, and checks the bounds of the document.
///
/// # Errors
/// The document is invalid or has too many parts.
pub(super) fn bounded(document: &[u8], values_max: usize) -> Result<Head, String> {
    let shape = Shape::of(document);
    if shape.depth > DEPTH_MAX {
        return Err(format!("it is deeper than {DEPTH_MAX} levels"));
    }
    if shape.values > values_max {
        return Err(format!("it has more than {values_max} values"));
    }
    let head = Head::of(document).map_err(|error| error.to_string())?;
    if head.late_name && document.len() > SMALL_BYTES {
        return Err("its name must come before its content".to_owned());
    }
    let is_long = document.len() > JOIN_BYTES_MAX || shape.values > JOIN_VALUES_MAX;
    if head.name == "cluster" && is_long {
        return Err("it is too long for a node outside the cluster".to_owned());
    }
    Ok(head)
}

impl Head {
    pub(super) fn of(document: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(document)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Version,
    #[serde(alias = "reply")]
    Ask,
    For,
    With,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Head;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a document with a version and a name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
                let (mut version, mut name) = (None, None);
                let mut head = Head::default();
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Version => set(&mut version, map.next_value()?, "version")?,
                        Field::Ask => set(&mut name, map.next_value()?, "ask")?,
                        Field::For => head.mandate = map.next_value()?,
                        Field::With => {
                            head.late_name = name.is_none();
                            map.next_value::<IgnoredAny>()?;
                        }
                        Field::Other => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                head.version = version.ok_or_else(|| A::Error::missing_field("version"))?;
                head.name = name.unwrap_or_default();
                Ok(head)
            }
        }

        deserializer.deserialize_map(Parts)
    }
}

fn set<T, E: Error>(field: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}
