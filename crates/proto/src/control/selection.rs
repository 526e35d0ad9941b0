//! Owns what a client asks of the choice among a source's entries: rules, limits, whether a list of names follows.
//! Chooses nothing and reads no pattern. `docs/wire.md`, "Selection".

use prost::Message;

use crate::error::WireError;
use crate::limits::{NANOSECONDS_PER_SECOND, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, RULES_MAX};

/// Part of an OPEN: which entries below the sources are meant. Without it: all of them.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Selection {
    /// The first rule that matches an entry decides; one that none matches is in.
    #[prost(message, repeated, tag = "1")]
    pub rules: Vec<Rule>,
    /// Files below this size are left out.
    #[prost(uint64, tag = "2")]
    pub bytes_min: u64,
    /// Files above this size are left out.
    #[prost(uint64, optional, tag = "3")]
    pub bytes_max: Option<u64>,
    /// Of what is no directory, only what was modified after this moment is in.
    #[prost(message, optional, tag = "4")]
    pub newer: Option<Moment>,
    /// Of what is no directory, only what was modified before this moment is in.
    #[prost(message, optional, tag = "5")]
    pub older: Option<Moment>,
    /// Only what a list names is meant; in a pull it follows in SELECTION frames.
    #[prost(bool, tag = "6")]
    pub listed: bool,
    /// Directories that the list names are meant with all that is in them.
    #[prost(bool, tag = "7")]
    pub recursive: bool,
    /// What is mounted below a source is left out, but for the mount point; at the destination it is not deleted. Needs
    /// [`capability::ONE_FILE_SYSTEM`](crate::hello::capability::ONE_FILE_SYSTEM).
    #[prost(bool, tag = "8")]
    pub one_file_system: bool,
}

/// Which entries are in or out.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Rule {
    /// What it matches is in; else out.
    #[prost(bool, tag = "1")]
    pub include: bool,
    /// The pattern, any bytes but NUL.
    #[prost(bytes = "vec", tag = "2")]
    pub pattern: Vec<u8>,
}

/// A moment.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Moment {
    /// Since 1970-01-01 UTC; negative before.
    #[prost(sint64, tag = "1")]
    pub seconds: i64,
    /// Counted forward from there, below 10⁹.
    #[prost(uint32, tag = "2")]
    pub nanoseconds: u32,
}

impl Selection {
    pub(crate) fn validate(&self, sources: usize) -> Result<(), WireError> {
        if self.rules.len() > RULES_MAX {
            return Err(WireError::too_long("list of rules", RULES_MAX as u64));
        }
        let mut bytes = 0;
        for rule in &self.rules {
            bytes += rule.pattern.len();
            if rule.pattern.is_empty() || rule.pattern.contains(&0) {
                return Err(WireError::invalid("pattern", "is empty or contains NUL"));
            }
            if rule.pattern.len() > PATTERN_BYTES_MAX {
                return Err(WireError::too_long("pattern", PATTERN_BYTES_MAX as u64));
            }
        }
        if bytes > PATTERNS_BYTES_MAX {
            return Err(WireError::too_long(
                "all patterns together",
                PATTERNS_BYTES_MAX as u64,
            ));
        }
        for moment in [self.newer, self.older].into_iter().flatten() {
            if moment.nanoseconds >= NANOSECONDS_PER_SECOND {
                return Err(WireError::invalid(
                    "moment",
                    "has a whole second or more in its nanoseconds",
                ));
            }
        }
        if self.listed && sources != 1 {
            return Err(WireError::invalid(
                "selection",
                "has a list of names for other than one source",
            ));
        }
        if self.recursive && !self.listed {
            return Err(WireError::invalid(
                "selection",
                "is recursive without a list of names",
            ));
        }
        Ok(())
    }
}
