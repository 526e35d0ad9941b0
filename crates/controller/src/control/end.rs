//! Owns the words for the end of a controller.
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
        /// Nodes of the destination that have not confirmed that no call of theirs is on its way any more.
        unconfirmed: Vec<String>,
    },
    /// The attempt failed.
    Failed(Failure),
}
