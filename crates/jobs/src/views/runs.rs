//! Owns the answer which site runs the transfer of a job.
//! Decides no route: `attempt` does.

use godwit_state::{Agreed, Job, Reader, Route};

use crate::basis::ends::is_third_party;

/// Whether another site runs the transfer of the job, and this node only follows it. A job that has no route yet runs here.
#[must_use]
pub fn runs_elsewhere(reader: &Reader, job: &Job) -> bool {
    let is_elsewhere = |route: Option<Route>| route.is_some_and(|route| route != Route::Here);
    is_third_party(job) || Agreed(reader).route(&job.id).is_ok_and(is_elsewhere)
}
