//! Lets the jobs of one parent that run here share the reads of their source.
//! Reads nothing itself, and starts no job: a job that comes late reads what is no longer kept.

use std::collections::HashMap;
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
    /// Jobs that have a seat here, with the number of their rights.
    seated: HashMap<String, usize>,
}

/// The right of an attempt, or of a worker for a divided job, to share reads. The reads end with the last one.
pub(crate) struct Sharing {
    sources: SharedSources,
    parent: String,
    job: String,
    number: usize,
}

impl SharedSources {
    /// Lets an attempt of the node `own` share the reads of its parent; None for a job without a parent or of a
    /// gather, or with a source elsewhere. A worker for a divided job expects the workers of the other jobs.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn share(
        &self,
        reader: &Reader,
        job: &Job,
        (own, now): (&str, Timestamp),
        is_worker: bool,
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
        // The others wait a little for those that begin now.
        let begins = |child: &Job| {
            let is_due = |time: Option<Timestamp>| time.is_none_or(|time| time <= now);
            let waits = child.state.waits();
            let is_here = child.runner.as_ref().is_some_and(|by| by.node == own);
            // Each node of the source has a worker for a divided job, whichever node controls the job.
            (child.state.moves() && (is_here || is_worker))
                || (waits && is_due(child.next_attempt) && is_due(child.not_before))
        };
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(parent.clone()).or_insert_with(|| Family {
            reads: SharedReads::new(KEPT_BYTES, 0),
            seated: HashMap::new(),
        });
        let is_first = family.seated.is_empty();
        for (number, child) in children.iter().enumerate() {
            // A job that is here may have left since.
            let is_known = child.id != job.id && family.seated.contains_key(&child.id);
            if (is_first || is_worker) && !is_known && begins(child) {
                family.reads.join(number);
            }
        }
        *family.seated.entry(job.id.clone()).or_default() += 1;
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

    /// The seat of one of the transfers of a worker. The job keeps it between them.
    pub(crate) fn lasting_seat(&self) -> Option<Seat> {
        let families = self.sources.0.lock();
        let families = families.unwrap_or_else(PoisonError::into_inner);
        let family = families.get(&self.parent)?;
        Some(family.reads.lasting_seat(self.number))
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
        let families = self.sources.0.lock();
        let mut families = families.unwrap_or_else(PoisonError::into_inner);
        let Some(family) = families.get_mut(&self.parent) else {
            return;
        };
        match family.seated.get_mut(&self.job) {
            // An attempt that controls a divided job, and the worker beside it.
            Some(rights) if *rights > 1 => *rights -= 1,
            _ => {
                family.seated.remove(&self.job);
                // A job that ends before its transfer began is not waited for.
                family.reads.leave(self.number);
            }
        }
        if family.seated.is_empty() {
            families.remove(&self.parent);
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_state::{Actor, Command, FEATURE_LEVEL, NewFamily, Op, Role, Store};

    use super::*;
    use crate::basis::examples::new_job;

    /// A family `m` to two sites, and a lone job `s`.
    fn jobs() -> (tempfile::TempDir, Reader) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.db");
        let mut store = Store::open(&path).expect("open");
        let new = |id: &str| new_job(id, HERE, ("siteB", &format!("/all/{id}/")));
        let ops = [
            Op::Level(FEATURE_LEVEL),
            Op::SubmitFamily(Box::new(NewFamily {
                parent: new("m0"),
                children: ["m1", "m2"].map(new).to_vec(),
            })),
            Op::Submit(Box::new(new("s"))),
        ];
        for (index, op) in (1..).zip(ops) {
            let alice = Actor {
                name: "alice".to_owned(),
                role: Some(Role::Operator),
                ..Actor::default()
            };
            let command = Command::new(Timestamp(1), alice, op);
            let done = store.apply(index, &command).expect("applied");
            done.expect("taken");
        }
        (directory, Reader::new(path))
    }

    #[test]
    fn a_family_shares_reads_until_its_last_attempt_and_worker_end() {
        let (_directory, reader) = jobs();
        let sources = SharedSources::default();
        let share = |id: &str, is_worker: bool| {
            let job = reader.job(id).expect("read").expect("there");
            let moment = ("node1", Timestamp(2));
            let sharing = sources.share(&reader, &job, moment, is_worker);
            sharing.expect("read")
        };
        assert!(share("s", false).is_none() && share("s", true).is_none());
        let attempt = share("m1", false).expect("a family");
        let worker = share("m1", true).expect("the same");
        let other = share("m2", true).expect("the same");
        assert_eq!(sources.0.lock().expect("whole").len(), 1);
        drop(attempt);
        assert!(worker.lasting_seat().is_some());
        drop(other);
        assert!(worker.lasting_seat().is_some());
        drop(worker);
        assert!(sources.0.lock().expect("whole").is_empty());
    }
}
