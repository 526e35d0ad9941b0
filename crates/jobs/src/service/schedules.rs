//! Owns the requests about schedules: whether one makes sense, when it fires next, and the role that it keeps.
//! Stores none, and submits no job: `queue` does.

use godwit_api::rest::NewJob;
use godwit_state::{Role, Schedule, Timestamp};

use super::Parts;
use crate::basis::error::JobsError;
use crate::queue::schedule;

/// The questions of schedules to this node.
#[derive(Clone, Copy)]
pub struct Schedules<'a> {
    parts: &'a Parts,
}

impl<'a> Schedules<'a> {
    pub(super) const fn of(parts: &'a Parts) -> Self {
        Self { parts }
    }

    /// Whether a schedule makes sense: cron expression, time zone, and job. A user of this role must be allowed to submit the job.
    ///
    /// # Errors
    /// Describes the fault, and a valid form.
    pub fn check(
        &self,
        cron: &str,
        time_zone: &str,
        template: &NewJob,
        owner: &str,
        role: Role,
    ) -> Result<(), JobsError> {
        schedule::check(
            &self.parts.admission,
            cron,
            time_zone,
            template,
            owner,
            role,
        )
    }

    /// When a schedule submits its job next; None if it never does.
    #[must_use]
    pub fn next_tick(&self, schedule: &Schedule) -> Option<Timestamp> {
        schedule::next(&self.parts.kept_ticks, schedule, self.parts.this.now())
    }

    /// The role of a changed schedule, from the role of the user who changes it and from its earlier role.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn kept_role(
        &self,
        role: Role,
        earlier: Option<&Schedule>,
    ) -> Result<Option<Role>, JobsError> {
        schedule::kept_role(&self.parts.this.reader(), role, earlier)
    }
}
