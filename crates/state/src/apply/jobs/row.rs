//! Owns the row of one job while a command changes it: what the users of the job may change, and the moves that the table of states allows.
//! See `claims` for the changes by the nodes that run jobs.

use rusqlite::{Connection, params};

use super::super::{Context, Stop, sql};
use super::{check_reason, clip, due, waits};
use crate::bounds::{self, ATTEMPTS_MAX};
use crate::model::{
    Cause, CommandError, Job, JobChange, JobState, LEVEL_ATTEMPTS, LEVEL_TRY_NOW, Reason, allowed,
    reason,
};
use crate::read::{committed_level, job_by_id};

/// The row of one job, with the command that changes it.
pub(in crate::apply) struct JobRow<'a> {
    pub(in crate::apply) context: &'a Context<'a>,
    pub(in crate::apply) job: Job,
}

impl<'a> JobRow<'a> {
    /// The row of the job with this id.
    pub(in crate::apply) fn find(context: &'a Context<'a>, id: &str) -> Result<Option<Self>, Stop> {
        let job = job_by_id(context.db, id)?;
        Ok(job.map(|job| Self { context, job }))
    }

    /// Sets state, reason and time, if the table allows it.
    pub(in crate::apply) fn shift(
        &mut self,
        cause: Cause,
        to: JobState,
        why: Option<Reason>,
    ) -> Result<(), CommandError> {
        if !allowed(self.job.state, cause, to) {
            return Err(CommandError::forbidden(&self.job.id, self.job.state, cause));
        }
        if self.job.state != to {
            self.job.since = self.context.at;
        }
        self.job.state = to;
        self.job.reason = why;
        self.job.ended = to.ended().then_some(self.context.at);
        Ok(())
    }

    /// Writes the columns that change.
    pub(in crate::apply) fn save(&self) -> Result<(), Stop> {
        let mut statement = self.context.db.prepare_cached(
            "UPDATE jobs SET label = ?2, state = ?3, reason_code = ?4, reason_text = ?5, since = ?6, next_attempt = ?7, \
             priority = ?8, rate_limit = ?9, deadline = ?10, due = ?11, attempts = ?12, retries = ?13, epoch = ?14, \
             runner_node = ?15, runner_instance = ?16, started = ?17, ended = ?18, summary = ?19 WHERE id = ?1",
        )?;
        statement.execute(params![
            self.job.id,
            self.job.label,
            self.job.state.name(),
            self.job.reason.as_ref().map(|reason| reason.code.as_str()),
            self.job.reason.as_ref().map(|reason| &reason.text),
            self.job.since.0,
            self.job.next_attempt.map(|time| time.0),
            self.job.priority,
            self.job.limit.map(sql),
            self.job.deadline.map(|time| time.0),
            due(&self.job),
            self.job.attempts,
            self.job.retries,
            sql(self.job.epoch),
            self.job.runner.as_ref().map(|runner| &runner.node),
            self.job.runner.as_ref().map(|runner| &runner.instance),
            self.job.started.map(|time| time.0),
            self.job.ended.map(|time| time.0),
            self.job.summary,
        ])?;
        Ok(())
    }

    /// Refuses to start a job again that has had too many attempts.
    pub(super) fn check_attempts(&self) -> Result<(), Stop> {
        if self.job.attempts < ATTEMPTS_MAX || committed_level(self.context.db)? < LEVEL_ATTEMPTS {
            return Ok(());
        }
        let what = format!(
            "the job has had {} attempts, and {ATTEMPTS_MAX} is the limit; submit it as a new job, which skips what is complete",
            self.job.attempts
        );
        Err(CommandError::invalid("attempts", what).into())
    }

    /// From: paused. To: queued, scheduled.
    pub(super) fn resume(&mut self) -> Result<(), CommandError> {
        let text = format!(
            "{} resumed the job; the job waits for a node.",
            self.context.actor.name
        );
        let (state, why) = waits(self.job.not_before, self.context.at, reason::RESUMED, &text);
        self.shift(Cause::Resume, state, Some(why))?;
        self.job.epoch += 1;
        self.job.next_attempt = None;
        Ok(())
    }

    /// From: partial, failed, cancelled. To: queued, scheduled.
    pub(super) fn retry(&mut self) -> Result<(), CommandError> {
        let text = format!(
            "{} started the job again; the job waits for a node.",
            self.context.actor.name
        );
        let (state, why) = waits(self.job.not_before, self.context.at, reason::RETRIED, &text);
        self.shift(Cause::Retry, state, Some(why))?;
        self.job.epoch += 1;
        self.job.retries = 0;
        self.job.next_attempt = None;
        // A deadline that has passed would end the job at once.
        self.job.deadline = self
            .job
            .deadline
            .filter(|deadline| *deadline > self.context.at);
        Ok(())
    }

    /// Whether the job waits for its next attempt, and all nodes know that it can begin now.
    pub(super) fn waits_for_attempt(&self) -> Result<bool, Stop> {
        let waits = self.job.state == JobState::Queued && self.job.next_attempt.is_some();
        Ok(waits && committed_level(self.context.db)? >= LEVEL_TRY_NOW)
    }

    /// From: queued, after a failure. To: queued, with the next attempt due. The count of retries stays.
    pub(super) fn try_now(&mut self) -> Result<(), Stop> {
        self.check_attempts()?;
        let text = format!(
            "{} asked for the next attempt now; the job waits for a node.",
            self.context.actor.name
        );
        let why = Reason::new(reason::RETRIED, text);
        self.shift(Cause::Retry, JobState::Queued, Some(why))?;
        self.job.next_attempt = None;
        Ok(())
    }

    /// From: all states that have not ended. To: failed.
    pub(super) fn expire(&mut self) -> Result<(), Stop> {
        let Some(deadline) = self
            .job
            .deadline
            .filter(|deadline| *deadline <= self.context.at)
        else {
            return Err(CommandError::invalid("at", "the job's deadline has not passed").into());
        };
        let last = self.job.reason.as_ref().map_or("", |reason| &reason.text);
        let text = clip(format!("The deadline passed at {}. {last}", deadline.utc()));
        let why = Reason::new(reason::DEADLINE_PASSED, text);
        self.stop(Cause::Expire, JobState::Failed, why)
    }

    pub(super) fn explain(&mut self, seen: u64, why: &Reason) -> Result<(), CommandError> {
        check_reason(why)?;
        if seen != self.job.epoch {
            return Err(CommandError::Stale {
                id: self.job.id.clone(),
                given: seen,
                now: self.job.epoch,
            });
        }
        if !self.job.state.waits() {
            return Err(CommandError::Forbidden {
                id: self.job.id.clone(),
                state: self.job.state,
                action: "explain".to_owned(),
            });
        }
        self.job.reason = Some(why.clone());
        Ok(())
    }

    /// Applies all parts of the change, or none. Only the label of an ended job may change.
    pub(in crate::apply) fn set(&mut self, change: &JobChange) -> Result<(), CommandError> {
        let steers = change.limit.is_some() || change.priority.is_some();
        if steers && self.job.state.ended() {
            return Err(CommandError::Forbidden {
                id: self.job.id.clone(),
                state: self.job.state,
                action: "change".to_owned(),
            });
        }
        if let Some(label) = &change.label {
            bounds::text("label", label)?;
            self.job.label.clone_from(label);
        }
        if let Some(limit) = change.limit {
            self.job.limit = (limit > 0).then_some(limit);
        }
        self.job.priority = change.priority.unwrap_or(self.job.priority);
        Ok(())
    }
}

/// Adds a job with its description, its kind and its sites.
pub(super) fn insert(db: &Connection, job: &Job, spec: &str) -> Result<(), Stop> {
    let mut statement = db.prepare_cached(
        "INSERT INTO jobs (id, created, owner, label, state, reason_code, reason_text, since, priority, rate_limit, \
         not_before, deadline, due, retry, attempts, retries, epoch, idempotency_key, schedule, sources, destination, \
         request) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?2, ?8, ?9, ?10, ?11, ?12, ?13, 0, 0, 0, ?14, ?15, ?16, ?17, ?18)",
    )?;
    statement.execute(params![
        job.id,
        job.created.0,
        job.owner,
        job.label,
        job.state.name(),
        job.reason.as_ref().map(|reason| reason.code.as_str()),
        job.reason.as_ref().map(|reason| &reason.text),
        job.priority,
        job.limit.map(sql),
        job.not_before.map(|time| time.0),
        job.deadline.map(|time| time.0),
        due(job),
        serde_json::to_string(&job.retry)?,
        job.idempotency_key,
        job.schedule,
        serde_json::to_string(&job.sources)?,
        serde_json::to_string(&job.destination)?,
        job.request,
    ])?;
    db.prepare_cached("INSERT INTO job_specs (job, spec) VALUES (?1, ?2)")?
        .execute(params![job.id, spec])?;
    db
        .prepare_cached(
            "INSERT INTO job_kinds (job, kind) SELECT ?1, kind FROM (SELECT CASE WHEN json_valid(?2) THEN \
             coalesce(json_extract(?2, '$.kind'), json_extract(?2, '$.new.kind')) END AS kind) \
             WHERE kind IS NOT NULL",
        )?
        .execute(params![job.id, spec])?;
    let mut site = db.prepare_cached(
        "INSERT OR IGNORE INTO job_sites (site, created, job) VALUES (?1, ?2, ?3)",
    )?;
    for place in job.sources.iter().chain([&job.destination]) {
        site.execute(params![place.site, job.created.0, job.id])?;
    }
    Ok(())
}
