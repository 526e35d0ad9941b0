//! Owns what a client asks of the comparison with the destination, and of what becomes of entries that only the destination has.
//! Compares nothing. `docs/wire.md`, "Comparison".

use crate::hello::capability;
use prost::Message;

use crate::error::WireError;

/// How an entry that is there is judged to be the same as the announced one. Ones that are not known here are refused.
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

/// Part of an OPEN: what the receiver does with what is there. Without it: [`Judge::SIZE_AND_TIME`] and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Comparison {
    /// See [`Judge`].
    #[prost(uint32, tag = "1")]
    pub judge: u32,
    /// A file that is newer at the destination stays as it is.
    #[prost(bool, tag = "2")]
    pub update: bool,
    /// Nothing is made that is not there.
    #[prost(bool, tag = "3")]
    pub existing: bool,
    /// What is there stays as it is, directories excepted.
    #[prost(bool, tag = "4")]
    pub ignore_existing: bool,
    /// In the end, what only the destination has is removed. Only with `counterpart`.
    #[prost(bool, tag = "5")]
    pub delete: bool,
    /// If more entries than this would be removed, none is.
    #[prost(uint64, optional, tag = "6")]
    pub max_delete: Option<u64>,
    /// Nothing changes at the destination; verdicts and notices say what would be done.
    #[prost(bool, tag = "7")]
    pub dry_run: bool,
    /// The destination is the counterpart of the one source: no entry goes "into" it.
    #[prost(bool, tag = "8")]
    pub counterpart: bool,
}

impl Comparison {
    /// The capability that a daemon needs for it: none if it asks for no more than every daemon does, for then it may be ignored.
    pub(crate) fn capability_needed(asked: Option<Self>) -> u64 {
        match asked {
            Some(asked) if asked != Self::default() => capability::COMPARISON,
            _ => 0,
        }
    }

    /// Whether some of what is there stays as it is, whatever the source has.
    pub(crate) fn spares(asked: Option<Self>) -> bool {
        asked.is_some_and(|asked| asked.update || asked.existing || asked.ignore_existing)
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
        if self.counterpart && sources > 1 {
            return Err(WireError::invalid(
                "comparison",
                "makes one place the counterpart of several sources",
            ));
        }
        Ok(())
    }
}
