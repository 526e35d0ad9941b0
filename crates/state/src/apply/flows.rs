//! Owns the flows: the runs of their hops, the amounts that these have moved, and their end with the user.
//! Does not decide when a run starts: the leader does.

use serde_json::Value;

use super::notices::Notices;
use super::objects::{self, Objects};
use super::{Context, Stop, history, jobs};
use crate::bounds::RUNS_KEPT;
use crate::model::{
    Amount, Change, CommandError, Effect, Flow, FlowRun, Hop, Job, JobState, Object as _, Role,
    Topic,
};
use crate::read::{job_by_id, moved_of, object_by_id};

/// The rows of flows, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Flows<'a>(pub(super) &'a Context<'a>);

impl Flows<'_> {
    /// A changed flow keeps the runs of its hops, so no hop runs twice at once.
    pub(super) fn change(&self, change: &Change<Flow>) -> Result<Effect, Stop> {
        self.check_owner(change)?;
        let with_runs = |flow: &Flow| -> Result<Flow, Stop> {
            let earlier = object_by_id::<Flow>(self.0.db, &flow.id)?;
            let created = earlier.as_ref().and_then(|earlier| earlier.created);
            let mut earlier = earlier
                .map_or_else(Vec::new, |earlier| earlier.hops)
                .into_iter();
            let hops = flow.hops.iter().map(|hop| Hop {
                template: hop.template.clone(),
                ..earlier.next().unwrap_or_default()
            });
            Ok(Flow {
                hops: hops.collect(),
                created: Some(created.unwrap_or(self.0.at)),
                ..flow.clone()
            })
        };
        let change = match change {
            Change::Create(flow) => Change::Create(with_runs(flow)?),
            Change::Put(flow) => Change::Put(with_runs(flow)?),
            Change::Remove(id) => Change::Remove(id.clone()),
        };
        Objects(self.0).change(&change)
    }

    /// Refuses the change of another user's flow, unless an admin makes it and keeps the owner. Two users may make flows of one id at the
    /// same time, and the request of each may have seen none.
    fn check_owner(&self, change: &Change<Flow>) -> Result<(), Stop> {
        let (id, owner) = match change {
            Change::Create(new) | Change::Put(new) => (&new.id, Some(&new.owner)),
            Change::Remove(id) => (id, None),
        };
        let Some(row) = object_by_id::<Flow>(self.0.db, id)? else {
            return Ok(());
        };
        let actor = self.0.actor;
        let is_admin = actor.role.is_none_or(|role| role == Role::Admin);
        let may_change = is_admin || actor.name == row.owner;
        if may_change && owner.is_none_or(|owner| *owner == row.owner) {
            return Ok(());
        }
        let what = format!("flow {id:?} belongs to {}", row.owner);
        Err(CommandError::denied(what).into())
    }

    /// Submits the job of a hop whose latest run has ended, and remembers the run.
    pub(super) fn run(&self, run: &FlowRun) -> Result<Effect, Stop> {
        let mut flow = object_by_id::<Flow>(self.0.db, &run.flow)?
            .ok_or_else(|| CommandError::not_found(Flow::KIND, &run.flow))?;
        // A user may have paused the flow since the leader read it.
        if flow.paused {
            return Err(CommandError::invalid("flow", "the flow is paused").into());
        }
        if run.job.owner != flow.owner {
            let what = "a run belongs to the owner of its flow";
            return Err(CommandError::invalid("owner", what).into());
        }
        let number = usize::try_from(run.hop).unwrap_or(usize::MAX);
        let hop = (flow.hops.get_mut(number))
            .ok_or_else(|| CommandError::not_found("hop", &run.hop.to_string()))?;
        let left = self.settle(hop)?;
        hop.runs.push(run.job.id.clone());
        hop.started = Some(self.0.at);
        hop.waited = left.plus(run.seen.minus(hop.seen));
        hop.seen = run.seen;
        Objects(self.0).put(&flow)?;
        jobs::submit(self.0, &run.job, None)
    }

    /// Adds the amount of the latest run of a hop. Deletes this run if it moved nothing, and the oldest runs if too many are kept.
    /// Returns the amount that the run is known to have left behind.
    fn settle(&self, hop: &mut Hop) -> Result<Amount, Stop> {
        let latest = match hop.runs.last() {
            Some(id) => job_by_id(self.0.db, id)?,
            None => None,
        };
        let (mut gone, mut left) = (Vec::new(), Amount::default());
        if let Some(job) = latest {
            if !job.state.ended() {
                return Err(CommandError::Forbidden {
                    id: job.id,
                    state: job.state,
                    action: "another run".to_owned(),
                }
                .into());
            }
            let moved = moved_of(self.0.db, &job.id)?;
            let moved = Amount {
                files: moved.files,
                bytes: moved.bytes,
            };
            hop.moved = hop.moved.plus(moved);
            if job.state == JobState::Complete {
                hop.clear = hop.started;
            } else {
                left = hop.waited.minus(moved);
            }
            if is_idle(&job, moved) {
                gone.extend(hop.runs.pop());
            }
        }
        while hop.runs.len() >= RUNS_KEPT {
            gone.push(hop.runs.remove(0));
        }
        self.delete(&gone)?;
        Ok(left)
    }

    /// Deletes those of these jobs that have ended. A user may have started an earlier run again.
    fn delete(&self, ids: &[String]) -> Result<(), Stop> {
        let mut ended = Vec::new();
        for id in ids {
            if job_by_id(self.0.db, id)?.is_some_and(|job| job.state.ended()) {
                ended.push(id.clone());
            }
        }
        if ended.is_empty() {
            return Ok(());
        }
        let jobs = history::delete_jobs(self.0.db, &ended)?;
        let body = serde_json::json!({ "jobs": jobs }).to_string();
        Notices(self.0).event(Topic::History, "jobs", &body)
    }

    /// Pauses the flows of a removed user.
    pub(super) fn pause_of(&self, owner: &str) -> Result<(), Stop> {
        for flow in objects::all::<Flow>(self.0.db)? {
            if flow.owner == owner && !flow.paused {
                let paused = true;
                Objects(self.0).put(&Flow { paused, ..flow })?;
            }
        }
        Ok(())
    }
}

/// Whether a run found nothing to do.
fn is_idle(job: &Job, moved: Amount) -> bool {
    let summary = job.summary.as_deref().unwrap_or("{}");
    let summary: Value = serde_json::from_str(summary).unwrap_or_default();
    let some = |name: &str| {
        let count = summary.get(name).and_then(Value::as_u64);
        count.is_some_and(|count| count > 0)
    };
    job.state == JobState::Complete && moved.is_none() && !some("deleted") && !some("failed")
}
