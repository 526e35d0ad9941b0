//! Owns texts that no log may show. Does not encrypt; only the owner of the state's files can read
//! them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A hash or key; `Debug` shows no part of it.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let shown = format!("{:?}", Secret::new("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
