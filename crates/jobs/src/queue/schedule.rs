//! Submits the jobs of schedules: cron expressions in a time zone.
//! Runs no job. If ticks passed while no node ran, the schedule submits one job for all of them.
//!
//! The expressions are those of crontab(5), with an optional field of seconds in front. A tick in the hour that a change to summer time
//! leaves out comes when the clock has moved on. A tick in the hour that comes twice comes once.

mod pace;

use std::time::Instant;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Cron;
use godwit_api::failure::FailureCode;
use godwit_api::rest::NewJob;
use godwit_state::{
    Agreed, LEVEL_ROLES, NewJob as Submitted, Op, ProposeError, Reader, Reason, Role, Schedule,
    Timestamp,
};

use crate::basis::error::JobsError;
use crate::basis::spec;
use crate::basis::stored::Stored;
use crate::basis::words::clip;
use crate::basis::zone::{self, check_time_zone};
use crate::queue::Queue;
use crate::queue::submit::{self, Admission};
use crate::rights::access;
pub(crate) use pace::TickPace;

/// A schedule that makes sense.
struct Ticks {
    cron: Cron,
    zone: Tz,
}

impl Ticks {
    fn parse(cron: &str, zone: &str) -> Result<Self, JobsError> {
        let cron = cron.parse().map_err(|error| {
            JobsError::invalid(
                FailureCode::Invalid,
                format!("cron: {cron:?}: {error}; write minute, hour, day of the month, month, day of the week, as in `0 22 * * 1-5`"),
            )
        })?;
        check_time_zone(zone)?;
        let zone = zone::zone(zone).unwrap_or(Tz::UTC);
        Ok(Self { cron, zone })
    }

    fn local(&self, at: Timestamp) -> Option<DateTime<Tz>> {
        DateTime::<Utc>::from_timestamp_millis(at.0).map(|utc| utc.with_timezone(&self.zone))
    }

    /// The last tick at `at` or before.
    fn last(&self, at: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.local(at)?, true);
        last.ok().map(|tick| Timestamp(tick.timestamp_millis()))
    }

    /// The first tick after `at`.
    fn next(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.local(at)?, false);
        next.ok().map(|tick| Timestamp(tick.timestamp_millis()))
    }
}

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
            format!("cron: {cron:?} never comes due"),
        ));
    }
    let (sources, destination) = submit::check(&admission.this, template)?;
    let there = access::There::of(template);
    access::check_places(
        &admission.rights,
        owner,
        role,
        there,
        &sources,
        &destination,
    )
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
pub(crate) fn next(schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
    if schedule.disabled {
        return None;
    }
    let ticks = Ticks::parse(&schedule.cron, &schedule.time_zone).ok()?;
    ticks.next(at)
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
    for schedule in schedules {
        if schedule.disabled {
            continue;
        }
        let Ok(ticks) = Ticks::parse(&schedule.cron, &schedule.time_zone) else {
            continue;
        };
        next = [next, ticks.next(at)].into_iter().flatten().min();
        let Some(tick) = ticks.last(at) else {
            continue;
        };
        if schedule.fired.is_some_and(|fired| fired >= tick) {
            continue;
        }
        // A later pass handles the skipped schedule.
        if !queue.ticks.take(&schedule.owner, Instant::now()) {
            continue;
        }
        let (job, reason) = match job_of(&queue.admission, &schedule, at) {
            Ok(job) => (Some(Box::new(job)), None),
            Err(error) => {
                queue.this.log(&format!(
                    "schedule {}: the job of {} is skipped: {error}",
                    schedule.id,
                    tick.utc()
                ));
                (None, Some(reason_of(&error)))
            }
        };
        let fired = Op::Fired {
            schedule: schedule.id,
            tick,
            job,
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

/// Why a tick submits nothing.
fn reason_of(error: &JobsError) -> Reason {
    let code = match error {
        JobsError::Invalid { code, .. } | JobsError::Forbidden { code, .. } => *code,
        _ => FailureCode::LocalFailure,
    };
    Reason::new(code, clip(&error.words()))
}

fn job_of(
    admission: &Admission,
    schedule: &Schedule,
    at: Timestamp,
) -> Result<Submitted, JobsError> {
    let new = spec::parse(&schedule.template)?;
    let checked = submit::check(&admission.this, &new)?;
    let text = Stored::text_of(&admission.this.reader(), &new, schedule.role, &checked)?;
    let there = access::There::of(&new);
    let who = (schedule.owner.as_str(), schedule.role);
    access::check_owner(&admission.rights, who, there, &checked.0, &checked.1)?;
    submit::check_room(admission, &schedule.owner)?;
    let owner = &schedule.owner;
    Ok(submit::build(at, owner, &new, text, &checked, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn ticks_are_in_the_time_zone() {
        let ticks = Ticks::parse("0 22 * * *", "Europe/Berlin").expect("ticks");
        assert_eq!(
            ticks.next(at("2026-11-24T20:00:00Z")),
            Some(at("2026-11-24T21:00:00Z"))
        );
        assert_eq!(
            ticks.last(at("2026-11-24T20:00:00Z")),
            Some(at("2026-11-23T21:00:00Z"))
        );
        assert_eq!(
            ticks.last(at("2026-07-01T20:00:00Z")),
            Some(at("2026-07-01T20:00:00Z"))
        );
    }

    #[test]
    fn an_hour_that_is_left_out_or_comes_twice_has_one_tick() {
        let ticks = Ticks::parse("30 2 * * *", "Europe/Berlin").expect("ticks");
        for (from, to) in [
            ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"),
            ("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
        ] {
            let mut seen = Vec::new();
            let mut time = at(from);
            while let Some(tick) = ticks.next(time).filter(|tick| *tick < at(to)) {
                seen.push(tick);
                time = tick;
            }
            assert_eq!(seen.len(), 1, "{seen:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        let wrong = |cron, zone| Ticks::parse(cron, zone).map(|_| ()).expect_err("wrong");
        assert!(
            wrong("at ten", "UTC")
                .to_string()
                .contains("day of the week")
        );
        assert!(
            wrong("0 22 * * *", "Mars")
                .to_string()
                .contains("Europe/Berlin")
        );
    }
}
