//! Owns how much the disk of this node keeps of jobs for other sites beside the state: their manifests, logs and samples.
//! Deletes no job: the state prunes those.
//!
//! The records of one asker have a bound together. Beyond it those of its oldest ended jobs go. If the jobs that have not
//! ended fill the room, the node takes no further job of the asker, and ends the running one with the largest records.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::units::human_size;
use godwit_state::{Job, JobFilter, PAGE_BYTES};

use super::{asker_of, owner};
use crate::Shared;
use crate::error::JobsError;

/// Bytes of the records of one asker: the manifests of some ten million files, or the logs of hundreds of jobs.
const BYTES_MAX: u64 = 4 << 30;

/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The results of the last looks, by asker.
#[derive(Default)]
pub(crate) struct Records(Mutex<HashMap<String, Look>>);

#[derive(Clone)]
struct Look {
    at: Instant,
    full: bool,
    /// The running job with the largest records.
    largest: Option<String>,
}

/// Why the asker may not have one more job here, if its records take all their room.
pub(super) fn full(shared: &Shared, asker: &str) -> Result<Option<String>, JobsError> {
    let look = look(shared, asker)?;
    Ok(look.full.then(|| {
        format!(
            "manifests, logs and samples of your jobs that have not ended take {} here, as much as may be; wait until they end, or submit jobs with fewer files or without manifests",
            human_size(BYTES_MAX)
        )
    }))
}

/// Why a job that runs for another site has to end, if its records take the room of all of its asker.
pub(crate) fn overflows(shared: &Shared, job: &Job) -> Option<String> {
    // If they cannot be read now, they are looked at again.
    let look = look(shared, asker_of(job)?).ok()?;
    (look.full && look.largest.as_ref() == Some(&job.id)).then(|| {
        format!(
            "manifests, logs and samples of jobs for one other site take {} here at most; submit the job without a manifest, or in parts",
            human_size(BYTES_MAX)
        )
    })
}

/// Looks at the records of an asker, unless that was done just now, and makes room.
fn look(shared: &Shared, asker: &str) -> Result<Look, JobsError> {
    let lock = || {
        let looks = shared.records.0.lock();
        looks.unwrap_or_else(PoisonError::into_inner)
    };
    let now = Instant::now();
    let mut looks = lock();
    looks.retain(|_, look| now.saturating_duration_since(look.at) < LOOK_EVERY);
    if let Some(look) = looks.get(asker) {
        return Ok(look.clone());
    }
    drop(looks);
    let look = make_room(shared, asker, now)?;
    lock().insert(asker.to_owned(), look.clone());
    Ok(look)
}

fn make_room(shared: &Shared, asker: &str, at: Instant) -> Result<Look, JobsError> {
    let base = &shared.config.directory;
    let here: HashSet<String> = godwit_history::ids(base).into_iter().collect();
    let filter = JobFilter {
        owner: Some(owner(asker)),
        bytes_max: Some(PAGE_BYTES),
        ..JobFilter::default()
    };
    let (mut open, mut ended, mut largest) = (0_u64, Vec::new(), None);
    let mut cursor = None;
    loop {
        let reader = shared.replica.reader();
        let page = reader.jobs(&filter, cursor.as_ref(), usize::MAX)?;
        for job in page.jobs.into_iter().filter(|job| here.contains(&job.id)) {
            let bytes = godwit_history::bytes(base, &job.id);
            let runs = shared.live.contains(&job.id);
            if job.state.ended() && !runs {
                ended.push((job.id, bytes));
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
    for id in surplus(open, ended) {
        (shared.config.log)(&format!(
            "job {id}: its records made way for those of later jobs for {asker}"
        ));
        // A removal that fails is tried again.
        let _ = godwit_history::remove(base, &id);
    }
    Ok(Look {
        at,
        full: open >= BYTES_MAX,
        largest: largest.map(|(_, id)| id),
    })
}

/// The ended jobs, of which the newest come first, that have no room beside the jobs that have not ended.
fn surplus(open: u64, ended: Vec<(String, u64)>) -> impl Iterator<Item = String> {
    let mut bytes = open;
    let over = ended.into_iter().skip_while(move |(_, more)| {
        bytes = bytes.saturating_add(*more);
        bytes <= BYTES_MAX
    });
    over.map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ended_jobs_make_way() {
        let third = BYTES_MAX / 3;
        let ended = || {
            vec![
                ("c".to_owned(), third),
                ("b".to_owned(), third),
                ("a".to_owned(), 0),
            ]
        };
        let gone = |open: u64| surplus(open, ended()).collect::<Vec<_>>();
        assert!(gone(third).is_empty());
        assert_eq!(gone(third + 2), ["b", "a"]);
        assert_eq!(gone(BYTES_MAX), ["c", "b", "a"]);
    }
}
