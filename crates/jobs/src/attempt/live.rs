//! Owns the attempts that run here now: their progress, and how to stop them.
//! Starts none, and keeps nothing after their end.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_api::rest::{JobProgress, ProgressView, Timestamp};
use godwit_run::Control;
use godwit_state::Job;

use crate::attempt::promises::Promises;
use crate::attempt::{ClaimFence, Shortage};
use crate::basis::relay::Pair;
use crate::rights::access::RightsAtStart;

/// Between two looks whether an attempt has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Jobs whose places are remembered as new.
const NEW_MAX: usize = 4_096;

/// The limit of an attempt, in bytes per second; 0 is none.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) now: u64,
    /// Each change that is to come, with its time.
    pub(crate) ahead: Arc<[(Timestamp, u64)]>,
}

/// An attempt that runs.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) owner: String,
    /// Names of the sites other than this one.
    pub(crate) sites: Vec<String>,
    /// Epoch of its claim.
    pub(crate) epoch: u64,
    /// Rights of its owner to see the destination.
    pub(crate) at_start: RightsAtStart,
    pub(crate) control: Control,
    pub(crate) fence: Arc<ClaimFence>,
    /// The limit that it was given, in bytes per second; 0 is none.
    pub(crate) limit: u64,
    /// How the limit will change.
    pub(crate) ahead: Arc<[(Timestamp, u64)]>,
    pub(crate) progress: Arc<Mutex<Option<ProgressView>>>,
}

/// The attempts that run here, by the id of their job.
#[derive(Default)]
pub(crate) struct Live {
    attempts: Mutex<HashMap<String, Attempt>>,
    /// Jobs that wait for space here: as many as have waited since the start of the node.
    short: Mutex<HashMap<String, Shortage>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Room that relays have at their takers.
    pub(crate) promises: Promises,
    /// Jobs whose places did not exist before an attempt here.
    new: Mutex<HashSet<String>>,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, id: &str, attempt: Attempt) {
        self.lock().insert(id.to_owned(), attempt);
    }

    pub(crate) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// A relay has ended here, and has brought these bytes. Between rounds its taker keeps the room for the rest.
    pub(crate) fn relay_ended(&self, relay: &Job, brought: u64) {
        if let Some(pair) = Pair::of(relay) {
            let is_last = pair.round.is_none();
            self.promises.ended(&pair.taker, brought, is_last);
        }
    }

    /// The place of a job does not exist yet, so all entries there will be the job's.
    pub(crate) fn found_new(&self, id: &str) {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.len() >= NEW_MAX {
            new.clear();
        }
        new.insert(id.to_owned());
    }

    /// Whether the place of a job is known to hold only what the job brought.
    pub(crate) fn was_new(&self, id: &str) -> bool {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.contains(id)
    }

    /// The job waits until there is space at its destination here.
    pub(crate) fn is_short(&self, id: &str, shortage: Shortage) {
        self.lock_short().insert(id.to_owned(), shortage);
    }

    /// The job no longer waits for space.
    pub(crate) fn fits(&self, id: &str) {
        self.lock_short().remove(id);
    }

    /// Jobs that wait for space here.
    pub(crate) fn short(&self) -> Vec<(String, Shortage)> {
        let short = self.lock_short();
        let short = short.iter();
        short
            .map(|(id, shortage)| (id.clone(), shortage.clone()))
            .collect()
    }

    fn lock_short(&self) -> MutexGuard<'_, HashMap<String, Shortage>> {
        self.short.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the thread of an attempt, and forgets threads that have ended.
    pub(crate) fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Waits until no attempt of the job runs here, or until the time has passed.
    pub(crate) fn wait_for_end(&self, id: &str, within: Duration) {
        let until = Instant::now() + within;
        while self.contains(id) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(String, Attempt)> {
        self.lock()
            .iter()
            .map(|(id, attempt)| (id.clone(), attempt.clone()))
            .collect()
    }

    /// Another node may take the job of an attempt over: the attempt ends, and writes nothing more.
    pub(crate) fn leave(&self, id: &str) {
        if let Some(attempt) = self.lock().get(id) {
            attempt.fence.ends();
            attempt.control.cancel();
        }
    }

    /// Gives an attempt another limit.
    pub(crate) fn set_limit(&self, id: &str, limit: u64) {
        if let Some(attempt) = self.lock().get_mut(id)
            && attempt.limit != limit
        {
            attempt.limit = limit;
            attempt.control.set_limit(limit);
        }
    }

    /// Notes how the limit of an attempt will change.
    pub(crate) fn set_ahead(&self, id: &str, ahead: Vec<(Timestamp, u64)>) {
        if let Some(attempt) = self.lock().get_mut(id) {
            attempt.ahead = ahead.into();
        }
    }

    /// The limit that the job's attempt was given last, and how it will change.
    pub(crate) fn limits(&self, id: &str) -> Limits {
        let attempts = self.lock();
        attempts
            .get(id)
            .map_or_else(Limits::default, |attempt| Limits {
                now: attempt.limit,
                ahead: Arc::clone(&attempt.ahead),
            })
    }

    /// The limit that the job's attempt was given last.
    pub(crate) fn limit(&self, id: &str) -> Option<u64> {
        self.lock().get(id).map(|attempt| attempt.limit)
    }

    /// How far the job's attempt is.
    pub(crate) fn progress(&self, id: &str) -> Option<ProgressView> {
        let progress = Arc::clone(&self.lock().get(id)?.progress);
        progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The progress of the attempts that are not about to end, the oldest job first.
    pub(crate) fn running(&self) -> Vec<JobProgress> {
        let mut running: Vec<JobProgress> = self
            .lock()
            .iter()
            .filter(|(_, attempt)| !attempt.control.is_cancelled())
            .filter_map(|(id, attempt)| {
                let progress = attempt.progress.lock();
                let progress = progress.unwrap_or_else(PoisonError::into_inner).clone()?;
                Some(JobProgress {
                    id: id.clone(),
                    progress,
                })
            })
            .collect();
        running.sort_by(|a, b| a.id.cmp(&b.id));
        running
    }

    /// Has all attempts end so that they can be resumed.
    pub(crate) fn stop_all(&self) {
        for attempt in self.lock().values() {
            attempt.control.cancel();
        }
    }

    /// Waits until no attempt runs. No attempt begins in the meantime, because the scheduler has ended.
    pub(crate) fn wait_until_empty(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}
