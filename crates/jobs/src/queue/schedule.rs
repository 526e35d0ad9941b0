//! Submits the jobs of schedules: cron expressions in a time zone.
//! Runs no job. If ticks passed while no node ran, the schedule submits one job for all of them.

mod kept;
mod pace;
mod ticks;

use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_api::rest::{NewJob, Place};
use godwit_state::{
    Agreed, LEVEL_ROLES, NewJob as Submitted, Op, ProposeError, Reader, Reason, Role, Schedule,
    Timestamp,
};

use crate::asking::overlaps;
use crate::basis::error::JobsError;
use crate::basis::spec;
use crate::basis::words::clip;
use crate::queue::Queue;
use crate::queue::submit::{self, Admission};
use crate::rights::access;
pub(crate) use kept::KeptTicks;
pub(crate) use pace::TickPace;
use ticks::{Ticks, YEARS_MAX};

/// Whether a schedule makes sense: the expression, the zone, and the job.
pub(crate) fn check(
    admission: &Admission,
    cron: &str,
    zone: &str,
    template: &NewJob,
    owner: &str,
    role: Role,
) -> Result<(), JobsError> {
    let ticks = Ticks::parse(cron, zone)?;
    if ticks.next(admission.this.now()).is_none() {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            format!("cron: {cron:?} does not come due within {YEARS_MAX} years"),
        ));
    }
    let may = |new: &NewJob, sources: &[Place], destination: &Place| {
        let there = access::There::of(new);
        access::check_places(&admission.rights, owner, role, there, sources, destination)
    };
    submit::check_job(admission, Some(role), template, &may, overlaps::WITHIN).map(drop)
}

/// The role that a schedule keeps when a user of this role puts it. `earlier` is the schedule with the same job and times: a comment of
/// another admin does not widen the rights of its jobs.
///
/// # Errors
/// The state cannot be read.
pub(crate) fn kept_role(
    reader: &Reader,
    role: Role,
    earlier: Option<&Schedule>,
) -> Result<Option<Role>, JobsError> {
    if Agreed(reader).level()? < LEVEL_ROLES {
        return Ok(None);
    }
    let before = earlier.and_then(|earlier| earlier.role);
    Ok(Some(before.map_or(role, |before| before.min(role))))
}

/// When the schedule submits its job next.
pub(crate) fn next(kept: &KeptTicks, schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
    if schedule.disabled {
        return None;
    }
    kept.of(schedule, at).next
}

/// Submits the schedules due at `at`; returns the time of the next tick.
pub(crate) fn fire(
    queue: &Queue,
    reader: &Reader,
    at: Timestamp,
) -> Result<Option<Timestamp>, JobsError> {
    let mut next = None;
    let mut schedules = reader.objects::<Schedule>()?;
    // The schedules of one owner that have waited the longest come first: the pace may admit no more.
    schedules.sort_by_key(|schedule| schedule.fired);
    queue.kept_ticks.retain(&schedules);
    for schedule in schedules {
        if queue.this.is_stopping() {
            break;
        }
        if schedule.disabled {
            continue;
        }
        let around = queue.kept_ticks.of(&schedule, at);
        next = [next, around.next].into_iter().flatten().min();
        let Some(tick) = around.last else {
            continue;
        };
        if schedule.fired.is_some_and(|fired| fired >= tick) {
            continue;
        }
        // A later pass handles the skipped schedule.
        if !queue.paces.ticks.take(&schedule.owner, Instant::now()) {
            continue;
        }
        let (job, children, reason) = match job_of(&queue.admission, &schedule, at) {
            Ok((job, children)) => {
                let now = Instant::now();
                queue.paces.ticks.add(&schedule.owner, children.len(), now);
                (Some(Box::new(job)), children, None)
            }
            Err(error) => {
                queue.this.log(&format!(
                    "schedule {}: the job of {} is skipped: {error}",
                    schedule.id,
                    tick.utc()
                ));
                (None, Vec::new(), Some(reason_of(&error)))
            }
        };
        let fired = Op::Fired {
            schedule: schedule.id,
            tick,
            job,
            children,
            reason,
        };
        match queue.this.propose_at(at, fired) {
            // Refused: it was changed meanwhile, or an id was taken; the next pass sees it.
            Ok(_) | Err(ProposeError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(next)
}

/// Why a tick, or a hop of a flow, submits nothing.
pub(crate) fn reason_of(error: &JobsError) -> Reason {
    let code = match error {
        JobsError::Invalid { code, .. } | JobsError::Forbidden { code, .. } => *code,
        _ => FailureCode::LocalFailure,
    };
    Reason::new(code, clip(&error.words()))
}

/// The job of a schedule, and the jobs of its destinations or gathered sources.
fn job_of(
    admission: &Admission,
    schedule: &Schedule,
    at: Timestamp,
) -> Result<(Submitted, Vec<Submitted>), JobsError> {
    let new = spec::parse(&schedule.template)?;
    let owner = schedule.owner.as_str();
    let may = |one: &NewJob, sources: &[Place], destination: &Place| {
        let (there, who) = (access::There::of(one), (owner, schedule.role));
        access::check_owner(&admission.rights, who, there, sources, destination)
    };
    // A silent site does not hold up the schedules of others.
    let checked = submit::check_job(admission, schedule.role, &new, &may, Duration::ZERO)?;
    submit::check_room(admission, owner)?;
    Ok(checked.build(at, owner, &new, None))
}
