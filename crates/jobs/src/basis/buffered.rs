//! Owns how much of a job waits in the transfer buffer of this node: files at its destination that arrived while it ran. Changes no job.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use godwit_api::rest::HERE;
use godwit_state::{Job, Timestamp};

use crate::basis::documents;
use crate::basis::this_node::ThisNode;

/// The clocks of the nodes of a cluster differ by less than this, in milliseconds.
const CLOCKS_DIFFER: i64 = 10_000;

/// Ended jobs of which data waited when they were shown. Each gets its last word.
#[derive(Default)]
pub(crate) struct Shown(Mutex<BTreeSet<String>>);

impl Shown {
    fn add(&self, id: &str) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.contains(id) {
            shown.insert(id.to_owned());
        }
    }

    /// Those since the last call.
    pub(crate) fn take(&self) -> BTreeSet<String> {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *shown)
    }
}

/// Bytes of the job that wait; `None` if none does, or its destination is elsewhere: this node does not know what waits there.
pub(crate) fn buffered(this: &ThisNode, job: &Job) -> Option<u64> {
    let bytes = waiting(job, |path, arrived| this.files.buffered(path, arrived))?;
    if job.state.ended() {
        this.shown.add(&job.id);
    }
    Some(bytes)
}

/// The same, as `count` finds it below a path of this node among the arrivals of a time.
fn waiting(job: &Job, count: impl Fn(&Path, &RangeInclusive<Duration>) -> u64) -> Option<u64> {
    if job.destination.site != HERE {
        return None;
    }
    let place = documents::parts(&job.destination).ok()?;
    // A later job to the same place has files of another time.
    let begin = since_epoch(job.created, -CLOCKS_DIFFER);
    let end = job
        .ended
        .map_or(Duration::MAX, |at| since_epoch(at, CLOCKS_DIFFER));
    let path = documents::exported_path(&place);
    let bytes = count(&path, &(begin..=end));
    (bytes > 0).then_some(bytes)
}

fn since_epoch(at: Timestamp, and: i64) -> Duration {
    let millis = at.0.saturating_add(and).max(0);
    Duration::from_millis(millis.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::examples;

    #[test]
    fn a_sender_knows_nothing_of_the_buffer_of_another_site() {
        let of = |site: &str, bytes: u64| {
            let job = examples::job("1", "alice", site);
            waiting(&job, |path, _| match path == Path::new("/data") {
                true => bytes,
                false => 0,
            })
        };
        assert_eq!(of(HERE, 7), Some(7));
        assert_eq!(of(HERE, 0), None);
        assert_eq!(of("siteB", 7), None);
    }
}
