//! Owns the rights that a peer has by its own grants, apart from any job, as one reading of the grants says.
//! Reads no mandate: rules for jobs count on the data port alone.

use std::sync::Arc;

use godwit_api::grant::{Grant, Right, Subject, Wish, allows};
use godwit_api::rest::{Place, Timestamp};

use super::Access;
use crate::basis::error::JobsError;

/// The rights of a peer, as they were read.
pub(crate) struct OwnRights {
    who: Subject,
    rules: Arc<Vec<Grant>>,
    file: Vec<Grant>,
}

impl OwnRights {
    /// Whether this is allowed at a time.
    pub(crate) fn may_at(&self, place: &Place, right: Right, at: Timestamp) -> bool {
        let wish = Wish::at(&place.export, &place.path, right);
        allows(self.rules.iter().chain(&self.file), &self.who, wish, at)
    }
}

impl Access<'_> {
    /// The rights of a peer, by one reading of the grants.
    pub(crate) fn rights_of(&self, identity: &str) -> Result<OwnRights, JobsError> {
        Ok(OwnRights {
            who: Subject::Identity(identity.to_owned()),
            rules: self.rules()?,
            file: self.file_grants()?,
        })
    }
}
