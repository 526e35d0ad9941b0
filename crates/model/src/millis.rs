//! Writes times as numbers of milliseconds: the form of the state and its log.
//! Use it by `#[serde(with = "millis")]`; `millis::option` is for a time that may be missing, `millis::named` for times with names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Timestamp;

/// Writes the number.
///
/// # Errors
/// The serializer's error.
pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    time.0.serialize(serializer)
}

/// Reads the number.
///
/// # Errors
/// There is no number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    i64::deserialize(deserializer).map(Timestamp)
}

/// The same for a time that may be missing.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    /// Writes the number, or null.
    ///
    /// # Errors
    /// The serializer's error.
    pub fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(serializer)
    }

    /// Reads the number, or null.
    ///
    /// # Errors
    /// There is something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<i64>::deserialize(deserializer)?.map(Timestamp))
    }
}

/// The same for times with names.
pub mod named {
    use super::{Deserialize, Deserializer, Serializer, Timestamp};

    /// Writes each name with its number.
    ///
    /// # Errors
    /// The serializer's error.
    pub fn serialize<S: Serializer>(
        times: &[(String, Timestamp)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(times.iter().map(|(name, time)| (name, time.0)))
    }

    /// Reads each name with its number.
    ///
    /// # Errors
    /// There is something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, Timestamp)>, D::Error> {
        let times = Vec::<(String, i64)>::deserialize(deserializer)?;
        Ok(times
            .into_iter()
            .map(|(name, time)| (name, Timestamp(time)))
            .collect())
    }
}
