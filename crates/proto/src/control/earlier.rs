//! Owns the fields of OPEN and OPENED for a job that several senders attempt, one after another. Does not know jobs. `docs/wire.md`,
//! "Attempts".

use prost::Message;

use super::Open;
use crate::error::WireError;
use crate::limits::EARLIER_TAGS_MAX;

/// Results of earlier attempts of the same job. The sender of an earlier attempt may never return.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Earlier {
    /// See [`Mapping`]; not 0.
    #[prost(uint32, tag = "1")]
    pub mapping: u32,
    /// Tags of the earlier attempts' temporary files, at most [`EARLIER_TAGS_MAX`]. The end of the transfer removes these files below
    /// the destination.
    #[prost(fixed64, repeated, tag = "2")]
    pub tags: Vec<u64>,
    /// Milliseconds since the first attempt began. With it the receiver counts the files that earlier attempts delivered.
    #[prost(uint64, optional, tag = "3")]
    pub age_ms: Option<u64>,
}

/// Meaning of a destination that was named without a slash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mapping(pub u32);

impl Mapping {
    /// The source becomes the destination.
    pub const BECOMES: Self = Self(1);
    /// The source goes into the destination, which is a directory.
    pub const INTO: Self = Self(2);

    /// The mapping of a transfer: its sources go into a directory, or its source becomes the destination.
    pub fn of(into: bool) -> Self {
        if into { Self::INTO } else { Self::BECOMES }
    }

    /// Whether sources go into a directory; `None` if unknown.
    pub fn into(self) -> Option<bool> {
        match self {
            Self::BECOMES => Some(false),
            Self::INTO => Some(true),
            _ => None,
        }
    }
}

impl Open {
    /// Whether sources go into the destination, according to an earlier attempt of the job.
    pub fn earlier_into(&self) -> Option<bool> {
        Mapping(self.earlier.as_ref()?.mapping).into()
    }

    pub(super) fn validate_earlier(&self) -> Result<(), WireError> {
        let Some(earlier) = &self.earlier else {
            return Ok(());
        };
        if Mapping(earlier.mapping).into().is_none() {
            return Err(WireError::Unknown {
                field: "mapping",
                value: earlier.mapping.into(),
            });
        }
        if earlier.tags.len() > EARLIER_TAGS_MAX {
            return Err(WireError::too_long("list of tags", EARLIER_TAGS_MAX as u64));
        }
        Ok(())
    }
}
