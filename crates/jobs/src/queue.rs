//! Groups the choice of jobs: which may come, which begin now, why the others wait, and how long ended ones are kept.
//! Runs no attempt itself (`attempt`).

pub(crate) mod away;
pub(crate) mod nodes;
pub(crate) mod order;
pub(crate) mod probe;
pub(crate) mod prune;
pub(crate) mod reasons;
pub(crate) mod records;
pub(crate) mod rooms;
pub(crate) mod rules;
pub(crate) mod schedule;
pub(crate) mod scheduler;
pub(crate) mod submit;
