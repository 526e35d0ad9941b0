//! Owns the fields of OPEN that name other nodes of a job: the owner of the job, and those that may take it over.
//! Does not decide rights; a node does. `docs/wire.md`, "Mandates".

use prost::Message;

use super::Open;
use crate::error::WireError;
use crate::limits::{HEIRS_MAX, IDENTITY_TEXT_BYTES, JOB_ID_BYTES_MAX};

/// The client acts for a job of another node. The daemon grants only the access that was granted for that job.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Mandate {
    /// Identity of the node that owns the job, as `godwit id` prints it.
    #[prost(string, tag = "1")]
    pub asker: String,
    /// Id of the job at that node: 1 to [`JOB_ID_BYTES_MAX`] letters, digits and hyphens.
    #[prost(string, tag = "2")]
    pub job: String,
}

/// Whether ids may contain this byte.
fn fits(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

impl Mandate {
    fn validate(&self) -> Result<(), WireError> {
        if self.asker.len() != IDENTITY_TEXT_BYTES {
            return Err(WireError::invalid("asker", "is no identity"));
        }
        if self.job.is_empty() || self.job.len() > JOB_ID_BYTES_MAX {
            return Err(WireError::invalid("job", "is no id of a job"));
        }
        if !self.asker.bytes().chain(self.job.bytes()).all(fits) {
            return Err(WireError::invalid(
                "mandate",
                "contains a character not allowed in ids",
            ));
        }
        Ok(())
    }
}

impl Open {
    pub(super) fn validate_mandate(&self) -> Result<(), WireError> {
        self.mandate.as_ref().map_or(Ok(()), Mandate::validate)
    }

    pub(super) fn validate_heirs(&self) -> Result<(), WireError> {
        if self.heirs.len() > HEIRS_MAX {
            return Err(WireError::too_long("heirs", HEIRS_MAX as u64));
        }
        let is_identity =
            |heir: &String| heir.len() == IDENTITY_TEXT_BYTES && heir.bytes().all(fits);
        if !self.heirs.iter().all(is_identity) {
            return Err(WireError::invalid(
                "heirs",
                "has a text that is no identity",
            ));
        }
        Ok(())
    }
}
