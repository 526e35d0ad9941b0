//! Submits the runs of flows, in the name of their owners. The leader does so for the whole cluster.
//! Runs no job, and decides by `due` alone.

mod check;
mod due;
mod hops;
mod refused;

use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_api::rest::{NewJob, Place};
use godwit_state::{
    Flow, FlowRun, Hop, NewJob as Submitted, Op, ProposeError, Reader, Timestamp, check_job,
};

use crate::basis::error::JobsError;
use crate::basis::spec;
use crate::basis::stored::Stored;
use crate::basis::whole;
use crate::queue::Queue;
use crate::queue::reasons;
use crate::queue::submit::{self, Admission};
use crate::rights::access;
pub(crate) use check::check;
pub(crate) use due::{Facts, Latest, Next, next};
pub(crate) use hops::{HopNow, read};
pub(crate) use refused::FlowRests;

/// Flows are looked at no more often: progress has no events, and other events are many.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Submits the runs that are due at `at`; returns the time of the next look. A hop that cannot start delays no other.
pub(crate) fn run(
    queue: &Queue,
    reader: &Reader,
    at: Timestamp,
) -> Result<Option<Timestamp>, JobsError> {
    let flows = reader.objects::<Flow>()?;
    queue.paces.flows.retain(&flows);
    if flows.iter().all(|flow| flow.paused) {
        return Ok(None);
    }
    if let Some(rest) = queue.paces.flows.look(Instant::now(), LOOK_EVERY) {
        return Ok(Some(later(at, rest)));
    }
    let reports = &queue.attempts.reports;
    let now = reasons::Now::read(&queue.this, &reports.live, &reports.asking.elsewhere)?;
    let mut next = None;
    for flow in flows.iter().filter(|flow| !flow.paused) {
        let hops = read(&now, reader, flow, at)?;
        // No event says that a run has moved a file.
        let is_open = |hop: &HopNow| hop.next == Next::AfterLatest;
        let is_fed = hops.iter().rev().skip(1).any(is_open);
        let fed = is_fed.then(|| later(at, LOOK_EVERY));
        next = [next, fed].into_iter().flatten().min();
        for ((number, hop), stored) in (0..).zip(&hops).zip(&flow.hops) {
            if queue.this.is_stopping() {
                return Ok(next);
            }
            let wait = match hop.next {
                Next::Now => start(queue, flow, (number, stored), hop, at)?,
                Next::At(due) => Some(due),
                Next::AfterLatest | Next::AfterOther => None,
            };
            next = [next, wait].into_iter().flatten().min();
        }
    }
    Ok(next)
}

/// Submits the next run of a hop. Returns when to look again if the run may not start now.
fn start(
    queue: &Queue,
    flow: &Flow,
    (number, stored): (u32, &Hop),
    hop: &HopNow,
    at: Timestamp,
) -> Result<Option<Timestamp>, JobsError> {
    let now = Instant::now();
    if let Some(rest) = queue.paces.flows.rest_of(&flow.id, number, now) {
        return Ok(Some(later(at, rest)));
    }
    // Runs are limited like the ticks of schedules.
    if !queue.paces.ticks.take(&flow.owner, now) {
        return Ok(Some(later(at, LOOK_EVERY)));
    }
    let job = job_of(&queue.admission, flow, (number, stored), at)
        .and_then(|job| submit::check_room(&queue.admission, &flow.owner).map(|()| job));
    let job = match job {
        Ok(job) => job,
        Err(error) => {
            let (why, name) = (error.words(), &flow.id);
            if queue.paces.flows.refuse(name, number, &why, now) {
                let hop = number.saturating_add(1);
                queue
                    .this
                    .log(&format!("flow {name}: hop {hop} does not start: {error}"));
            }
            return Ok(Some(later(at, FlowRests::REST)));
        }
    };
    let run = FlowRun {
        flow: flow.id.clone(),
        hop: number,
        job,
        seen: hop.arrived.unwrap_or_default(),
    };
    match queue.this.propose_at(at, Op::FlowRun(Box::new(run))) {
        Ok(_) => Ok(None),
        // The flow was changed meanwhile, or an id was taken; the next pass sees it.
        Err(ProposeError::Refused(_)) => Ok(Some(later(at, LOOK_EVERY))),
        Err(error) => Err(error.into()),
    }
}

/// Why the next run of a hop could not start now; None if it could. Whether its owner may have one more waiting job is a question about the
/// owner alone.
pub(crate) fn refusal(
    admission: &Admission,
    flow: &Flow,
    (number, stored): (u32, &Hop),
    at: Timestamp,
) -> Option<JobsError> {
    job_of(admission, flow, (number, stored), at).err()
}

/// The job of the next run of a hop, if the owner may submit it at this moment.
fn job_of(
    admission: &Admission,
    flow: &Flow,
    (number, stored): (u32, &Hop),
    at: Timestamp,
) -> Result<Submitted, JobsError> {
    let mut new = spec::parse(&stored.template)?;
    if new.label.is_empty() {
        new.label = format!("flow {}, hop {}", flow.id, number.saturating_add(1));
    }
    let rules = &mut new.selection.get_or_insert_default().rules;
    rules.insert(0, whole::without_unfinished());
    let owner = flow.owner.as_str();
    let checked = submit::check(&admission.this, &new)?;
    let text = Stored::text_of(&admission.this.reader(), &new, flow.role, &checked)?;
    let (there, who) = (access::There::of(&new), (owner, flow.role));
    access::check_owner(&admission.rights, who, there, &checked.0, &checked.1)?;
    built(at, owner, &new, text, &checked)
}

/// The job of a run, if the state takes such a job: its refusal of each run would be seen nowhere.
fn built(
    at: Timestamp,
    owner: &str,
    new: &NewJob,
    text: String,
    checked: &(Vec<Place>, Place),
) -> Result<Submitted, JobsError> {
    let job = submit::build(at, owner, new, text, checked, None);
    match check_job(&job, at) {
        Ok(()) => Ok(job),
        Err(error) => Err(JobsError::invalid(FailureCode::Invalid, error.to_string())),
    }
}

fn later(at: Timestamp, span: Duration) -> Timestamp {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    at.after(millis.saturating_add(1))
}
