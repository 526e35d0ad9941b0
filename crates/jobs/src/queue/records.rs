//! Bounds the disk space of one owner's jobs beside the state: their manifests, logs and samples.
//! Deletes no job: the state prunes those.
//!
//! All records of one user, or of one other site, share one bound. Beyond the bound, the
//! records of the owner's oldest ended jobs are deleted; for a user, records of waiting jobs are
//! deleted, too. The log of a user's job reports it. If the remaining jobs fill the room, the running
//! one
//! with the largest records ends. Then the node takes no further job of another site. A job that another node runs continues
//! without this node, even if this node works on it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::units::human_size;
use godwit_history::Recorder;
use godwit_state::{Job, JobFilter, Op, PAGE_BYTES, WorkOp};

use crate::attempt::divided;
use crate::attempt::live::Live;
use crate::basis::error::JobsError;
use crate::basis::owners::{is_of_site, owner};
use crate::basis::this_node::ThisNode;
use crate::basis::words::no_room;
use crate::queue::drained::Drained;
use crate::queue::scheduler::end;

/// Bytes of the records of one other site: the manifests of some ten million files, or the logs of hundreds of jobs.
const OF_SITE_MAX: u64 = 4 << 30;

/// Most bytes of the records of one user: the manifests of some forty million files.
const OF_USER_MAX: u64 = 16 << 30;

/// How often records of a site are checked, and records of a user, whose history may have many more jobs.
const LOOK_AT_SITE_EVERY: Duration = Duration::from_secs(5);
const LOOK_AT_USER_EVERY: Duration = Duration::from_mins(1);

/// Smaller records stay: they may be the line about deleted records.
const LEAST_BYTES: u64 = 1 << 10;

/// The records of jobs at this node, with their sizes by owner, as last seen.
pub(crate) struct Records {
    this: Arc<ThisNode>,
    live: Arc<Live>,
    divided: Arc<divided::Context>,
    looks: Mutex<HashMap<String, Look>>,
}

impl Records {
    pub(crate) fn new(
        this: Arc<ThisNode>,
        live: Arc<Live>,
        divided: Arc<divided::Context>,
    ) -> Self {
        Self {
            this,
            live,
            divided,
            looks: Mutex::default(),
        }
    }
}

#[derive(Clone)]
struct Look {
    at: Instant,
    full: bool,
    /// The running job with the largest records.
    largest: Option<String>,
}

impl Look {
    fn is_new(&self, owner: &str, now: Instant) -> bool {
        let every = match is_of_site(owner) {
            true => LOOK_AT_SITE_EVERY,
            false => LOOK_AT_USER_EVERY,
        };
        now.saturating_duration_since(self.at) < every
    }
}

const fn most(is_of_site: bool) -> u64 {
    if is_of_site { OF_SITE_MAX } else { OF_USER_MAX }
}

/// Why the asker may not have one more job here, if the records of its jobs take all their room.
pub(crate) fn full(records: &Records, asker: &str) -> Result<Option<String>, JobsError> {
    let look = look(records, &owner(asker))?;
    Ok(look.full.then(|| {
        format!(
            "manifests, logs and samples of your unfinished jobs take {} here, which is the limit; wait until these jobs end, or submit jobs with fewer files or without manifests",
            human_size(OF_SITE_MAX)
        )
    }))
}

/// Interval between two checks of the running jobs, and between two checks whether the node stops.
const EVERY: Duration = Duration::from_secs(1);
const STOPS_EVERY: Duration = Duration::from_millis(200);

/// Body of the thread. It reads directories of thousands of jobs, so no start or end of other jobs waits for it.
pub(crate) fn run(records: &Records, mut drained: Drained) {
    let is_stopping = || records.this.is_stopping();
    while !is_stopping() {
        let reader = records.this.reader();
        for (id, attempt) in records.live.all() {
            // A state that cannot be read now is read at the next look.
            let job = reader.job(&id).ok().flatten();
            let runs = |job: &Job| job.epoch == attempt.epoch && job.state.moves();
            if let Some(job) = job.filter(runs)
                && let Some(why) = overflows(records, &job)
            {
                drop(end(&records.this, &records.live, &job, &why, no_room(&why)));
            }
        }
        for (id, epoch) in records.divided.workers.all() {
            let job = reader.job(&id).ok().flatten();
            let works = |job: &Job| job.epoch == epoch && job.state.moves();
            if let Some(job) = job.filter(works)
                && !records.live.contains(&id)
                && let Some(why) = overflows(records, &job)
            {
                drop(decline(records, &job, &why));
            }
        }
        // A state that cannot be read or changed now is asked again.
        drop(drained.look(&records.this, Instant::now()));
        let until = Instant::now() + EVERY;
        while Instant::now() < until && !is_stopping() {
            std::thread::sleep(STOPS_EVERY);
        }
    }
}

/// Works no longer on a job that another node runs. That node alone may end it.
fn decline(records: &Records, job: &Job, why: &str) -> Result<(), JobsError> {
    records
        .this
        .log(&format!("job {}: this node works no more: {why}", job.id));
    let decline = WorkOp::Decline {
        epoch: job.epoch,
        node: records.this.name.clone(),
        why: no_room(why),
    };
    let op = Op::Work(job.id.clone(), decline);
    records.this.propose(op)?;
    records.divided.workers.stop(&job.id);
    Ok(())
}

/// Why a running job has to end, if its records fill all the space of its owner.
fn overflows(records: &Records, job: &Job) -> Option<String> {
    // If they cannot be read now, they are checked again.
    let look = look(records, &job.owner).ok()?;
    let is_of_site = is_of_site(&job.owner);
    (look.full && look.largest.as_ref() == Some(&job.id)).then(|| {
        format!(
            "manifests, logs and samples of jobs for one {} take {} here at most; submit the job without a manifest, or in parts",
            if is_of_site { "other site" } else { "user" },
            human_size(most(is_of_site))
        )
    })
}

/// Looks at the records of an owner, unless that was done just now, and makes room.
fn look(records: &Records, owner: &str) -> Result<Look, JobsError> {
    let lock = || {
        let looks = records.looks.lock();
        looks.unwrap_or_else(PoisonError::into_inner)
    };
    let now = Instant::now();
    let mut looks = lock();
    looks.retain(|owner, look| look.is_new(owner, now));
    if let Some(look) = looks.get(owner) {
        return Ok(look.clone());
    }
    drop(looks);
    let look = Look {
        // A look that takes long is not old at its end.
        at: Instant::now(),
        ..make_room(records, owner, now)?
    };
    lock().insert(owner.to_owned(), look.clone());
    Ok(look)
}

/// The records of a job that may be deleted.
struct Kept {
    id: String,
    attempt: u32,
    bytes: u64,
}

fn make_room(records: &Records, owner: &str, at: Instant) -> Result<Look, JobsError> {
    let base = &records.this.directory;
    let here: HashSet<String> = godwit_history::job_ids(base).into_iter().collect();
    let filter = JobFilter {
        owner: Some(owner.to_owned()),
        bytes_max: Some(PAGE_BYTES),
        ..JobFilter::default()
    };
    let is_of_site = is_of_site(owner);
    let (mut open, mut largest) = (0_u64, None);
    let (mut waiting, mut ended) = (Vec::new(), Vec::new());
    let mut cursor = None;
    loop {
        let reader = records.this.reader();
        let page = reader.jobs(&filter, cursor.as_ref(), usize::MAX)?;
        for job in page.jobs.into_iter().filter(|job| here.contains(&job.id)) {
            let bytes = godwit_history::bytes(base, &job.id);
            let runs = records.live.contains(&job.id) || records.divided.workers.contains(&job.id);
            let attempt = job.attempts;
            if !runs && (job.state.ended() || !is_of_site) {
                let kept = if job.state.ended() {
                    &mut ended
                } else {
                    &mut waiting
                };
                let id = job.id;
                kept.push(Kept { id, attempt, bytes });
                continue;
            }
            open = open.saturating_add(bytes);
            if runs && largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                largest = Some((bytes, job.id));
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    waiting.append(&mut ended);
    for Kept { id, attempt, .. } in surplus(open, waiting, most(is_of_site)) {
        records.this.log(&format!(
            "job {id}: its records were removed to make room for other jobs of {owner}"
        ));
        // A removal that fails is tried again.
        let removed = godwit_history::remove(base, &id);
        if !is_of_site && removed.is_ok() {
            let message = format!(
                "log, samples and manifest up to now were removed: the limit for one user is {} on a node",
                human_size(OF_USER_MAX)
            );
            let note = serde_json::json!({"event": "note", "message": message});
            Recorder::open(base, &id, attempt).log(note);
        }
    }
    Ok(Look {
        at,
        full: open >= most(is_of_site),
        largest: largest.map(|(_, id)| id),
    })
}

/// The jobs of `kept` without room beside the records of open jobs. `kept` begins with the jobs to keep the longest.
fn surplus(open: u64, kept: Vec<Kept>, most: u64) -> impl Iterator<Item = Kept> {
    let mut bytes = open;
    let over = kept.into_iter().skip_while(move |kept| {
        bytes = bytes.saturating_add(kept.bytes);
        bytes <= most
    });
    over.filter(|kept| kept.bytes > LEAST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ended_jobs_make_way() {
        let third = OF_SITE_MAX / 3;
        let gone = |open: u64| {
            let of = [("c", third), ("b", third), ("a", 2_000), ("0", 10)];
            let kept = of.map(|(id, bytes)| Kept {
                id: id.to_owned(),
                attempt: 1,
                bytes,
            });
            let gone = surplus(open, kept.into(), OF_SITE_MAX);
            gone.map(|kept| kept.id).collect::<Vec<_>>()
        };
        assert!(gone(third - 2_010).is_empty());
        assert_eq!(gone(third + 2), ["b", "a"]);
        assert_eq!(gone(OF_SITE_MAX), ["c", "b", "a"]);
    }
}
