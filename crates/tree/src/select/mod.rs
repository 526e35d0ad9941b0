//! Selects entries of a source: holds the prepared rules and limits of one transfer, and answers for single entries. Does not read lists of
//! names (`names`) or walk trees (`tree`).
//!
//! Both ends have the same selection, because the receiver must know which entries the source skips. A scan asks for each name before it
//! examines the entry (`store::Choice`). An excluded name therefore costs nothing, and an excluded directory is never opened. A deletion
//! keeps the excluded entries by the same rules. Only the source knows which entries the limits of size and time skip. If the receiver
//! deletes, such an entry is announced with a flag, and the receiver stores only its key.

mod pattern;
mod rules;
mod text;

use std::sync::Arc;

use godwit_proto::{Moment, Selection};
use godwit_store::{Kind, Meta, Timestamp};

use self::pattern::Pattern;
use self::rules::Rules;

pub use self::pattern::PatternError;
pub use self::rules::TooLarge;
pub use self::text::{RuleError, parse_rule, parse_rules};

/// Which entries below the roots of a transfer are selected.
///
/// Paths are relative to their root, as in records. The default selects everything.
#[derive(Debug, Default)]
pub struct Select {
    rules: Rules,
    /// For each rule, whether it includes or excludes its matches.
    includes: Vec<bool>,
    bytes_min: u64,
    bytes_max: Option<u64>,
    newer: Option<Timestamp>,
    older: Option<Timestamp>,
    listed: bool,
    recursive: bool,
    one_file_system: bool,
}

/// Reason why a selection cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A pattern is invalid.
    #[error("the pattern {pattern}: {error}")]
    Pattern {
        /// The pattern as shown to users.
        pattern: String,
        /// The error in the pattern.
        error: PatternError,
    },
    /// All patterns together are too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl Select {
    /// Prepares a client's selection.
    ///
    /// # Errors
    /// Contains the invalid pattern.
    pub fn new(selection: &Selection) -> Result<Self, SelectError> {
        let mut patterns = Vec::with_capacity(selection.rules.len());
        for rule in &selection.rules {
            let pattern = Pattern::parse(&rule.pattern).map_err(|error| SelectError::Pattern {
                pattern: text::shown(&rule.pattern),
                error,
            })?;
            patterns.push(pattern);
        }
        Ok(Self {
            rules: Rules::new(&patterns)?,
            includes: selection.rules.iter().map(|rule| rule.include).collect(),
            bytes_min: selection.bytes_min,
            bytes_max: selection.bytes_max,
            newer: selection.newer.map(timestamp),
            older: selection.older.map(timestamp),
            listed: selection.listed,
            recursive: selection.recursive,
            one_file_system: selection.one_file_system,
        })
    }

    /// Prepares the selection of an OPEN; without a selection, all entries are selected.
    ///
    /// # Errors
    /// As [`Select::new`].
    pub fn of(selection: Option<&Selection>) -> Result<Arc<Self>, SelectError> {
        let select = selection.map_or_else(|| Ok(Self::default()), Self::new)?;
        Ok(Arc::new(select))
    }

    /// Whether the rules exclude `path`, itself or because of a directory above it. Limits of size and time do not count as rules.
    ///
    /// For callers that do not know the directories above. At the destination, for example, entries excluded at the source are protected.
    /// `path` is relative to the root; the root itself is always selected.
    pub fn excludes(&self, path: &[u8], is_directory: bool) -> bool {
        if self.includes.is_empty() {
            return false;
        }
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.map(|(at, _)| &path[..at]);
        above.any(|directory| self.leaves_out(directory, true))
            || self.leaves_out(path, is_directory)
    }

    /// Like [`Select::excludes`], for callers that know that no directory above is excluded, such as a walk from the root.
    pub fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        if path.is_empty() || self.includes.is_empty() {
            return false;
        }
        let rule = self.rules.first_match(path, is_directory);
        rule.is_some_and(|rule| !self.includes[rule])
    }

    /// Whether the limits of size (for files) and time (for all except directories) skip an entry.
    pub fn passes_over(&self, meta: &Meta) -> bool {
        let is_file = meta.kind == Kind::File;
        let size = is_file
            && (meta.bytes < self.bytes_min
                || self.bytes_max.is_some_and(|most| meta.bytes > most));
        let time = meta.kind != Kind::Directory
            && (self.newer.is_some_and(|newer| meta.mtime <= newer)
                || self.older.is_some_and(|older| meta.mtime >= older));
        size || time
    }

    /// Whether there are limits of size or time.
    pub fn has_limits(&self) -> bool {
        self.bytes_min > 0
            || self.bytes_max.is_some()
            || self.newer.is_some()
            || self.older.is_some()
    }

    /// Whether there are rules, so that each name must be checked.
    pub fn has_rules(&self) -> bool {
        !self.includes.is_empty()
    }

    /// Whether file systems mounted in a tree are skipped.
    pub fn keeps_to_one_file_system(&self) -> bool {
        self.one_file_system
    }

    /// Whether only the names of a list are selected.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Whether the contents of directories in the list are selected too.
    pub fn is_recursive(&self) -> bool {
        self.recursive
    }
}

fn timestamp(moment: Moment) -> Timestamp {
    Timestamp {
        seconds: moment.seconds,
        nanoseconds: moment.nanoseconds,
    }
}

#[cfg(test)]
mod tests;
