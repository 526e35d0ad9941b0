//! Owns what others may know of the workers of this node, and the stop of one of them.
//! Starts no worker: `Workers::follow_up` does.

use super::Workers;

impl Workers {
    /// The jobs with a worker, and the epochs of these.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let workers = self.lock();
        let all = workers.iter();
        all.map(|(id, (worker, ..))| (id.clone(), worker.epoch()))
            .collect()
    }

    /// Whether a worker of the job runs here. It may write the manifest of the job.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Makes the worker of a job end soon.
    pub(crate) fn stop(&self, id: &str) {
        if let Some((worker, ..)) = self.lock().get(id) {
            worker.stop();
        }
    }
}
