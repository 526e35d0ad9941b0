//! Owns the set of jobs that wait at other sites for a temporary reason, and those of them that are to be tried now.
//! Asks no site: the attempt that follows the job does.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_api::ask::JobSeen;
use godwit_api::failure::FailureCode;
use godwit_state::{Job, JobState, Reason};

use crate::basis::words::passes;

/// Part of a reason: the job runs at another site, and waits there. The state knows it by these words.
pub(crate) const WAITS: &str = "; the job waits: ";

/// Whether another site runs the job, and the job waits there.
pub(crate) fn waits(job: &Job) -> bool {
    let is_so = |reason: &Reason| {
        reason.code.known() == Some(FailureCode::ThirdParty) && reason.text.contains(WAITS)
    };
    job.state.moves() && job.reason.as_ref().is_some_and(is_so)
}

/// Whether the job waits for its next attempt after a passing failure, at the site that runs it. That site has a different clock.
pub(crate) fn waits_for_attempt(seen: &JobSeen) -> bool {
    let view = &seen.view;
    view.state == JobState::Queued
        && view.next_attempt.is_some()
        && view.reason.as_ref().is_some_and(|why| passes(&why.code))
}

/// The waiting jobs that this node follows; `true` means that the job is due now.
#[derive(Default)]
pub(crate) struct Abroad(Mutex<HashMap<String, bool>>);

impl Abroad {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the job waits.
    pub(crate) fn note(&self, id: &str, waits: bool) {
        let mut jobs = self.lock();
        match waits {
            true => {
                jobs.entry(id.to_owned()).or_default();
            }
            false => {
                jobs.remove(id);
            }
        }
    }

    /// The site that the job waited for may be back.
    pub(crate) fn wake(&self, id: &str) {
        if let Some(is_woken) = self.lock().get_mut(id) {
            *is_woken = true;
        }
    }

    /// Whether the job is to be tried now. Each wake-up counts once.
    pub(crate) fn take(&self, id: &str) -> bool {
        let mut jobs = self.lock();
        jobs.get_mut(id).is_some_and(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_tried_once_for_each_return_and_only_while_it_waits() {
        let abroad = Abroad::default();
        abroad.wake("a");
        assert!(!abroad.take("a"), "it does not wait");
        abroad.note("a", true);
        assert!(!abroad.take("a"));
        abroad.wake("a");
        abroad.note("a", true);
        assert!(abroad.take("a") && !abroad.take("a"));
        abroad.wake("a");
        abroad.note("a", false);
        assert!(!abroad.take("a"), "it runs again");
    }
}
