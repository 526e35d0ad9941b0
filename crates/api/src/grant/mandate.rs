//! Owns the meaning of a mandate: the right of a node to act for one job of another node, and for nothing else.
//! Keeps no grants, and reads no clock.
//!
//! Site C has a job that site A runs and that writes at site B. C lets A in at B by grants that belong to the job. A names C and the job
//! with each request at B. B then asks for two things: a grant to A that belongs to this job of C, and C's own grants at this moment.
//! A's own grants at B do not count, so A cannot be used to reach what C may not reach (the confused deputy: Hardy, 1988).

use serde::{Deserialize, Serialize};

use super::{Grant, GrantError, Subject, Wish, allows};
use crate::rest::Timestamp;

/// Longest id of a job that a mandate names, in bytes.
pub const JOB_ID_BYTES_MAX: usize = 64;

/// A job, and the node that owns it. A request that names a mandate is admitted by the grants of that job alone.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Mandate {
    /// Identity of the node that owns the job, as `godwit id` prints it.
    pub asker: String,
    /// Id of the job at that node: 1 to [`JOB_ID_BYTES_MAX`] letters, digits and hyphens.
    pub job: String,
}

/// Rights of the node whose job a request serves, at the deciding node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AskerRights {
    /// Rights that grants give to its identity.
    Granted,
    /// The asker belongs to this site, and its job is alive. The owner of the job was checked here.
    OwnJob,
    /// The asker belongs to this site, and its job has ended or is unknown: no rights.
    EndedJob,
}

/// The sender of a request to a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requester {
    /// Identity that the other end has proved, or the user.
    pub peer: Subject,
    /// Job for which the peer acts; None if it acts for itself.
    pub mandate: Option<Mandate>,
}

impl Mandate {
    /// Checks a mandate that a stranger wrote.
    ///
    /// # Errors
    /// The asker is no identity, or the id is not valid for a job.
    pub fn check(&self) -> Result<(), GrantError> {
        if !matches!(self.asker.parse(), Ok(Subject::Identity(_))) {
            return Err(GrantError("asker: that is no identity".to_owned()));
        }
        if is_job_id(&self.job) {
            return Ok(());
        }
        Err(GrantError(format!(
            "job: an id has 1 to {JOB_ID_BYTES_MAX} letters, digits and hyphens"
        )))
    }
}

/// Whether a text can be the id of another node's job.
#[must_use]
pub fn is_job_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=JOB_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

impl Requester {
    /// A peer that acts for itself.
    #[must_use]
    pub const fn itself(peer: Subject) -> Self {
        Self {
            peer,
            mandate: None,
        }
    }

    /// Whether these grants allow the wish at `now`. Only this function decides about requests on the data port.
    ///
    /// `rights` are the rights of the asker of the mandate, and have no meaning without a mandate.
    #[must_use]
    pub fn may(
        &self,
        grants: &[Grant],
        rights: AskerRights,
        wish: Wish<'_>,
        now: Timestamp,
    ) -> bool {
        let Some(mandate) = &self.mandate else {
            return allows(grants, &self.peer, wish, now);
        };
        // Memory is granted to a job only by name: access to a path does not include memory.
        let is_meant = |grant: &Grant| wish.place.is_some() || grant.area.is_memory();
        let given = grants.iter().any(|grant| {
            grant.mandate.as_ref() == Some(mandate)
                && is_meant(grant)
                && grant.covers(None, &self.peer, wish, now)
        });
        given
            && match rights {
                AskerRights::OwnJob => true,
                AskerRights::EndedJob => false,
                AskerRights::Granted => {
                    let asker = Subject::Identity(mandate.asker.clone());
                    allows(grants, &asker, wish, now)
                }
            }
    }
}
