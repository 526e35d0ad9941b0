//! Owns the schedules: which of their ticks have fired, and their end with the user. Does not decide when a tick is due: the leader does.

use super::objects::Objects;
use super::{Context, Stop, counts_what_is_left, families, jobs};
use crate::model::{
    Change, CommandError, Effect, LEVEL_SCHEDULE_OWNERS, NewJob, Object as _, Reason, Role,
    Schedule, Timestamp, reason,
};
use crate::read::{committed_level, object_by_id};
use crate::seal::{object_body, select_objects};

/// The rows of schedules, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Schedules<'a>(pub(super) &'a Context<'a>);

impl Schedules<'_> {
    /// A changed schedule keeps its last fired tick; a new one fires for later ticks only. A change clears the reason of the last skipped tick.
    pub(super) fn change(&self, change: &Change<Schedule>) -> Result<Effect, Stop> {
        self.check_owner(change)?;
        let with_fired = |schedule: &Schedule| -> Result<Schedule, Stop> {
            let earlier = object_by_id::<Schedule>(self.0.db, &schedule.id)?;
            let fired = earlier.map_or(Some(self.0.at), |earlier| earlier.fired);
            Ok(Schedule {
                fired,
                reason: None,
                ..schedule.clone()
            })
        };
        let change = match change {
            Change::Create(schedule) => Change::Create(with_fired(schedule)?),
            Change::Put(schedule) => Change::Put(with_fired(schedule)?),
            Change::Remove(id) => Change::Remove(id.clone()),
        };
        Objects(self.0).change(&change)
    }

    /// Refuses the change of another user's schedule, unless an admin makes it and keeps the owner. Two users may make schedules of one id at
    /// the same time, and the node of each may have seen none.
    fn check_owner(&self, change: &Change<Schedule>) -> Result<(), Stop> {
        let (id, owner) = match change {
            Change::Create(new) | Change::Put(new) => (&new.id, Some(&new.owner)),
            Change::Remove(id) => (id, None),
        };
        let Some(row) = object_by_id::<Schedule>(self.0.db, id)? else {
            return Ok(());
        };
        let actor = self.0.actor;
        let is_admin = actor.role.is_none_or(|role| role == Role::Admin);
        let may_change = is_admin || actor.name == row.owner;
        let keeps_owner = owner.is_none_or(|owner| *owner == row.owner);
        if (may_change && keeps_owner) || committed_level(self.0.db)? < LEVEL_SCHEDULE_OWNERS {
            return Ok(());
        }
        let what = format!("schedule {id:?} belongs to {}", row.owner);
        Err(CommandError::denied(what).into())
    }

    /// Submits the job of a tick with its children, and remembers the tick. A tick without a job keeps its reason.
    pub(super) fn fired(
        &self,
        id: &str,
        tick: Timestamp,
        job: Option<(&NewJob, &[NewJob])>,
        why: Option<&Reason>,
    ) -> Result<Effect, Stop> {
        let mut schedule = object_by_id::<Schedule>(self.0.db, id)?
            .ok_or_else(|| CommandError::not_found(Schedule::KIND, id))?;
        // The removal of its owner may have disabled the schedule since the leader checked it.
        if schedule.disabled && counts_what_is_left(self.0.db)? {
            return Err(CommandError::invalid("schedule", "the schedule is disabled").into());
        }
        if schedule.fired.is_some_and(|fired| fired >= tick) {
            let schedule = id.to_owned();
            return Err(CommandError::AlreadyFired { schedule }.into());
        }
        if let Some(why) = why {
            jobs::check_reason(why)?;
        }
        schedule.fired = Some(tick);
        schedule.reason = why.filter(|_| job.is_none()).cloned();
        Objects(self.0).put(&schedule)?;
        match job {
            Some((job, [])) => jobs::submit(self.0, job, Some(id)),
            Some((job, children)) => families::submit(self.0, job, children, Some(id)),
            None => Ok(Effect::Done),
        }
    }

    /// Disables the schedules of a removed user.
    pub(super) fn disable_of(&self, owner: &str) -> Result<(), Stop> {
        let schedules: Vec<String> = self
            .0
            .db
            .prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?
            .query_map([Schedule::KIND], object_body)?
            .collect::<Result<_, _>>()?;
        for body in schedules {
            let mut schedule: Schedule = serde_json::from_str(&body)?;
            if schedule.owner == owner && !schedule.disabled {
                let text = format!("The user {owner} was removed, so the schedule was disabled.");
                schedule.disabled = true;
                schedule.reason = Some(Reason::new(reason::USER_REMOVED, text));
                Objects(self.0).put(&schedule)?;
            }
        }
        Ok(())
    }
}
