//! Owns the requests about flows: whether one makes sense, and what its hops are like now.
//! Stores none, and starts no run: `queue` does.

use std::cell::OnceCell;

use godwit_api::rest::{FlowHopState, FlowHopView, NewJob, Reason};
use godwit_state::{Flow, Hop, Job, JobState, Role, Timestamp, reason};

use super::Parts;
use crate::basis::error::JobsError;
use crate::queue::flow::{self, HopNow, Next};
use crate::queue::reasons::Now;
use crate::queue::{schedule, submit};

/// The reason why the owner of a flow may have no further waiting job; `None` if one more is allowed.
type Full<'a> = dyn Fn() -> Option<Reason> + 'a;

/// The questions of flows to this node.
#[derive(Clone, Copy)]
pub struct Flows<'a> {
    parts: &'a Parts,
}

impl<'a> Flows<'a> {
    pub(super) const fn of(parts: &'a Parts) -> Self {
        Self { parts }
    }

    /// Checks the jobs of a flow's hops, and returns them in the form that is kept. A user of this role must be allowed to submit each.
    ///
    /// # Errors
    /// Names the hop and its fault.
    pub fn check(
        &self,
        hops: &[NewJob],
        owner: &str,
        role: Role,
    ) -> Result<Vec<NewJob>, JobsError> {
        flow::check(&self.parts.admission, hops, (owner, role))
    }

    /// The hops of a flow as they are now, without their jobs.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn hops(&self, flow: &Flow) -> Result<Vec<FlowHopView>, JobsError> {
        let (now, at) = (self.parts.moment()?, self.parts.this.now());
        let hops = flow::read(&now, &self.parts.this.reader(), flow, at)?;
        let hops = (0..).zip(hops).zip(&flow.hops);
        // All jobs are counted for it, so it is found out once.
        let full = OnceCell::new();
        let full = || {
            let full = full.get_or_init(|| {
                let room = submit::check_room(&self.parts.admission, &flow.owner);
                room.err().map(|error| schedule::reason_of(&error))
            });
            full.clone()
        };
        hops.map(|((number, hop), stored)| {
            self.view(&now, (flow, &full), (number, stored), &hop, at)
        })
        .collect()
    }

    fn view(
        &self,
        now: &Now<'_>,
        flow: (&Flow, &Full<'_>),
        stored: (u32, &Hop),
        hop: &HopNow,
        at: Timestamp,
    ) -> Result<FlowHopView, JobsError> {
        let (state, reason) = match &hop.job {
            Some(job) if !job.state.ended() => {
                let state = match job.state {
                    JobState::Paused => FlowHopState::Paused,
                    state if state.waits() => FlowHopState::Waiting,
                    _ => FlowHopState::Running,
                };
                (state, now.view(job.clone())?.reason)
            }
            job => self.at_rest(flow, stored, job.as_ref(), at),
        };
        let starts = matches!(state, FlowHopState::Waiting | FlowHopState::Failed);
        let next = match hop.next {
            Next::Now if starts => Some(at),
            Next::At(due) if starts => Some(due),
            _ => None,
        };
        let rate = hop.progress.as_ref();
        Ok(FlowHopView {
            job: None,
            state,
            reason,
            run: hop.job.as_ref().map(|job| job.id.clone()),
            next,
            bytes_per_second: rate.and_then(|progress| progress.bytes_per_second),
            bytes: hop.moved.bytes,
            files: hop.moved.files,
            backlog_bytes: hop.backlog.bytes,
            backlog_files: hop.backlog.files,
            oldest: hop.oldest,
        })
    }

    /// State and reason of a hop of which no run is open.
    fn at_rest(
        &self,
        (flow, full): (&Flow, &Full<'_>),
        stored: (u32, &Hop),
        latest: Option<&Job>,
        at: Timestamp,
    ) -> (FlowHopState, Option<Reason>) {
        let refusal = flow::refusal(&self.parts.admission, flow, stored, at);
        let refusal = refusal.map(|error| schedule::reason_of(&error));
        let refusal = refusal.or_else(full);
        match latest {
            _ if refusal.is_some() => (FlowHopState::Refused, refusal),
            _ if flow.paused => {
                let text = "The flow is paused: no run starts.";
                (
                    FlowHopState::Paused,
                    Some(Reason::new(reason::PAUSED, text)),
                )
            }
            Some(job) if job.state != JobState::Complete => {
                (FlowHopState::Failed, job.reason.clone())
            }
            _ => (FlowHopState::Waiting, None),
        }
    }
}
