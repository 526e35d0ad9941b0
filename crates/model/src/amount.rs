//! Owns amounts of contents: of a data set, and those that a transfer moved.
//! Counts nothing: the ends of a transfer do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Files and their contents: of a data set, or of work that is done or left. Says nothing about what crossed the network; see [`Moved`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Amount {
    /// Files.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}

impl Amount {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            files: self.files.saturating_add(other.files),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// The difference; 0 if the other is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            files: self.files.saturating_sub(other.files),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            files: self.files.max(other.files),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// Amounts that an attempt, or all attempts of a job, moved. Unlike [`Amount`], it tells bytes that were sent more than once.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Moved {
    /// Bytes of contents that arrived, each counted once.
    pub bytes: u64,
    /// Completed files.
    pub files: u64,
    /// Bytes sent more than once, not counted in `bytes`.
    pub bytes_again: u64,
}

impl Moved {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
            bytes_again: self.bytes_again.saturating_add(other.bytes_again),
        }
    }

    /// The difference; 0 if the other is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            files: self.files.saturating_sub(other.files),
            bytes_again: self.bytes_again.saturating_sub(other.bytes_again),
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            files: self.files.max(other.files),
            bytes_again: self.bytes_again.max(other.bytes_again),
        }
    }

    /// The smaller of each amount and the bound.
    #[must_use]
    pub fn at_most(self, bound: u64) -> Self {
        Self {
            bytes: self.bytes.min(bound),
            files: self.files.min(bound),
            bytes_again: self.bytes_again.min(bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_neither_overflow_nor_fall_below_nothing() {
        let one = |number| Moved {
            bytes: number,
            files: number,
            bytes_again: number,
        };
        assert_eq!(one(u64::MAX).plus(one(1)), one(u64::MAX));
        assert_eq!(one(1).minus(one(2)), one(0));
        assert_eq!(one(1).max(one(2)), one(2));
        assert_eq!(one(9).at_most(5), one(5));
        let one = |number| Amount {
            files: number,
            bytes: number,
        };
        assert_eq!(one(u64::MAX).plus(one(1)), one(u64::MAX));
        assert_eq!(one(1).minus(one(2)), one(0));
        assert_eq!(one(1).max(one(2)), one(2));
        assert!(one(0).is_none() && !one(1).is_none());
    }
}
