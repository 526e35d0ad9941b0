//! Owns the rights that a grant gives, and which right follows from which.
//! Knows nothing of exports and paths.

use std::fmt;
use std::str::FromStr;

use super::GrantError;

/// One thing that can be allowed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Right {
    /// Read files; includes listing.
    Read,
    /// Write files and make directories; includes deleting.
    Write,
    /// List directories.
    List,
    /// Delete and rename entries.
    Delete,
}

impl Right {
    /// All rights, in the order in which they are written.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::List, Self::Delete];

    /// Name in the file, in options and in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of rights.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Self = Self(0);
    /// Reading alone.
    pub const READ: Self = Self(Right::Read.bit());
    /// Writing alone.
    pub const WRITE: Self = Self(Right::Write.bit());
    /// Reading and writing.
    pub const BOTH: Self = Self(Right::Read.bit() | Right::Write.bit());

    /// The rights of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether this set names all rights that the other set names.
    #[must_use]
    pub const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether no right is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set allows this. Reading includes listing, and writing includes deleting.
    #[must_use]
    pub const fn allow(self, right: Right) -> bool {
        let from = match right {
            Right::List => Right::Read,
            Right::Delete => Right::Write,
            other => other,
        };
        self.0 & (right.bit() | from.bit()) != 0
    }

    /// The sentence about a right that the set gives without naming it; None if there is no such surprise.
    #[must_use]
    pub const fn note(self) -> Option<&'static str> {
        match self.allow(Right::Delete) && !self.contain(Self(Right::Delete.bit())) {
            true => Some("writing includes deletion"),
            false => None,
        }
    }

    /// The rights that the set names.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL
            .into_iter()
            .filter(move |right| self.0 & right.bit() != 0)
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit()))
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, right) in self.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", right.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Rights {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let words = text.split(',').filter(|word| *word != "none");
        words
            .map(|word| {
                let known = Right::ALL.into_iter().find(|right| right.name() == word);
                known.ok_or_else(|| {
                    GrantError(format!(
                        "{word:?} is no right: read, write, list and delete are, separated by commas"
                    ))
                })
            })
            .collect()
    }
}
