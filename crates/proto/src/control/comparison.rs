//! Owns a client's options for the comparison with the destination, and for entries that only the destination has. Does
//! not compare. `docs/wire.md`, "Comparison".

use crate::hello::capability;
use prost::Message;

use crate::error::WireError;

/// How an existing entry is judged to be the same as the announced one. Unknown values are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Judge(pub u32);

impl Judge {
    /// Size and modification time are the same.
    pub const SIZE_AND_TIME: Self = Self(0);
    /// Size and the digest of the contents are the same.
    pub const CHECKSUM: Self = Self(1);
    /// The size is the same.
    pub const SIZE: Self = Self(2);
}

/// Part of an OPEN: how the receiver treats existing entries. The default is [`Judge::SIZE_AND_TIME`] without further
/// options.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Comparison {
    /// See [`Judge`].
    #[prost(uint32, tag = "1")]
    pub judge: u32,
    /// A file that is newer at the destination stays as it is.
    #[prost(bool, tag = "2")]
    pub update: bool,
    /// Entries that do not exist are not created.
    #[prost(bool, tag = "3")]
    pub existing: bool,
    /// Existing entries stay as they are, except for directories.
    #[prost(bool, tag = "4")]
    pub ignore_existing: bool,
    /// At the end, entries that only the destination has are removed. Only with `counterpart`.
    #[prost(bool, tag = "5")]
    pub delete: bool,
    /// If more entries than this would be removed, none is removed.
    #[prost(uint64, optional, tag = "6")]
    pub max_delete: Option<u64>,
    /// Nothing changes at the destination; verdicts and notices report what would be done.
    #[prost(bool, tag = "7")]
    pub dry_run: bool,
    /// The destination corresponds to the one source itself: no entry is placed "into" it.
    #[prost(bool, tag = "8")]
    pub counterpart: bool,
    /// An entry that would replace one with other contents fails.
    #[prost(bool, tag = "9")]
    pub no_replace: bool,
}

impl Comparison {
    /// The capability that a daemon needs for this comparison. Zero if every daemon behaves as requested, because then
    /// the message may be ignored.
    pub(crate) fn capability_needed(asked: Option<Self>) -> u64 {
        match asked {
            Some(asked) if asked != Self::default() => capability::COMPARISON,
            _ => 0,
        }
    }

    /// Whether options leave some existing entries unchanged, for any contents of the source.
    pub(crate) fn spares(asked: Option<Self>) -> bool {
        asked.is_some_and(|asked| asked.update || asked.existing || asked.ignore_existing)
    }

    /// Whether no existing entry is replaced by one with other contents.
    pub(crate) fn replaces_nothing(asked: Option<Self>) -> bool {
        asked.is_some_and(|asked| asked.no_replace)
    }

    /// See [`Judge`].
    pub fn judge(&self) -> Judge {
        Judge(self.judge)
    }

    pub(crate) fn validate(&self, sources: usize) -> Result<(), WireError> {
        if self.judge > Judge::SIZE.0 {
            return Err(WireError::Unknown {
                field: "judge",
                value: self.judge.into(),
            });
        }
        if self.delete && !self.counterpart {
            return Err(WireError::invalid(
                "comparison",
                "deletes without a counterpart",
            ));
        }
        if self.delete && self.no_replace {
            return Err(WireError::invalid(
                "comparison",
                "deletes and replaces nothing",
            ));
        }
        if self.counterpart && sources > 1 {
            return Err(WireError::invalid(
                "comparison",
                "makes one place the counterpart of several sources",
            ));
        }
        Ok(())
    }
}
