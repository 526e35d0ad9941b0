//! Owns the bound of jobs that wait for one owner: how many there may be, and how long their descriptions are together.
//! Submits nothing.
//!
//! A count reads all waiting jobs, so not each submission makes one. A command adds a bounded number of waiting jobs. So the last count and
//! the number of later commands show whether the bound is far away. Only a lost or restarted node returns more jobs to the queue at once.
//! These need no room, and the next count has them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_api::failure::FailureCode;
use godwit_api::rest::JobView;
use godwit_state::{DESTINATIONS_MAX, Kept, SPEC_BYTES_MAX};

use super::Admission;
use crate::basis::error::JobsError;

/// Waiting jobs of one owner: a tenth of the state's bound for all owners.
pub const WAITING_OF_OWNER_MAX: u64 = 5_000;

/// Bytes of descriptions for each waiting job: 64 MiB, divided by the largest number of these jobs.
const WAITING_BYTES_EACH: u64 = (64 << 20) / WAITING_OF_OWNER_MAX;

/// Most jobs that one command adds: a parent and its children. Their descriptions have the bound of a single one.
const JOBS_EACH: u64 = DESTINATIONS_MAX as u64 + 1;
const BYTES_EACH: u64 = SPEC_BYTES_MAX as u64;

/// Owners whose counts are remembered.
const OWNERS_MAX: usize = 1_024;

/// The last count of each owner.
#[derive(Default)]
pub(crate) struct LastCounts(Mutex<HashMap<String, Count>>);

/// The waiting jobs of an owner after a command, and at most so many bytes of their descriptions.
#[derive(Clone, Copy, Debug)]
struct Count {
    index: u64,
    jobs: u64,
    bytes: u64,
}

impl Count {
    /// Whether fewer jobs and bytes than these wait after the command at `index`, whatever the commands since the count were.
    fn is_below(self, index: u64, jobs_max: u64, bytes_max: u64) -> bool {
        let commands = index.saturating_sub(self.index);
        let jobs = commands.saturating_mul(JOBS_EACH).saturating_add(self.jobs);
        let bytes = commands
            .saturating_mul(BYTES_EACH)
            .saturating_add(self.bytes);
        jobs < jobs_max && bytes < bytes_max
    }
}

impl LastCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self, owner: &str) -> Option<Count> {
        self.lock().get(owner).copied()
    }

    fn keep(&self, owner: &str, count: Count) {
        let mut counts = self.lock();
        if counts.len() >= OWNERS_MAX {
            counts.clear();
        }
        counts.insert(owner.to_owned(), count);
    }
}

/// As [`check_room`], for a job that runs again. A job that waits has its place already.
pub(crate) fn check_room_again(admission: &Admission, job: &JobView) -> Result<(), JobsError> {
    match job.state.ended() {
        true => check_room(admission, &job.owner),
        false => Ok(()),
    }
}

/// Whether one more job of the owner may wait. The bound per owner leaves room for the jobs of all owners. Paused jobs count as waiting: they
/// return when the owner resumes them, and no time removes them.
pub(crate) fn check_room(admission: &Admission, owner: &str) -> Result<(), JobsError> {
    let most = admission.waiting_of_owner_max;
    let bytes_max = most.saturating_mul(WAITING_BYTES_EACH);
    // The index is read first, so that commands during the count are added to it.
    let index = admission.this.replica.applied_index();
    let last = admission.counts.last(owner);
    if last.is_some_and(|last| last.is_below(index, most, bytes_max)) {
        return Ok(());
    }
    let reader = admission.this.reader();
    let jobs = Kept(&reader).waiting(owner)?;
    if jobs >= most {
        return Err(JobsError::invalid(
            FailureCode::TooMany,
            format!(
                "{jobs} jobs of {owner} wait or are paused, and the limit for one owner is {most}; wait until some have run, or cancel some"
            ),
        ));
    }
    let mut bytes = jobs.saturating_mul(BYTES_EACH);
    if bytes >= bytes_max {
        bytes = Kept(&reader).waiting_bytes(owner)?;
    }
    if bytes >= bytes_max {
        return Err(JobsError::invalid(
            FailureCode::TooMany,
            format!(
                "the waiting and paused jobs of {owner} have descriptions of {bytes} bytes, and the limit for one owner is {bytes_max}; \
                 wait until some have run, cancel some, or name a directory above many sources"
            ),
        ));
    }
    admission.counts.keep(owner, Count { index, jobs, bytes });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: u64 = 64 << 20;

    #[test]
    fn a_count_holds_for_as_many_commands_as_cannot_reach_the_bound() {
        let count = Count {
            index: 100,
            jobs: 4_000,
            bytes: 1 << 20,
        };
        let is_below = |index| count.is_below(index, WAITING_OF_OWNER_MAX, BYTES_MAX);
        assert!(is_below(100));
        // 1,000 more jobs may wait, and each command adds up to 65.
        assert!(is_below(115));
        assert!(!is_below(116));
    }

    #[test]
    fn long_descriptions_end_a_count_earlier() {
        let count = Count {
            index: 100,
            jobs: 0,
            bytes: 62 << 20,
        };
        let is_below = |index| count.is_below(index, WAITING_OF_OWNER_MAX, BYTES_MAX);
        // Each command adds up to a quarter of a mebibyte.
        assert!(is_below(107));
        assert!(!is_below(108));
    }

    #[test]
    fn counts_of_many_owners_are_forgotten() {
        let counts = LastCounts::default();
        let count = Count {
            index: 1,
            jobs: 1,
            bytes: 1,
        };
        for number in 0..=OWNERS_MAX {
            counts.keep(&format!("user{number}"), count);
        }
        assert!(counts.last("user0").is_none());
        assert!(counts.last(&format!("user{OWNERS_MAX}")).is_some());
    }
}
