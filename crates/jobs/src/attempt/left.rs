//! Owns the temporary files that an ended job left at its destination: how many there are, and the right to remove them.
//! Removes nothing: the site of the destination does.

use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, CleanPlace, Question};
use godwit_api::event::EventSink as _;
use godwit_api::failure::FailureCode;
use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_api::rest::{HERE, Place};
use godwit_api::units::{counted, human_size};
use godwit_state::{Agreed, Job, JobState, Reader, Role, Site};

use crate::asking::{Asking, reached};
use crate::attempt::AttemptEvents;
use crate::attempt::claim::kept;
use crate::basis::documents;
use crate::basis::error::JobsError;
use crate::basis::owners::asker_of;
use crate::basis::stored::Stored;
use crate::rights::access::Access;

/// How long the search for leftovers of a job may take at its end.
const LOOK_WITHIN: Duration = Duration::from_secs(20);

/// Nodes that know no tags take this for the age of removable files, and so remove nothing.
const OLDER_THAN_SECONDS: u64 = 100 * 365 * 24 * 3_600;

impl Access<'_> {
    /// The destination of a job that has ended, and the wish to remove the leftovers of its attempts there; for its owner and for admins.
    ///
    /// # Errors
    /// The job is unknown, belongs to another user, or may resume; the user may not delete at its destination; another site ran it; or
    /// the name of
    /// its site belongs to another identity by now.
    pub fn left_by(
        &self,
        user: &str,
        role: Role,
        id: &str,
    ) -> Result<(Place, CleanPlace), JobsError> {
        let reader = self.0.this.reader();
        let job = reader.job(id)?;
        let job = job.ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
        if role != Role::Admin && job.owner != user {
            return Err(JobsError::Forbidden {
                code: FailureCode::NotGranted,
                detail: format!(
                    "the job {id} belongs to {}: only its owner and admins can remove its temporary files",
                    job.owner
                ),
            });
        }
        if !job.state.ended() {
            let what = format!(
                "the job {id} may resume and needs its temporary files; cancel the job first"
            );
            return Err(JobsError::invalid(FailureCode::Conflict, what));
        }
        let tags = Agreed(&reader).placed(id)?.tags;
        if tags.is_empty() {
            let what = format!(
                "this node knows no temporary files of the job {id}: the job wrote nothing, or another site ran it; godwit clean PLACE removes files of transfers that cannot resume"
            );
            return Err(JobsError::invalid(FailureCode::Invalid, what));
        }
        let place = documents::parts(&job.destination)?;
        let is_for_other = asker_of(&job).is_some() && place.site != HERE;
        if is_for_other {
            let what = format!(
                "the job {id} runs for another site, which cleans its destination at {place}"
            );
            return Err(JobsError::invalid(FailureCode::Invalid, what));
        }
        site_of(&reader, &job, &place)?;
        let granted = self.of(user, role)?;
        let is_own = granted.owns(&reader, &job.owner, Stored::role_of(&reader, id)?);
        granted.check_of_job(id, is_own, &place, Right::Delete)?;
        let wish = wish(&job, &place, tags);
        Ok((place, wish))
    }
}

/// The site of the destination of a job; None for this node, or if the name is not known any more.
fn site_of(reader: &Reader, job: &Job, place: &Place) -> Result<Option<Site>, JobsError> {
    if place.site == HERE {
        return Ok(None);
    }
    Stored::of(reader, &job.id)?.site(reader, &place.site)
}

fn wish(job: &Job, place: &Place, tags: Vec<u64>) -> CleanPlace {
    CleanPlace {
        path: Text(place.below_exports()),
        dry_run: false,
        older_than_seconds: OLDER_THAN_SECONDS,
        claim: kept(job, &tags),
        tags,
    }
}

/// Writes to the log of a cancelled job which leftovers it has, and how to remove them.
pub(crate) fn report(asking: &Asking, job: &Job, events: &AttemptEvents) {
    let reader = asking.this.reader();
    let is_cancelled = |job: Job| job.state == JobState::Cancelled;
    if !reader
        .job(&job.id)
        .is_ok_and(|job| job.is_some_and(is_cancelled))
    {
        return;
    }
    let (Ok(placed), Ok(place)) = (
        Agreed(&reader).placed(&job.id),
        documents::parts(&job.destination),
    ) else {
        return;
    };
    // For a job of another node, that node asks: this node has rights there only for the transfer.
    let is_for_other = asker_of(job).is_some() && place.site != HERE;
    if placed.tags.is_empty() || place.is_memory() || is_for_other {
        return;
    }
    let question = Question::Clean(CleanPlace {
        dry_run: true,
        ..wish(job, &place, placed.tags)
    });
    let id = &job.id;
    let unknown = |why: &dyn std::fmt::Display| {
        events.note(&format!(
            "the temporary files of the cancelled job at {place} are unknown ({why}); remove them with: godwit clean --job {id}"
        ));
    };
    let site = match site_of(&reader, job, &place) {
        Ok(Some(site)) => Some(reached::peer(&site)),
        Ok(None) if place.site == HERE => None,
        Ok(None) => return,
        Err(error) => {
            unknown(&error);
            return;
        }
    };
    let until = Instant::now() + LOOK_WITHIN;
    let sites = &asking.sites;
    let answer = sites.ask(site.as_ref(), &question, &mut |_| Instant::now() < until);
    match answer {
        Ok(Answer::Cleaned(found)) if found.files > 0 => events.note(&format!(
            "the cancelled job leaves {} with {} at {place}; remove them with: godwit clean --job {id}",
            counted(found.files, "temporary file"),
            human_size(found.bytes)
        )),
        Ok(_) => events.note(&format!(
            "the cancelled job leaves no temporary files at {place}"
        )),
        Err(refusal) => unknown(&refusal),
    }
}
