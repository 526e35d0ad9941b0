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

impl fmt::Display for UnixMillis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}
