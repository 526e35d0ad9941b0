//! Owns the rule which places may take one more file: each place always one, and none more than its share. Orders no files.
//!
//! A place that takes no data holds only the files that drain to it already. They count among its own, and not among those of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::extent::SourceId;

/// Files that drain to one place at a time: few, because a disk that seeks must not jump between many.
pub const BUSY_MAX: usize = 3;
/// Files that drain at a time to all places together. Each file takes a buffer of 4 MiB. With more places than this, each drains one.
pub const RUNNING_MAX: usize = 8;
/// A place has stalled if nothing there moves for this time. The sync of a large file takes a part of it.
pub const STALLS_AFTER: Duration = Duration::from_secs(60);

/// A place to which files drain, and nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The place.
    pub source: SourceId,
    /// When something moved last.
    pub since: Duration,
    /// Files that drain there.
    pub files: usize,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    files: usize,
    moved: Duration,
}

/// The files that drain, by place.
#[derive(Debug, Default)]
pub struct Turns(BTreeMap<SourceId, Busy>);

impl Turns {
    /// Something moved at a place: a file got data, or ended.
    pub fn moves(&mut self, source: SourceId, now: Duration) {
        if let Some(busy) = self.0.get_mut(&source) {
            busy.moved = busy.moved.max(now);
        }
    }

    /// The places that have stalled.
    pub fn stalls(&self, now: Duration) -> impl Iterator<Item = Stall> {
        let stalled = self
            .0
            .iter()
            .filter(move |(_, busy)| has_stalled(busy, now));
        stalled.map(|(source, busy)| Stall {
            source: *source,
            since: busy.moved,
            files: busy.files,
        })
    }

    pub(super) fn begin(&mut self, source: SourceId, now: Duration) {
        let busy = self.0.entry(source).or_insert(Busy {
            files: 0,
            moved: now,
        });
        busy.files += 1;
    }

    pub(super) fn end(&mut self, source: SourceId) {
        if let Some(busy) = self.0.get_mut(&source) {
            busy.files = busy.files.saturating_sub(1);
            if busy.files == 0 {
                self.0.remove(&source);
            }
        }
    }

    /// Files that each place may take at a time, if files are `ready` for these places.
    pub(super) fn share<'a>(
        &self,
        ready: impl Iterator<Item = &'a SourceId>,
        now: Duration,
    ) -> usize {
        let moving = self.0.values().filter(|busy| !has_stalled(busy, now));
        let idle = ready.filter(|source| !self.0.contains_key(*source));
        let places = moving.count() + idle.count();
        (RUNNING_MAX / places.max(1)).clamp(1, BUSY_MAX)
    }

    /// Whether a place takes one more file.
    pub(super) fn may(&self, source: SourceId, share: usize, now: Duration) -> bool {
        let busy = self.0.get(&source);
        busy.is_none_or(|busy| busy.files < share && !has_stalled(busy, now))
    }
}

fn has_stalled(busy: &Busy, now: Duration) -> bool {
    now.saturating_sub(busy.moved) >= STALLS_AFTER
}
