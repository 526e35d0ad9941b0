//! Owns a client's selection of a source's entries: rules, limits, and whether a list of names follows. Does not
//! select entries or parse patterns. `docs/wire.md`, "Selection".

use prost::Message;

use crate::error::WireError;
use crate::limits::{NANOSECONDS_PER_SECOND, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, RULES_MAX};

/// Part of an OPEN: which entries below the sources are selected. Without it, all entries are selected.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Selection {
    /// The first rule that matches an entry decides; an entry that no rule matches is included.
    #[prost(message, repeated, tag = "1")]
    pub rules: Vec<Rule>,
    /// Files below this size are left out.
    #[prost(uint64, tag = "2")]
    pub bytes_min: u64,
    /// Files above this size are left out.
    #[prost(uint64, optional, tag = "3")]
    pub bytes_max: Option<u64>,
    /// Entries other than directories are included only if modified after this moment.
    #[prost(message, optional, tag = "4")]
    pub newer: Option<Moment>,
    /// Entries other than directories are included only if modified before this moment.
    #[prost(message, optional, tag = "5")]
    pub older: Option<Moment>,
    /// Only entries that a list names are selected; in a pull the list follows in SELECTION frames.
    #[prost(bool, tag = "6")]
    pub listed: bool,
    /// Directories that the list names are selected with all their content.
    #[prost(bool, tag = "7")]
    pub recursive: bool,
    /// Mounts below a source are left out, except for the mount point; they are not deleted at the destination. Needs
    /// [`capability::ONE_FILE_SYSTEM`](crate::hello::capability::ONE_FILE_SYSTEM).
    #[prost(bool, tag = "8")]
    pub one_file_system: bool,
}

/// A rule that includes or excludes entries.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Rule {
    /// Whether matching entries are included; otherwise they are excluded.
    #[prost(bool, tag = "1")]
    pub include: bool,
    /// The pattern, any bytes but NUL.
    #[prost(bytes = "vec", tag = "2")]
    pub pattern: Vec<u8>,
}

/// A moment.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Moment {
    /// Seconds since 1970-01-01 UTC; negative before.
    #[prost(sint64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds counted forward from there, below 10⁹.
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
