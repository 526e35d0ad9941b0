//! The rights of the node that asked for a job: here when the job begins and while it runs, and at the third site by its mandate.
//! Gives no access (`grants`) and runs no job.

use godwit_api::ask::{MayUse, Refusal, RunJob, code};
use godwit_api::grant::{Mandate, Right, Subject, Wish, allows};
use godwit_api::job::Text;
use godwit_api::rest::{NewJob, Place, Timestamp};
use godwit_state::{Agreed, Job, Reader};

use crate::basis::documents;
use crate::basis::error::refuse;
use crate::basis::owners::KEY;
use crate::basis::stored::{Guest, Stored};
use crate::rights::{Rights, access, grants};

/// The rights that a job needs at its sources.
const READS: &[Right] = &[Right::Read];

/// The mandate under which a job runs that has its other end at a third site: that site admits it by the access for the asker's job.
pub(crate) fn mandate_of(job: &Job, guest: &Guest) -> Option<Mandate> {
    guest.other.as_ref()?;
    // A job for another node always has such a key. Without one it names a job that no site knows, and is refused everywhere.
    let key = job.idempotency_key.as_deref().unwrap_or_default();
    Some(Mandate {
        asker: guest.asker.clone(),
        job: key.strip_prefix(KEY).unwrap_or("none").to_owned(),
    })
}

/// The node that owns the job of a question: the asking node, or the node of the mandate. That node has
/// given access for this job to the nodes that may resume it.
pub(crate) fn acts_for<'a>(
    rights: &Rights,
    asker: &'a str,
    mandate: Option<&'a Mandate>,
    job: &str,
) -> Result<&'a str, Refusal> {
    let Some(mandate) = mandate else {
        return Ok(asker);
    };
    if mandate.job == job && grants::is_let_in(rights, mandate, asker)? {
        return Ok(&mandate.asker);
    }
    let Mandate { asker: of, job } = mandate;
    let message = format!("{asker} was not given access here for job {job} of {of}");
    Err(Refusal::new(code::NOT_LET_IN, message))
}

/// Refuses a node that sent this job of the cluster to another site and then left the cluster. The job continues with the access that the
/// node gave as a member, and the other members give and revoke access from then on.
pub(crate) fn check_left(rights: &Rights, asker: &str, job: &str) -> Result<(), Refusal> {
    let noted = Agreed(&rights.this.reader()).asker(job);
    let noted = noted.map_err(|error| refuse(&error.into()))?;
    if noted.as_deref() != Some(asker) || rights.cluster.is_own(asker) {
        return Ok(());
    }
    let is_member = rights.cluster.has(asker);
    if is_member.map_err(|error| refuse(&error.into()))? {
        return Ok(());
    }
    let message = format!("{asker} has left the cluster of job {job}");
    Err(Refusal::new(code::NOT_LET_IN, message))
}

/// Whether the asker has the rights now that the job needs here.
pub(crate) fn check_rights(new: &NewJob, now: Timestamp, may: &MayUse<'_>) -> Result<(), Refusal> {
    let there = access::There::of(new);
    let ends = new.sources.iter().map(|source| (source, READS));
    for (text, rights) in ends.chain([(&new.destination, there.rights())]) {
        let place: Result<Place, _> = text.parse();
        if let Ok(place) = place
            && place.is_here()
        {
            for right in rights {
                may(&Text(place.below_exports()), *right == Right::Write, now)?;
            }
        }
    }
    Ok(())
}

/// Whether the node that asked for a job still has the rights that the job needs here. While grants cannot be read, admitted jobs continue.
pub(crate) fn may_go_on(rights: &Rights, asker: &str, job: &Job) -> bool {
    let rules = (rights.file_grants)().ok();
    let rules = rules.zip(rights.rules.now(&rights.this.replica).ok());
    let Some((file, state)) = rules else {
        return true;
    };
    let who = Subject::Identity(asker.to_owned());
    let at = rights.this.now();
    let ends = job.sources.iter().map(|place| (place, Right::Read));
    let there = access::There::of_job(&rights.this.reader(), &job.id)
        .0
        .rights()
        .iter();
    let mut ends = ends.chain(there.map(|right| (&job.destination, *right)));
    ends.all(|(place, right)| {
        let Ok(named) = documents::parts(place) else {
            return false;
        };
        let wish = Wish::at(&named.export, &named.path, right);
        !named.is_here() || allows(&file, &who, wish, at) || allows(&*state, &who, wish, at)
    })
}

/// Whether the owner of a job for another node has the right to list or read its destination. That node asserts the right. It must have
/// the right itself if the destination is here. None: it is unknown now.
pub(crate) fn may_there(rights: &Rights, asker: &str, job: &Job, right: Right) -> Option<bool> {
    let guest = said(&rights.this.reader(), job)?;
    let owner_may = match right {
        Right::List => guest.may_list,
        _ => guest.may_read,
    };
    let named = documents::parts(&job.destination).ok()?;
    let file = (rights.file_grants)().ok()?;
    let state = rights.rules.now(&rights.this.replica).ok()?;
    let wish = Wish::at(&named.export, &named.path, right);
    let who = Subject::Identity(asker.to_owned());
    let at = rights.this.now();
    let asker_may = || allows(&file, &who, wish, at) || allows(&*state, &who, wish, at);
    Some(owner_may && (!named.is_here() || asker_may()))
}

/// The statement of the node that asked for the job.
fn said(reader: &Reader, job: &Job) -> Option<Guest> {
    let spec = reader.job_spec(&job.id).ok().flatten()?;
    Stored::parse(&spec).ok()?.guest
}

/// Refuses to continue a job whose owner may see less of the destination than at the submission. A node of an older version does not report
/// that.
pub(crate) fn check_kept_rights(reader: &Reader, job: &Job, wish: &RunJob) -> Result<(), Refusal> {
    let less = said(reader, job).is_some_and(|guest| {
        (guest.may_list && wish.may_list == Some(false))
            || (guest.may_read && wish.may_read == Some(false))
    });
    if !less {
        return Ok(());
    }
    let message = "since the job was submitted, its owner has lost the right to list or read the destination; submit the job again";
    Err(Refusal::new(code::NOT_GRANTED, message))
}

/// Why a job for another node may not continue.
pub(crate) const ACCESS_ENDED: &str =
    "the access of the site that asked for the job has ended here";
