//! Owns jobs with several destinations or gathered sources: their submission, and the state of a parent, which follows from its children.
//! Changes a child only by the commands that `jobs` applies to any job.
//!
//! A parent moves while any child does, waits or is paused while any child does, and ends with the last one. It is complete if all
//! children are. Texts of a parent name children by number and id, because a viewer may not know their places.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::jobs::{self, JobRow, clip};
use super::notices::Notices;
use super::{Context, Stop, claims};
use crate::bounds::{self, DESTINATIONS_MAX, FAILURE_EXAMPLES_MAX, SPEC_BYTES_MAX};
use crate::model::{
    Child, CommandError, Effect, FailureGroup, Job, JobChange, JobOp, JobState, LEVEL_DESTINATIONS,
    NewJob, Object as _, Reason, RelayKey, StoredPlace, reason,
};
use crate::read::{children_of, committed_level, gathers, is_parent, job_by_id, parent_of};

/// Figures of a summary that are summed over the children.
const SUMMED: [&str; 5] = ["bytes", "files", "skipped", "deleted", "failed"];

/// Adds a parent and its children. From: nothing. To: queued, scheduled.
pub(super) fn submit(
    context: &Context<'_>,
    parent: &NewJob,
    children: &[NewJob],
    schedule: Option<&str>,
) -> Result<Effect, Stop> {
    bounds::count("destinations", children.len(), DESTINATIONS_MAX)?;
    if children.len() < 2 {
        return Err(CommandError::invalid("destinations", "name at least two").into());
    }
    let specs = children.iter().chain([parent]).map(|job| job.spec.len());
    if specs.sum::<usize>() > SPEC_BYTES_MAX {
        let what = format!("the descriptions have more than {SPEC_BYTES_MAX} bytes together");
        return Err(CommandError::invalid("spec", what).into());
    }
    let is_of_parent =
        |child: &NewJob| child.owner == parent.owner && child.idempotency_key.is_none();
    if !children.iter().all(is_of_parent) {
        let what = "a child has the owner of its parent, and no key";
        return Err(CommandError::invalid("children", what).into());
    }
    if !children.is_sorted_by(|one, next| one.id < next.id) {
        return Err(CommandError::invalid(
            "children",
            "the children are not in the order of their ids",
        )
        .into());
    }
    // Deadlines end the children, and so the parent.
    let own = NewJob {
        deadline: None,
        ..parent.clone()
    };
    jobs::submit(context, &own, schedule)?;
    for child in children {
        jobs::submit(context, child, schedule)?;
        let child = Child {
            job: child.id.clone(),
            parent: parent.id.clone(),
        };
        context
            .db
            .prepare_cached(
                "INSERT INTO objects (kind, id, lookup, body, changed) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                Child::KIND,
                child.id(),
                child.lookup(),
                serde_json::to_string(&child)?,
                context.at.0
            ])?;
    }
    derive(context, &parent.id)
}

/// Whether a new job is a relay: it brings data from a complete child to another child of the same parent and owner, and has no place outside
/// the places of these two. The other child waits, and waits for no other relay.
/// A round brings data from a child that may still become complete.
pub(super) fn is_relay(db: &Connection, new: &NewJob) -> Result<bool, Stop> {
    let Some(key) = key_of(new.idempotency_key.as_deref()) else {
        return Ok(false);
    };
    if committed_level(db)? < LEVEL_DESTINATIONS || !may_begin(db, key)? {
        return Ok(false);
    }
    let (Some(taker), Some(giver)) = (job_by_id(db, key.taker)?, job_by_id(db, key.giver)?) else {
        return Ok(false);
    };
    let is_of_owner = taker.owner == new.owner && giver.owner == new.owner;
    let is_open = key.round.is_some() && !giver.state.ended();
    let mut sources = new.sources.iter();
    Ok(is_of_owner
        && (is_open || giver.state == JobState::Complete)
        && sources.all(|source| is_below(source, &giver.destination))
        && is_below(&new.destination, &taker.destination))
}

/// Whether a node may cancel a job, or start it again, without its owner: the job is a relay.
/// A relay begins again only for a child that waits for no other relay.
pub(super) fn is_steered(db: &Connection, job: &Job, op: &JobOp) -> Result<bool, Stop> {
    let Some(key) = key_of(job.idempotency_key.as_deref()) else {
        return Ok(false);
    };
    match op {
        JobOp::Cancel { .. } => Ok(true),
        JobOp::Retry => may_begin(db, key),
        _ => Ok(false),
    }
}

fn key_of(key: Option<&str>) -> Option<RelayKey<'_>> {
    key.and_then(RelayKey::of)
}

/// Whether a relay with this key may begin: the child that gets data waits, and no other relay writes to its place.
fn may_begin(db: &Connection, key: RelayKey<'_>) -> Result<bool, Stop> {
    let parent = parent_of(db, key.taker)?;
    if parent.is_none() || parent != parent_of(db, key.giver)? {
        return Ok(false);
    }
    let Some(job) = job_by_id(db, key.taker)?.filter(|job| job.state.waits()) else {
        return Ok(false);
    };
    let [first, end] = RelayKey::range(key.taker);
    let is_busy = db
        .prepare_cached(
            "SELECT 1 FROM jobs WHERE owner = ?1 AND idempotency_key >= ?2 AND idempotency_key < ?3 \
             AND idempotency_key <> ?4 AND ended IS NULL",
        )?
        .exists(params![job.owner, first, end, key.text()])?;
    Ok(!is_busy)
}

/// Whether the inner place is the outer one, or is inside it.
fn is_below(inner: &StoredPlace, outer: &StoredPlace) -> bool {
    fn parts(path: &str) -> Vec<&str> {
        let parts = path.split('/');
        parts
            .filter(|part| !part.is_empty() && *part != ".")
            .collect()
    }
    let (below, above) = (parts(&inner.path), parts(&outer.path));
    inner.site == outer.site && !below.contains(&"..") && below.starts_with(&above)
}

/// Applies the change of a parent to those of its children that allow it.
pub(super) fn change(context: &Context<'_>, parent: Job, op: &JobOp) -> Result<Effect, Stop> {
    let children = children_of(context.db, &parent.id)?;
    let mut changed = false;
    for child in &children {
        if let Some(op) = of_child(child, op) {
            let job = child.clone();
            jobs::change_one(JobRow { context, job }, &op)?;
            changed = true;
        }
    }
    let mut row = JobRow {
        context,
        job: parent,
    };
    if let JobOp::Change(change) = op {
        row.set(change)?;
        save(&row)?;
        Notices(context).job(&row.job, false)?;
    } else if !changed {
        return Err(CommandError::Forbidden {
            id: row.job.id,
            state: row.job.state,
            action: op.name().to_owned(),
        }
        .into());
    }
    derive(context, &row.job.id)
}

/// The change of a child that follows from a change of its parent, if any does.
fn of_child(child: &Job, op: &JobOp) -> Option<JobOp> {
    let ended = child.state.ended();
    let wanted = match op {
        JobOp::Pause => !ended && child.state != JobState::Paused,
        JobOp::Resume => child.state == JobState::Paused,
        JobOp::Cancel { .. } => !ended,
        JobOp::Retry if ended => child.state != JobState::Complete,
        JobOp::Retry => child.state == JobState::Queued && child.next_attempt.is_some(),
        JobOp::Change(change) if ended => {
            let change = JobChange {
                label: change.label.clone(),
                ..JobChange::default()
            };
            return (change != JobChange::default()).then_some(JobOp::Change(change));
        }
        JobOp::Change(_) => true,
        // Nodes run children alone.
        _ => false,
    };
    wanted.then(|| op.clone())
}

/// Whether a job has children.
pub(super) fn has_children(context: &Context<'_>, job: &Job) -> Result<bool, Stop> {
    Ok(is_parent(context.db, &job.id)?)
}

/// Derives the state of the parent of a job that has changed, if it has one.
pub(super) fn follow(context: &Context<'_>, job: &Job) -> Result<(), Stop> {
    let mut parents = Parents::default();
    parents.add(context, job)?;
    parents.follow(context)
}

/// The parents of the jobs that one command has changed. Deriving a parent reads all its children, so it is done once.
#[derive(Default)]
pub(super) struct Parents(BTreeSet<String>);

impl Parents {
    /// Adds the parent of a changed job, if it has one.
    pub(super) fn add(&mut self, context: &Context<'_>, job: &Job) -> Result<(), Stop> {
        self.0.extend(parent_of(context.db, &job.id)?);
        Ok(())
    }

    /// Derives the state of each parent, in the order of their ids.
    pub(super) fn follow(self, context: &Context<'_>) -> Result<(), Stop> {
        for parent in self.0 {
            derive(context, &parent)?;
        }
        Ok(())
    }
}

fn derive(context: &Context<'_>, id: &str) -> Result<Effect, Stop> {
    let mut parent =
        job_by_id(context.db, id)?.ok_or_else(|| CommandError::not_found("job", id))?;
    let children = children_of(context.db, id)?;
    let state = state_of(&children);
    let why = reason_of(state, &children);
    let started = children.iter().filter_map(|child| child.started).min();
    let moved = parent.state != state;
    if !moved && parent.reason == why && parent.started == started && parent.epoch > 0 {
        return Ok(jobs::effect(&parent));
    }
    if moved {
        parent.since = context.at;
    }
    parent.epoch += 1;
    parent.state = state;
    parent.reason = why;
    parent.started = started;
    parent.ended = state.ended().then_some(context.at);
    parent.summary = None;
    let mut failures = Vec::new();
    if state.ended() {
        parent.summary = Some(summary_of(state, &children).to_string());
        failures = failures_of(&children);
    }
    claims::failures(context.db, id, &failures)?;
    let row = JobRow {
        context,
        job: parent,
    };
    save(&row)?;
    Notices(context).job(&row.job, moved)?;
    Ok(jobs::effect(&row.job))
}

/// Writes a parent, which is never due.
fn save(row: &JobRow<'_>) -> Result<(), Stop> {
    row.save()?;
    row.context
        .db
        .prepare_cached("UPDATE jobs SET due = ?2 WHERE id = ?1")?
        .execute(params![row.job.id, i64::MAX])?;
    Ok(())
}

/// The word for one child in texts about the parent, and for several.
fn words(children: &[Job]) -> (&'static str, &'static str) {
    match gathers(children) {
        true => ("Source", "sources"),
        false => ("Destination", "destinations"),
    }
}

fn state_of(children: &[Job]) -> JobState {
    let any = |state: JobState| children.iter().any(|child| child.state == state);
    let open = [
        JobState::Running,
        JobState::Scanning,
        JobState::Verifying,
        JobState::Queued,
        JobState::Scheduled,
        JobState::Paused,
    ];
    if let Some(open) = open.into_iter().find(|state| any(*state)) {
        return open;
    }
    match (any(JobState::Complete), any(JobState::Partial)) {
        (true, _) if complete(children) == children.len() => JobState::Complete,
        (true, _) | (_, true) => JobState::Partial,
        _ if any(JobState::Failed) => JobState::Failed,
        _ => JobState::Cancelled,
    }
}

fn complete(children: &[Job]) -> usize {
    let complete = |child: &&Job| child.state == JobState::Complete;
    children.iter().filter(complete).count()
}

/// The reason of the first child that keeps the parent in its state.
fn reason_of(state: JobState, children: &[Job]) -> Option<Reason> {
    let number = children.len();
    let (one, several) = words(children);
    if state == JobState::Complete {
        let text = format!("All {number} {several} are complete.");
        return Some(Reason::new(reason::COMPLETE, text));
    }
    if state.moves() {
        return None;
    }
    let keeps = |child: &Job| match state.ended() {
        true => child.state != JobState::Complete,
        false => child.state == state,
    };
    let at = children.iter().position(keeps)?;
    let first = &children[at];
    let why = first.reason.as_ref()?;
    let text = format!(
        "{} of {number} {several} are complete. {one} {}, job {}: {}",
        complete(children),
        at + 1,
        first.id,
        why.text
    );
    Some(Reason::new(why.code.clone(), clip(text)))
}

/// Destinations or sources that are not complete, by reason.
fn failures_of(children: &[Job]) -> Vec<FailureGroup> {
    let mut groups: Vec<FailureGroup> = Vec::new();
    let is_gather = gathers(children);
    for child in children {
        let why = child.reason.as_ref();
        let Some(why) = why.filter(|_| child.state != JobState::Complete) else {
            continue;
        };
        let known = groups
            .iter()
            .position(|group| group.reason.code == why.code);
        let at = known.unwrap_or_else(|| {
            groups.push(FailureGroup {
                reason: why.clone(),
                count: 0,
                examples: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.count += 1;
        if group.examples.len() < FAILURE_EXAMPLES_MAX {
            let source = child.sources.first().filter(|_| is_gather);
            let place = source.unwrap_or(&child.destination);
            let place = format!("{}:{}", place.site, place.path);
            group.examples.push(clip(place));
        }
    }
    groups
}

/// The figures of all children together.
fn summary_of(state: JobState, children: &[Job]) -> Value {
    let mut sums = Map::new();
    for child in children {
        let summary = child.summary.as_deref().unwrap_or("{}");
        let summary: Value = serde_json::from_str(summary).unwrap_or_default();
        for name in SUMMED {
            if let Some(one) = summary.get(name).and_then(Value::as_u64) {
                let sum = sums.get(name).and_then(Value::as_u64).unwrap_or(0);
                sums.insert(name.to_owned(), sum.saturating_add(one).into());
            }
        }
    }
    sums.insert("status".to_owned(), state.name().into());
    sums.insert(words(children).1.to_owned(), children.len().into());
    sums.insert("complete".to_owned(), complete(children).into());
    Value::Object(sums)
}
