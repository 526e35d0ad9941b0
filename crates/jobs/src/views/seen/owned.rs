//! Owns the answers whether a job, a schedule or a flow is one of the caller's own, and whether a job means the site of that name.
//! See `seen` for what else the caller sees.

use std::sync::{Mutex, PoisonError};

use godwit_api::rest::{FlowHopState, FlowHopView, JobView, NewJob, Reason};
use godwit_state::{Families, Reader, Role};

use super::{Seen, foreign, places};
use crate::basis::documents;
use crate::basis::stored::Stored;
use crate::basis::words::is_plain_reason;
use crate::rights::access::Granted;

/// Something with an owner.
#[derive(Clone, Copy)]
pub(super) struct Owned<'a> {
    pub(super) owner: &'a str,
    /// The caller is the owner in the role of its submitter, or an admin.
    pub(super) is_own: bool,
    /// The job; None for a schedule or a flow, whose sites are those of its next job.
    pub(super) job: Option<&'a str>,
}

impl Seen {
    /// The job that an owner has a schedule or a flow submit in a role, and a reason, as the caller sees them. Another site may have chosen
    /// the text of the reason.
    #[must_use]
    pub fn submitted(
        &self,
        (owner, role): (&str, Option<Role>),
        template: &str,
        reason: Option<Reason>,
    ) -> (Option<NewJob>, Option<Reason>) {
        let reader = self.jobs.parts.this.reader();
        let is_own = owns(&self.granted, &reader, owner, || Some(role));
        let of = Owned {
            owner,
            is_own,
            job: None,
        };
        let job: Option<NewJob> = serde_json::from_str(template).ok();
        let sees_all = match &job {
            Some(job) => of.is_seen(self, places(job)),
            None => of.is_own,
        };
        let reason = reason.map(|reason| match sees_all || is_plain_reason(&reason.code) {
            true => reason,
            false => foreign(reason),
        });
        (job.map(|job| self.template(of, job)), reason)
    }

    /// A hop of a flow as the caller sees it, with its job as [`Self::submitted`] shows it. A reason of the run is shown as in the view of the run:
    /// that job may have a larger role than the flow, or another site of the same name.
    #[must_use]
    pub fn hop(&self, who: (&str, Option<Role>), template: &str, hop: FlowHopView) -> FlowHopView {
        let of_run =
            |reason: &Reason| hop.state != FlowHopState::Refused && !is_plain_reason(&reason.code);
        let is_of_run = hop.reason.as_ref().is_some_and(of_run);
        let (job, reason) = self.submitted(who, template, hop.reason);
        let reason = match is_of_run {
            true => {
                let run = hop.run.as_ref().and_then(|run| self.job(run).ok());
                run.and_then(|run| run.reason)
            }
            false => reason,
        };
        FlowHopView { job, reason, ..hop }
    }

    /// Whether the caller may list all destinations of a job. A state that cannot be read hides them.
    pub(super) fn lists_children(&self, job: &JobView) -> bool {
        job.destinations.is_none() || self.lists_all(&job.id)
    }

    /// Whether the caller may list the destinations of all children of a job; of an ordinary job, which has none, always.
    pub(super) fn lists_all(&self, job: &str) -> bool {
        let reader = self.jobs.parts.this.reader();
        let children = Families(&reader).children(job);
        children.is_ok_and(|children| {
            children.iter().all(|child| {
                let of = Owned {
                    owner: &child.owner,
                    is_own: false,
                    job: Some(&child.id),
                };
                let place = documents::parts(&child.destination);
                place.is_ok_and(|place| self.may_list(of, &place))
            })
        })
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

/// The last answer to the question whether a job means the sites that now have its names. A job may have a thousand places at one site, and each
/// answer takes its whole description.
#[derive(Default)]
pub(super) struct Meant(Mutex<OfJob>);

/// The answers for one job, by the names of its sites.
#[derive(Default)]
struct OfJob {
    job: String,
    sites: Vec<(String, bool)>,
}

impl Meant {
    /// Whether the job means the site that has this name now.
    pub(super) fn is(&self, reader: &Reader, job: &str, site: &str) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.job != job {
            *kept = OfJob {
                job: job.to_owned(),
                sites: Vec::new(),
            };
        }
        if let Some((_, is_meant)) = kept.sites.iter().find(|(known, _)| known == site) {
            return *is_meant;
        }
        let is_meant = means(reader, job, site);
        kept.sites.push((site.to_owned(), is_meant));
        is_meant
    }
}

/// Whether the job means the site that has this name now. A rule at a site ends with the identity of the site.
fn means(reader: &Reader, job: &str, site: &str) -> bool {
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
