//! Owns the types for the end of a controller.
//! Decides no end.

use godwit_api::failure::Failure;
use godwit_state::Work;

/// How the control of a job ended.
pub enum End {
    /// The job cannot be divided; nothing was done.
    Undivided(String),
    /// The attempt was stopped.
    Stopped,
    /// All items are settled, and the claim is released.
    Done {
        /// The work.
        work: Box<Work>,
        /// Nodes of the destination that have not confirmed the end of their writes.
        unconfirmed: Vec<String>,
    },
    /// The attempt failed.
    Failed(Failure),
}
