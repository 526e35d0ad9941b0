//! Runs a job from its description to its end: both ends of a transfer, reports, and events. Does not print or prompt, and does not
//! change process-wide state.
//!
//! Commands, agents and the jobs of a node all run transfers by [`Runner`]. The description (`JobSpec`) defines the work, [`Env`]
//! contains what the process provides, and [`Control`] changes the job from any thread. Signals, terminal, working directory and
//! processor affinity belong to the process, so they are handled outside.

pub mod build;
mod check;
mod control;
mod env;
mod home;
pub mod itself;
pub mod local;
pub mod observation;
pub mod pulse;
mod received;
pub mod removal;
pub mod reports;
mod route;
pub mod seal;
mod selection;
mod transfer;
pub mod verify;
pub mod walk;

use std::sync::Arc;

use godwit_api::event::{Event, EventSink, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{JobKind, JobSpec};

pub use check::check;
pub use control::{Control, Figures, Unconfirmed};
pub use env::{
    AgentOrder, AgentProcess, Attempts, Connectors, Env, EventDetail, NameList, Process, SOFTWARE,
    SshClient, SshTarget, StartedAgent, UNREACHABLE,
};
pub use godwit_engine::Fence;
pub use godwit_tree::Earlier;
pub use godwit_tree::shared::{DESTINATIONS_MAX, PageFigures, ReadFigures, Seat, SharedReads};
pub use home::Home;
pub use received::{Received, Receiving};
pub use selection::read_selection;
pub use transfer::{
    STAGE_FIGURES, bounds_of, ciphers, client_tls, known_identity, refusal_of, refused,
};

/// Runs jobs; one process may run any number at the same time.
pub struct Runner;

impl Runner {
    /// Runs one job to its end on the calling thread. `events` receives every event; the summary is the last one. A contradictory
    /// job has no summary.
    ///
    /// # Errors
    /// The job was not completed, or was stopped. A job with single failed entries counts as completed.
    pub fn run(
        spec: &JobSpec,
        env: &Env,
        events: &Arc<dyn EventSink>,
        control: &Control,
    ) -> Result<Summary, Failure> {
        let done = match spec.kind {
            JobKind::Copy | JobKind::Sync => transfer::run(spec, env, events, control),
            JobKind::Verify => verify::run(spec, env, events, control),
        };
        control.finish();
        done
    }

    /// Checks a copy within a job that continues afterwards: the control stays open. `spec` is a verification.
    ///
    /// # Errors
    /// The check was not possible, or was stopped. A copy that differs counts as checked.
    pub fn check(
        spec: &JobSpec,
        env: &Env,
        events: &Arc<dyn EventSink>,
        control: &Control,
    ) -> Result<Summary, Failure> {
        verify::run(spec, env, events, control)
    }
}

/// Reports that a job cannot begin, with a summary if the reader expects one.
pub fn emit_refusal(env: &Env, events: &dyn EventSink, failure: &Failure) {
    events.error(failure);
    // Another program always waits for a summary.
    if failure.code != FailureCode::Usage || env.tells.is_some() {
        let summary = transfer::failed_summary(env, failure);
        events.emit(Event::Summary(Summary::Transfer(Box::new(summary))));
    }
}
