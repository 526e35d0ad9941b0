//! Lets the jobs of one parent that run here share the reads of their source.
//! Reads nothing itself, and starts no job: a job that comes late reads what is no longer kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use godwit_api::endpoint::is_memory;
use godwit_api::rest::HERE;
use godwit_run::{DESTINATIONS_MAX, Seat, SharedReads};
use godwit_state::{Families, Job, Reader, StoredPlace, Timestamp};

use crate::basis::error::JobsError;

/// Most bytes of contents that are kept for one parent.
const KEPT_BYTES: u64 = 64 << 20;

/// Whether a job is behind the other jobs of its parent now.
pub(crate) type IsBehind = Arc<dyn Fn() -> bool + Send + Sync>;

/// The shared reads of parents, by id.
#[derive(Clone, Default)]
pub(crate) struct SharedSources(Arc<Mutex<HashMap<String, Family>>>);

struct Family {
    reads: SharedReads,
    /// Jobs that have a seat here.
    seated: HashSet<String>,
}

/// The right of an attempt to share reads. The reads end with the last one.
pub(crate) struct Sharing {
    sources: SharedSources,
    parent: String,
    job: String,
    number: usize,
}

impl SharedSources {
    /// Lets an attempt of the node `own` share the reads of its parent; None for a job without a parent or of a
    /// gather, or with a source elsewhere.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn share(
        &self,
        reader: &Reader,
        job: &Job,
        (own, now): (&str, Timestamp),
    ) -> Result<Option<Sharing>, JobsError> {
        let is_file = |place: &StoredPlace| {
            place.site == HERE && !is_memory(place.path.trim_start_matches('/'))
        };
        if !job.sources.iter().all(is_file) {
            return Ok(None);
        }
        let Some(parent) = Families(reader).parent(&job.id)? else {
            return Ok(None);
        };
        let children = Families(reader).children(&parent)?;
        // The sources of a gather differ, so no read serves two of its children.
        if children.iter().any(|child| child.sources != job.sources) {
            return Ok(None);
        }
        let number = children.iter().position(|child| child.id == job.id);
        let Some(number) = number.filter(|number| *number < DESTINATIONS_MAX) else {
            return Ok(None);
        };
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(parent.clone()).or_insert_with(|| {
            // The others wait a little for those that begin now.
            let begins = |child: &Job| {
                let is_due = |time: Option<Timestamp>| time.is_none_or(|time| time <= now);
                let waits = child.state.waits();
                let is_here = child.runner.as_ref().is_some_and(|by| by.node == own);
                (child.state.moves() && is_here)
                    || (waits && is_due(child.next_attempt) && is_due(child.not_before))
            };
            let begin = children.iter().enumerate();
            let begin = begin.filter(|(_, child)| begins(child));
            Family {
                reads: SharedReads::of(KEPT_BYTES, begin.map(|(number, _)| number)),
                seated: HashSet::new(),
            }
        });
        family.seated.insert(job.id.clone());
        Ok(Some(Sharing {
            sources: self.clone(),
            parent,
            job: job.id.clone(),
            number,
        }))
    }
}

impl Sharing {
    /// The seat of one run.
    pub(crate) fn seat(&self) -> Option<Seat> {
        let families = self.sources.0.lock();
        let families = families.unwrap_or_else(PoisonError::into_inner);
        let family = families.get(&self.parent)?;
        Some(family.reads.seat(self.number))
    }

    /// Tells whether the job reads again what the other jobs have read before.
    pub(crate) fn is_behind(&self) -> Option<IsBehind> {
        let families = self.sources.0.lock();
        let families = families.unwrap_or_else(PoisonError::into_inner);
        let reads = families.get(&self.parent)?.reads.clone();
        let number = self.number;
        Some(Arc::new(move || reads.is_behind(number)))
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        // A job that ends before its transfer began is not waited for.
        drop(self.seat());
        let families = self.sources.0.lock();
        let mut families = families.unwrap_or_else(PoisonError::into_inner);
        if let Some(family) = families.get_mut(&self.parent) {
            family.seated.remove(&self.job);
            if family.seated.is_empty() {
                families.remove(&self.parent);
            }
        }
    }
}
