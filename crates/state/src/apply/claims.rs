//! Owns the commands of nodes that run jobs: claims, reports, ends of attempts, restarts of nodes. See `jobs` for submission and changes by
//! users.

use rusqlite::{Connection, params};

use super::jobs::{JobRow, check_reason, clip};
use super::notices::Notices;
use super::{Context, Stop, families, sql, work};
use crate::bounds;
use crate::model::{
    AttemptOutcome, Cause, CommandError, Effect, FailureGroup, Finish, JobState, Moved, Outcome,
    Reason, Route, Runner, Timestamp, reason,
};
use crate::read::{is_destination_taken, job_route};

impl JobRow<'_> {
    /// From: queued, scheduled. To: scanning. Children of one parent that have one destination run one after another: also if the earlier
    /// attempt was ended from outside, and its node may not have stopped it yet.
    pub(super) fn claim(&mut self, runner: &Runner, seen: u64) -> Result<(), Stop> {
        bounds::name("node", &runner.node)?;
        bounds::name("instance", &runner.instance)?;
        self.check_epoch(seen)?;
        let (db, at) = (self.context.db, self.context.at);
        if is_destination_taken(db, &self.job, &runner.node, at)? {
            return Err(CommandError::forbidden(&self.job.id, self.job.state, Cause::Claim).into());
        }
        self.shift(Cause::Claim, JobState::Scanning, None)?;
        self.job.epoch += 1;
        self.job.attempts += 1;
        self.job.runner = Some(runner.clone());
        self.job.next_attempt = None;
        self.job.started = self.job.started.or(Some(self.context.at));
        self.context
            .db
            .prepare_cached(
                "INSERT INTO attempts (job, number, epoch, node, started, bytes, files) \
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, 0)",
            )?
            .execute(params![
                self.job.id,
                self.job.attempts,
                sql(self.job.epoch),
                runner.node,
                self.context.at.0
            ])?;
        Ok(())
    }

    /// From: scanning, running, verifying. To: the same state.
    pub(super) fn report(
        &mut self,
        epoch: u64,
        state: JobState,
        why: Option<&Reason>,
    ) -> Result<(), Stop> {
        self.check_epoch(epoch)?;
        if let Some(why) = why {
            check_reason(why)?;
        }
        Ok(self.shift(Cause::Report, state, why.cloned())?)
    }

    /// Records whether the sources go into the destination, as the attempt found out. Does not change the state of the job.
    pub(super) fn placed(&self, epoch: u64, into: bool, tag: u64) -> Result<(), Stop> {
        self.check_epoch(epoch)?;
        if !self.job.state.moves() {
            return Err(
                CommandError::forbidden(&self.job.id, self.job.state, Cause::Report).into(),
            );
        }
        self.context
            .db
            .prepare_cached(
                "UPDATE attempts SET goes_into = ?3, tag = ?4 WHERE job = ?1 AND number = ?2",
            )?
            .execute(params![
                self.job.id,
                self.job.attempts,
                into,
                tag.cast_signed()
            ])?;
        Ok(())
    }

    /// Records the site that runs the transfer, the asker under which that site knows the job, and which independent nodes have the job. Does
    /// not change the state of the job. Refuses a route or nodes that differ from the earlier ones.
    pub(super) fn route(
        &self,
        epoch: u64,
        route: Route,
        (asker, at): (Option<&str>, &[String]),
    ) -> Result<(), Stop> {
        self.check_epoch(epoch)?;
        if let Some(asker) = asker {
            bounds::name("asker", asker)?;
        }
        // A job has two sites.
        bounds::count("at", at.len(), 2)?;
        for node in at {
            bounds::name("at", node)?;
            if node.contains(' ') {
                return Err(CommandError::invalid("at", "an identity has no space").into());
            }
        }
        if !self.job.state.moves() {
            return Err(
                CommandError::forbidden(&self.job.id, self.job.state, Cause::Report).into(),
            );
        }
        if let Some(earlier) = job_route(self.context.db, &self.job.id)? {
            if earlier.route != route {
                let what = format!("was decided before: {}", earlier.route.name());
                return Err(CommandError::invalid("route", what).into());
            }
            // A site may have lost nodes meanwhile.
            let is_other = |node: &String| !earlier.at.contains(node);
            if !earlier.at.is_empty() && at.iter().any(is_other) {
                let what = format!("was decided before: {}", earlier.at.join(", "));
                return Err(CommandError::invalid("at", what).into());
            }
        }
        self.context
            .db
            .prepare_cached("UPDATE attempts SET route = ?3 WHERE job = ?1 AND number = ?2")?
            .execute(params![
                self.job.id,
                self.job.attempts,
                route.as_row(asker, at)
            ])?;
        Ok(())
    }

    /// From: scanning, running, verifying. To: queued, or failed if the policy allows no other attempt.
    pub(super) fn backoff(
        &mut self,
        epoch: u64,
        why: &Reason,
        next_attempt: Timestamp,
        moved: Moved,
    ) -> Result<(), Stop> {
        self.check_epoch(epoch)?;
        check_reason(why)?;
        if self
            .job
            .retry
            .retries_max
            .is_some_and(|max| self.job.retries >= max)
        {
            let text = format!(
                "The job used up its retries ({}). {}",
                self.job.retries, why.text
            );
            let why = Reason::new(reason::RETRIES_EXHAUSTED, clip(text));
            return self.leave(Cause::Expire, JobState::Failed, why, moved);
        }
        if let Some(deadline) = self
            .job
            .deadline
            .filter(|deadline| next_attempt > *deadline)
        {
            let text = format!(
                "The deadline {} comes before the next attempt. {}",
                deadline.utc(),
                why.text
            );
            let why = Reason::new(reason::DEADLINE_PASSED, clip(text));
            return self.leave(Cause::Expire, JobState::Failed, why, moved);
        }
        let why = why.clone();
        self.leave(Cause::Backoff, JobState::Queued, why, moved)?;
        self.job.retries += 1;
        self.job.next_attempt = Some(next_attempt);
        Ok(())
    }

    /// From: scanning, running, verifying. To: complete, partial, failed.
    pub(super) fn finish(&mut self, finish: &Finish) -> Result<(), Stop> {
        self.check_epoch(finish.epoch)?;
        bounds::spec("summary", &finish.summary)?;
        let why = match (&finish.reason, finish.outcome) {
            (Some(why), _) => {
                check_reason(why)?;
                why.clone()
            }
            (None, Outcome::Complete) => Reason::new(reason::COMPLETE, "The whole job is done."),
            (None, _) => {
                return Err(CommandError::invalid(
                    "reason",
                    "only a complete job may have no reason",
                )
                .into());
            }
        };
        let moved = Moved {
            bytes: finish.bytes,
            files: finish.files,
            bytes_again: 0,
        };
        let to = finish.outcome.state();
        self.leave(Cause::Finish, to, why, moved)?;
        self.job.summary = Some(finish.summary.clone());
        failures(self.context.db, &self.job.id, &finish.failures)
    }

    /// From: queued, scheduled, paused. To: failed.
    pub(super) fn deny(&mut self, seen: u64, why: &Reason) -> Result<(), Stop> {
        self.check_epoch(seen)?;
        check_reason(why)?;
        self.stop(Cause::Deny, JobState::Failed, why.clone())
    }

    /// Stops a job in any state that is not final. To: paused, cancelled, failed.
    pub(super) fn stop(&mut self, cause: Cause, to: JobState, why: Reason) -> Result<(), Stop> {
        self.leave(cause, to, why, Moved::default())
    }

    /// Moves a job to a state without a runner, and ends its attempt if there is one.
    fn leave(&mut self, cause: Cause, to: JobState, why: Reason, moved: Moved) -> Result<(), Stop> {
        let outcome = match cause {
            Cause::Backoff => AttemptOutcome::Backoff,
            Cause::Restart => AttemptOutcome::Restart,
            _ => AttemptOutcome::State(to),
        };
        if self.job.state.moves() {
            self.context
                .db
                .prepare_cached(
                    "UPDATE attempts SET ended = ?3, outcome = ?4, reason_code = ?5, reason_text = ?6, \
                     bytes = max(bytes, ?7), files = max(files, ?8) WHERE job = ?1 AND number = ?2",
                )?
                .execute(params![
                    self.job.id,
                    self.job.attempts,
                    self.context.at.0,
                    outcome.as_str(),
                    why.code.as_str(),
                    why.text,
                    sql(moved.bytes),
                    sql(moved.files)
                ])?;
        }
        self.shift(cause, to, Some(why))?;
        self.job.epoch += 1;
        self.job.runner = None;
        self.job.next_attempt = None;
        Ok(())
    }

    /// Refuses a command that was made for an earlier epoch of the job.
    fn check_epoch(&self, seen: u64) -> Result<(), CommandError> {
        if self.job.epoch == seen {
            return Ok(());
        }
        Err(CommandError::Stale {
            id: self.job.id.clone(),
            given: seen,
            now: self.job.epoch,
        })
    }
}

/// Notes the amounts that an attempt moved, ended or not. Does not change the state of the job.
pub(super) fn moved(db: &Connection, job: &str, attempt: u32, moved: Moved) -> Result<(), Stop> {
    let changed = db
        .prepare_cached(
            "UPDATE attempts SET bytes = max(bytes, ?3), files = max(files, ?4) WHERE job = ?1 AND number = ?2",
        )?
        .execute(params![job, attempt, sql(moved.bytes), sql(moved.files)])?;
    if changed == 0 {
        return Err(CommandError::not_found("attempt", &attempt.to_string()).into());
    }
    if moved.bytes_again > 0 {
        db.prepare_cached(
            "INSERT INTO sent_again (job, number, bytes) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (job, number) DO UPDATE SET bytes = max(bytes, ?3)",
        )?
        .execute(params![job, attempt, sql(moved.bytes_again)])?;
    }
    Ok(())
}

/// Returns the jobs of earlier runs of the node to the queue. From: scanning, running, verifying. To: queued.
pub(super) fn restart(context: &Context<'_>, runner: &Runner) -> Result<Effect, Stop> {
    bounds::name("node", &runner.node)?;
    bounds::name("instance", &runner.instance)?;
    let text = format!(
        "Node {} was restarted; the job resumes by itself.",
        runner.node
    );
    let why = Reason::new(reason::NODE_RESTARTED, clip(text));
    requeue(context, &runner.node, Some(&runner.instance), &why)
}

/// Returns all jobs of a node to the queue. From: scanning, running, verifying. To: queued.
pub(super) fn lost(context: &Context<'_>, node: &str, draining: bool) -> Result<Effect, Stop> {
    let what = if draining {
        "takes no more jobs"
    } else {
        "was lost"
    };
    let text = format!("Node {node} {what}; the job resumes at another node.");
    let why = Reason::new(reason::NODE_LOST, clip(text));
    requeue(context, node, None, &why)
}

/// Returns the jobs that a node runs to the queue, except those of one run of the node.
fn requeue(
    context: &Context<'_>,
    node: &str,
    but: Option<&str>,
    why: &Reason,
) -> Result<Effect, Stop> {
    work::return_all(context, node, but)?;
    let ids: Vec<String> = context
        .db
        .prepare_cached(
            "SELECT id FROM jobs WHERE runner_node = ?1 AND runner_instance IS NOT ?2 ORDER BY id",
        )?
        .query_map(params![node, but], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut parents = families::Parents::default();
    let mut jobs = 0;
    for id in ids {
        let Some(mut row) = JobRow::find(context, &id)? else {
            continue;
        };
        let (cause, to) = (Cause::Restart, JobState::Queued);
        row.leave(cause, to, why.clone(), Moved::default())?;
        row.save()?;
        Notices(context).job(&row.job, true)?;
        parents.add(context, &row.job)?;
        jobs += 1;
    }
    parents.follow(context)?;
    Ok(Effect::Restarted { jobs })
}

/// Replaces the failed entries of a job.
pub(super) fn failures(db: &Connection, id: &str, groups: &[FailureGroup]) -> Result<(), Stop> {
    bounds::count("failures", groups.len(), bounds::FAILURE_GROUPS_MAX)?;
    db.prepare_cached("DELETE FROM failures WHERE job = ?1")?
        .execute([id])?;
    let mut insert =
        db.prepare_cached("INSERT INTO failures (job, number, body) VALUES (?1, ?2, ?3)")?;
    for (number, group) in (0_i64..).zip(groups) {
        check_reason(&group.reason)?;
        let examples = &group.examples;
        bounds::count("examples", examples.len(), bounds::FAILURE_EXAMPLES_MAX)?;
        for example in examples {
            bounds::text("examples", example)?;
        }
        insert.execute(params![id, number, serde_json::to_string(group)?])?;
    }
    Ok(())
}
