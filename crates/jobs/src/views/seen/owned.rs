//! Owns the answer whether a job or a schedule is one of the caller's own.
//! See `seen` for what else the caller sees.

use godwit_api::rest::{NewJob, Reason};
use godwit_state::{Reader, Role, Schedule};

use super::{Seen, outlined};
use crate::basis::stored::Stored;
use crate::rights::access::Granted;

/// Something with an owner.
#[derive(Clone, Copy)]
pub(super) struct Owned<'a> {
    pub(super) owner: &'a str,
    /// The caller is the owner in the role of its submitter, or an admin.
    pub(super) is_own: bool,
    /// The job; None for a schedule, whose sites are those of its next job.
    pub(super) job: Option<&'a str>,
}

impl Seen {
    /// The job of a schedule and the reason why it submits nothing, as the caller sees them.
    #[must_use]
    pub fn schedule(
        &self,
        schedule: &Schedule,
        reason: Option<Reason>,
    ) -> (Option<NewJob>, Option<Reason>) {
        let reader = self.jobs.parts.this.reader();
        let owner = &schedule.owner;
        let is_own = owns(&self.granted, &reader, owner, || Some(schedule.role));
        let of = Owned {
            owner,
            is_own,
            job: None,
        };
        let job: Option<NewJob> = serde_json::from_str(&schedule.template).ok();
        let sees_all = match &job {
            Some(job) => self.sees_all(of, &job.sources, &job.destination),
            None => of.is_own,
        };
        let reason = reason.map(|reason| match sees_all {
            true => reason,
            false => outlined(reason),
        });
        (job.map(|job| self.template(of, job)), reason)
    }

    /// A job of this owner.
    pub(super) fn of_job<'a>(&self, owner: &'a str, id: &'a str) -> Owned<'a> {
        let reader = self.jobs.parts.this.reader();
        let kept = || Stored::role_of(&reader, id).ok();
        let is_own = owns(&self.granted, &reader, owner, kept);
        Owned {
            owner,
            is_own,
            job: Some(id),
        }
    }
}

/// Whether the job means the site that has this name now. A rule at a site ends with the identity of the site.
pub(super) fn means(reader: &Reader, job: &str, site: &str) -> bool {
    let stored = Stored::of(reader, job);
    stored.is_ok_and(|stored| matches!(stored.site(reader, site), Ok(Some(_))))
}

/// Whether the caller owns all of this. The role is read for its owner alone; None if it cannot be read.
fn owns(
    granted: &Granted,
    reader: &Reader,
    owner: &str,
    kept: impl FnOnce() -> Option<Option<Role>>,
) -> bool {
    let owns = |kept| granted.owns(reader, owner, kept);
    granted.is_admin() || (granted.name() == owner && kept().is_some_and(owns))
}
