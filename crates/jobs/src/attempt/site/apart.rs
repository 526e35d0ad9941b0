//! Decides before an attempt whether its destination meets those of its siblings, by the node or site that sees their directories.
//! Compares no places itself; `basis::apart` does.

use std::time::Instant;

use godwit_api::failure::Failure;
use godwit_run::Control;
use godwit_run::itself::Overlap;
use godwit_state::Job;

use super::Context;
use crate::asking::overlaps;
use crate::basis::apart::Apart;
use crate::basis::ends::may_run_elsewhere;

/// Refuses a job whose destination overlaps another one of its parent. Does not name the other: some users may see only one of them.
pub(crate) fn check_apart(own: &Context, job: &Job, control: &Control) -> Result<(), Failure> {
    let reader = own.this.reader();
    let until = Instant::now() + overlaps::WITHIN;
    let goes_on = || !control.is_cancelled();
    let apart = Apart {
        reader: &reader,
        cluster: &own.rights.cluster,
        exported: &*own.exported,
        elsewhere: &|site, paths| overlaps::of_site(&own.asking, site, paths, until, &goes_on),
    };
    let why = match apart.overlap_of(job) {
        Ok(None) => return Ok(()),
        Err(error) => return Err(Failure::local(error)),
        Ok(Some(Overlap::Same)) => {
            "this destination and another one of the job are one place: name each destination once"
        }
        Ok(Some(Overlap::Inside)) => {
            "of this destination and another one of the job, one is inside the other: name places apart"
        }
    };
    if may_run_elsewhere(job) {
        // The job may run at its sites already.
        own.notices.add(&job.id);
    }
    Err(Failure::usage(why))
}
