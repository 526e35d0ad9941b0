//! Groups the choice of jobs: which are accepted, which begin now, why others wait, and how long ended jobs are kept.
//! Runs no attempt itself (`attempt`).

pub(crate) mod away;
pub(crate) mod drained;
mod family;
pub(crate) mod flow;
mod gather;
pub(crate) mod kin;
mod merging;
pub(crate) mod nodes;
pub(crate) mod order;
pub(crate) mod probe;
pub(crate) mod prune;
pub(crate) mod reasons;
pub(crate) mod records;
pub(crate) mod relay;
pub(crate) mod rooms;
pub(crate) mod rules;
pub(crate) mod schedule;
pub(crate) mod scheduler;
pub(crate) mod submit;
mod together;

use std::sync::Arc;
use std::time::Duration;

use godwit_run::local::ExportedFiles;
use godwit_state::Runner;

use crate::attempt::start::Attempts;
use crate::basis::this_node::ThisNode;
use crate::rights::Rights;

/// How often this node has acted for schedules and flows, as their leader.
#[derive(Default)]
pub(crate) struct Paces {
    /// How often schedules have ticked, and flows have run.
    pub(crate) ticks: schedule::TickPace,
    /// When flows were looked at, and which of their hops may not start.
    pub(crate) flows: flow::FlowRests,
}

/// The parts for the scheduler.
pub(crate) struct Queue {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) attempts: Arc<Attempts>,
    /// The exports of this node.
    pub(crate) exported: Arc<dyn ExportedFiles>,
    /// This start of this node, as the state names it.
    pub(crate) runner: Runner,
    pub(crate) jobs_max: usize,
    /// How long ended jobs, and lines of the audit log, are kept.
    pub(crate) keep_history: Duration,
    pub(crate) admission: Arc<submit::Admission>,
    /// Jobs whose sites are back.
    pub(crate) woken: Arc<probe::Woken>,
    pub(crate) paces: Paces,
    /// When each schedule ticks.
    pub(crate) kept_ticks: Arc<schedule::KeptTicks>,
    /// Looks for room at exports.
    pub(crate) rooms: rooms::Rooms,
    /// Relays that could not be submitted and are already in the log.
    pub(crate) complaints: relay::Complaints,
    /// The files that destinations had when others began to take files there.
    pub(crate) rounds: relay::Rounds,
}
