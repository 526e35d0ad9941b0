//! Owns which rights a job needs at its destination, by its description.
//! Asks no one whether a user has them.

use godwit_api::grant::Right;
use godwit_api::job::JobKind;
use godwit_api::rest::NewJob;

use crate::Shared;
use crate::stored::Stored;

/// What a job needs at its destination.
#[derive(Clone, Copy)]
pub(crate) struct There(&'static [Right]);

impl There {
    /// What this job needs. A verification reads the copy; the right to write also lets a job delete; a dry run tells what is there.
    pub(crate) fn of(new: &NewJob) -> Self {
        match new.kind {
            JobKind::Verify => Self(&[Right::Read]),
            JobKind::Copy | JobKind::Sync if is_dry(new) => Self(&[Right::Write, Right::List]),
            JobKind::Copy | JobKind::Sync => Self(&[Right::Write]),
        }
    }

    /// The same for the job with this id, as its stored description says.
    pub(crate) fn of_job(shared: &Shared, id: &str) -> Self {
        let spec = shared.replica.reader().job_spec(id).ok().flatten();
        let stored = spec.and_then(|spec| Stored::parse(&spec).ok());
        stored.map_or(Self(&[Right::Write]), |stored| Self::of(&stored.new))
    }

    /// The rights.
    pub(crate) const fn rights(self) -> &'static [Right] {
        self.0
    }
}

/// Whether a job changes nothing, and tells what it would change.
pub(crate) fn is_dry(new: &NewJob) -> bool {
    let no = ["false", "no", "off", "0"].map(str::as_bytes);
    let given = new.settings.get("dry-run");
    given.is_some_and(|given| given.last().is_none_or(|last| !no.contains(&&*last.0)))
}
