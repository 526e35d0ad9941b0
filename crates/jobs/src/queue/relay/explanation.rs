//! Owns what a waiting destination says: where its data comes from, and once in the log why not from another destination.
//! Decides neither.

use godwit_api::failure::FailureCode;
use godwit_state::{Job, JobOp, Reader, Reason};

use super::describe::explanation_of;
use crate::basis::error::JobsError;
use crate::basis::words::clip;
use crate::queue::Queue;

/// The words of one waiting destination.
pub(super) struct Explanation<'a> {
    queue: &'a Queue,
    job: &'a Job,
}

impl<'a> Explanation<'a> {
    pub(super) const fn of(queue: &'a Queue, job: &'a Job) -> Self {
        Self { queue, job }
    }

    /// Logs once why a destination cannot give its data to this one.
    pub(super) fn complain(&self, giver: &Job, error: &JobsError) {
        if self.queue.complaints.is_new(self.job, giver) {
            self.queue.this.log(&format!(
                "job {}: its data does not come from job {}: {error}",
                self.job.id, giver.id
            ));
        }
    }

    /// Names the relay or round that was submitted for the destination.
    pub(super) fn name_relay(
        &self,
        reader: &Reader,
        (giver, relay): (&Job, &str),
        is_round: bool,
    ) -> Result<(), JobsError> {
        if let Some(relay) = reader.job(relay)? {
            self.set(&explanation_of(giver, &relay, is_round));
        }
        Ok(())
    }

    /// Says where the data comes from.
    pub(super) fn set(&self, text: &str) {
        let reason = Reason::new(FailureCode::Relaying, clip(text));
        if self.job.reason.as_ref() != Some(&reason) {
            let explain = JobOp::Explain {
                seen: self.job.epoch,
                reason,
            };
            // A refusal means that the job was changed meanwhile.
            drop(self.queue.this.propose_for(&self.job.id, explain));
        }
    }
}
