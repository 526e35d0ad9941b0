//! Owns the list of jobs that another site runs and that this node may not see. This node leaves them to other nodes of its cluster for a while.
//! Asks no site.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long this node leaves a job to the other nodes. One of them resumes the job and gives this node access.
const LEFT_FOR: Duration = Duration::from_secs(30);

/// The ids of the jobs.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<HashMap<String, Instant>>);

impl Unseen {
    pub(super) fn add(&self, id: &str) {
        self.lock().insert(id.to_owned(), Instant::now());
    }

    /// Whether this node leaves the job to others now.
    pub(crate) fn contains(&self, id: &str) -> bool {
        let mut all = self.lock();
        all.retain(|_, since| since.elapsed() < LEFT_FOR);
        all.contains_key(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the job waits.
pub(super) fn why(said: &str) -> String {
    format!(
        "the job may run at the other site for another node of this cluster, and this node has no access there ({said}); a node with access continues the job"
    )
}
