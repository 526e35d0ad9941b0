//! Owns the order in which arrived files drain to slow storage: the next file, retries of failed files, and files that were put
//! aside. Does no I/O and reads no clock.
//!
//! A file is in one of these phases. No phase loses it: only [`Waiting::remove`] does.
//!
//! ```text
//! READY ──▶ DRAINING ──▶ (removed)
//!   ▲  ◀─┐      │ failed
//!   │    └── LATER ◀┤
//!   └─ retry ─ ASIDE ◀┘ failed too often, and no wait will help
//! ```
//!
//! A file can be HELD from any phase but DRAINING, while a later file of its name is written.

mod file;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::extent::{FileKey, Generation, SourceId};

pub use file::{Failing, Phase, Sums, WaitingFile};
pub use turns::{BUSY_MAX, RUNNING_MAX, STALLS_AFTER, Stall, Turns};

/// Which file drains first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum First {
    /// The file that arrived first.
    #[default]
    Oldest,
    /// The smallest one.
    Smallest,
}

/// Time before a failed file is tried again; each failure doubles it.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest time between two tries.
const RETRY_LAST: Duration = Duration::from_secs(60);
/// Tries of a file that slow storage refuses, before it is put aside.
pub const TRIES_MAX: u32 = 5;
/// After a pause, draining exceeds its rate by the bytes of this time at most.
const BURST: Duration = Duration::from_millis(100);

/// Files that are counted below one path: a page of jobs asks for each of them.
const COUNTED_MAX: usize = 10_000;

/// A file with its place in the order.
type Ranked = ([u64; 3], Arc<FileKey>);

#[derive(Debug)]
struct One {
    what: Arc<[u8]>,
    since: Duration,
    phase: Phase,
    is_wanted: bool,
    tries: u32,
    reason: Option<String>,
}

/// The files that have arrived and are not at slow storage.
#[derive(Debug, Default)]
pub struct Waiting {
    files: BTreeMap<Arc<FileKey>, One>,
    /// The ready files, by their slow storage: a storage that hangs must not hold up another storage.
    ready: BTreeMap<SourceId, BTreeSet<Ranked>>,
    /// The files that drain, by where they go.
    pub turns: Turns,
    later: BTreeSet<(Duration, Arc<FileKey>)>,
    ages: BTreeSet<(Duration, Arc<FileKey>)>,
    first: First,
    rate: Option<u64>,
    next_at: Duration,
    sums: Sums,
}

impl Waiting {
    /// Sets order and rate, in bytes a second.
    pub fn set(&mut self, first: First, rate: Option<u64>) {
        self.first = first;
        self.rate = rate;
        let ready = std::mem::take(&mut self.ready);
        for (_, file) in ready.into_values().flatten() {
            self.enqueue(&file);
        }
    }

    /// Adds a file, with the words that say where it goes.
    pub fn add(&mut self, file: &Arc<FileKey>, what: Arc<[u8]>, since: Duration) {
        let one = One {
            what,
            since,
            phase: Phase::Ready,
            is_wanted: false,
            tries: 0,
            reason: None,
        };
        self.remove(file);
        self.files.insert(Arc::clone(file), one);
        self.sums.files += 1;
        self.sums.bytes += file.generation.bytes;
        self.ages.insert((since, Arc::clone(file)));
        self.enqueue(file);
    }

    /// Removes a file.
    pub fn remove(&mut self, file: &FileKey) {
        self.dequeue(file);
        if let Some((file, one)) = self.files.remove_entry(file) {
            self.sums.files -= 1;
            self.sums.bytes -= file.generation.bytes;
            self.sums.troubled -= u64::from(is_troubled(&one));
            self.sums.aside -= u64::from(one.phase == Phase::Aside);
            if one.phase == Phase::Draining {
                self.turns.end(file.source);
            }
            self.ages.remove(&(one.since, file));
        }
    }

    /// The next file to drain, which counts as draining from now on.
    pub fn poll(&mut self, now: Duration) -> Option<(Arc<FileKey>, Arc<[u8]>)> {
        while let Some((due, file)) = self.later.first().cloned()
            && due <= now
        {
            self.later.remove(&(due, Arc::clone(&file)));
            self.change(&file, |one| one.phase = Phase::Ready);
            self.enqueue(&file);
        }
        let (rank, source) = self.first(now)?;
        // A wanted file does not wait for the rate.
        if now < self.next_at && rank[0] != WANTED {
            return None;
        }
        let (_, file) = self.ready.get_mut(&source)?.pop_first()?;
        self.change(&file, |one| one.phase = Phase::Draining);
        self.turns.begin(source, now);
        if let Some(rate) = self.rate {
            let bytes = u128::from(file.generation.bytes);
            let nanos = bytes * 1_000_000_000 / u128::from(rate.max(1));
            let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let from = self.next_at.max(now.saturating_sub(BURST));
            self.next_at = from.saturating_add(cost);
        }
        let what = Arc::clone(&self.files.get(&file)?.what);
        Some((file, what))
    }

    /// A drain failed. With `may_pass`, a wait may help, and the file is never put aside.
    pub fn fail(
        &mut self,
        file: &FileKey,
        now: Duration,
        reason: String,
        may_pass: bool,
    ) -> Failing {
        let Some((file, one)) = self.files.get_key_value(file) else {
            return Failing::Again;
        };
        let is_first = self.sums.troubled == 0;
        let (file, tries) = (Arc::clone(file), one.tries);
        let wait = RETRY_FIRST * 2u32.saturating_pow(tries.min(10));
        let due = now.saturating_add(wait.min(RETRY_LAST));
        let is_aside = !may_pass && tries.saturating_add(1) >= TRIES_MAX;
        self.change(&file, |one| {
            one.tries = one.tries.saturating_add(1);
            one.reason = Some(reason);
            one.phase = match is_aside {
                true => Phase::Aside,
                false => Phase::Later(due),
            };
        });
        self.enqueue(&file);
        match is_aside {
            true => Failing::Aside,
            false if is_first => Failing::First,
            false => Failing::Again,
        }
    }

    /// The drain ended without a result, and the file is ready again.
    pub fn put_back(&mut self, file: &FileKey) {
        self.ready_if(file, |phase| phase == Phase::Draining);
    }

    /// Takes a file out of the queue, unless it drains. Returns whether it is held now.
    pub fn hold(&mut self, file: &FileKey) -> bool {
        let phase = self.files.get(file).map(|one| one.phase);
        let may = phase.is_some_and(|phase| phase != Phase::Draining && phase != Phase::Held);
        if may {
            self.dequeue(file);
            self.change(file, |one| one.phase = Phase::Held);
        }
        may
    }

    /// Returns a held file to the queue.
    pub fn let_go(&mut self, file: &FileKey) {
        self.ready_if(file, |phase| phase == Phase::Held);
    }

    /// Tries files at and below a path again now, also those that were put aside. Returns their number.
    pub fn retry(&mut self, source: SourceId, below: &[u8]) -> u64 {
        let files = self.below(source, below);
        for file in &files {
            self.change(file, |one| one.tries = 0);
            self.ready_if(file, |phase| {
                matches!(phase, Phase::Aside | Phase::Later(_))
            });
        }
        files.len() as u64
    }

    /// The files at a path, and those below it with a stamp of at most `latest`, are wanted now, and come first. Returns how many can come, how
    /// many were put aside, and whether one was not wanted before. A wanted file that failed is tried again no earlier than others.
    pub fn want(&mut self, source: SourceId, below: &[u8], latest: u64) -> (u64, u64, bool) {
        let (mut comes, mut aside, mut is_news) = (0, 0, false);
        let mut files = self.below(source, below);
        files.retain(|file| file.generation.stamp <= latest || file.path == below);
        for file in files {
            let known = self.files.get(&file).map(|one| (one.phase, one.is_wanted));
            if let Some((Phase::Aside, _)) = known {
                aside += 1;
                continue;
            }
            comes += 1;
            if let Some((_, true)) = known {
                continue;
            }
            is_news = true;
            self.dequeue(&file);
            self.change(&file, |one| {
                one.is_wanted = true;
                if matches!(one.phase, Phase::Later(_)) {
                    one.phase = Phase::Ready;
                }
            });
            self.enqueue(&file);
        }
        (comes, aside, is_news)
    }

    /// The latest file of a path, and the words that say where it goes.
    #[must_use]
    pub fn latest(&self, source: SourceId, path: &[u8]) -> Option<(Arc<FileKey>, Arc<[u8]>)> {
        let range = key(source, path, 0)..=key(source, path, u64::MAX);
        let files = self.files.range::<FileKey, _>(range);
        let (file, one) = files.max_by_key(|(file, _)| file.generation.stamp)?;
        Some((Arc::clone(file), Arc::clone(&one.what)))
    }

    /// Whether a file was put aside.
    #[must_use]
    pub fn is_aside(&self, file: &FileKey) -> bool {
        let one = self.files.get(file);
        one.is_some_and(|one| one.phase == Phase::Aside)
    }

    /// Whether a file waits.
    #[must_use]
    pub fn has(&self, file: &FileKey) -> bool {
        self.files.contains_key(file)
    }

    /// The files at and below a path.
    #[must_use]
    pub fn below(&self, source: SourceId, below: &[u8]) -> Vec<Arc<FileKey>> {
        let files = self.range(source, below, None);
        files.map(|(file, _)| Arc::clone(file)).collect()
    }

    /// The next files at and below a path, behind the path `after`, at most `most`.
    #[must_use]
    pub fn list(
        &self,
        source: SourceId,
        below: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Vec<WaitingFile> {
        let files = self.range(source, below, after);
        let views = files.map(|(file, one)| WaitingFile {
            file: Arc::clone(file),
            what: Arc::clone(&one.what),
            since: one.since,
            phase: one.phase,
            tries: one.tries,
            reason: one.reason.clone(),
        });
        views.take(most).collect()
    }

    /// Bytes of the files at and below a path that arrived in this time. Of many files, the first ones count.
    #[must_use]
    pub fn bytes(&self, source: SourceId, below: &[u8], arrived: &RangeInclusive<Duration>) -> u64 {
        // A list of jobs asks for each of them, and most ended long before the oldest of these files arrived.
        let first = Arc::new(key(SourceId([0; 16]), b"", 0));
        let mut later = self.ages.range((*arrived.start(), first)..);
        if later.next().is_none_or(|(since, _)| since > arrived.end()) {
            return 0;
        }
        let files = self.range(source, below, None).take(COUNTED_MAX);
        let files = files.filter(|(_, one)| arrived.contains(&one.since));
        files.map(|(file, _)| file.generation.bytes).sum()
    }

    /// Walks over no other file: many names may begin as the path does.
    fn range<'a>(
        &'a self,
        source: SourceId,
        below: &'a [u8],
        after: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'a Arc<FileKey>, &'a One)> {
        let from = move |path: &[u8]| {
            let first = match after.filter(|after| *after >= path) {
                Some(after) => key(source, after, u64::MAX),
                None => key(source, path, 0),
            };
            let files = self.files.range::<FileKey, _>(first..);
            files.take_while(move |(file, _)| file.source == source)
        };
        let slash: &[u8] = if below.is_empty() { b"" } else { b"/" };
        let inside = [below, slash].concat();
        let at = from(below).take_while(move |(file, _)| !below.is_empty() && file.path == below);
        let rest = from(&inside).take_while(move |(file, _)| file.path.starts_with(&inside));
        at.chain(rest)
    }

    /// Sums over all files.
    #[must_use]
    pub fn sums(&self) -> Sums {
        Sums {
            oldest: self.ages.first().map(|(since, _)| *since),
            ..self.sums
        }
    }

    /// When [`Self::poll`] may return a file without a change. A place that stalls meanwhile makes room for others sooner.
    #[must_use]
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let ready = self.first(now).map(|_| self.next_at);
        let later = self.later.first().map(|(due, _)| *due);
        ready.into_iter().chain(later).min()
    }

    fn ready_if(&mut self, file: &FileKey, is: impl Fn(Phase) -> bool) {
        let Some((file, one)) = self.files.get_key_value(file) else {
            return;
        };
        let (file, phase) = (Arc::clone(file), one.phase);
        if is(phase) {
            self.dequeue(&file);
            self.change(&file, |one| one.phase = Phase::Ready);
            self.enqueue(&file);
        }
    }

    /// Changes a file, and keeps the sums.
    fn change(&mut self, file: &FileKey, change: impl FnOnce(&mut One)) {
        if let Some(one) = self.files.get_mut(file) {
            self.sums.troubled -= u64::from(is_troubled(one));
            self.sums.aside -= u64::from(one.phase == Phase::Aside);
            let has_drained = one.phase == Phase::Draining;
            change(one);
            if has_drained && one.phase != Phase::Draining {
                self.turns.end(file.source);
            }
            self.sums.troubled += u64::from(is_troubled(one));
            self.sums.aside += u64::from(one.phase == Phase::Aside);
        }
    }

    /// The first file whose slow storage takes one more.
    fn first(&self, now: Duration) -> Option<([u64; 3], SourceId)> {
        let waits = self.ready.iter().filter(|(_, ready)| !ready.is_empty());
        let share = self.turns.share(waits.map(|(source, _)| source), now);
        let may = |source: SourceId| self.turns.may(source, share, now);
        let sources = self.ready.iter().filter(|(source, _)| may(**source));
        let firsts = sources.filter_map(|(source, ready)| {
            let (rank, file) = ready.first()?;
            Some((rank, file, *source))
        });
        firsts.min().map(|(rank, _, source)| (*rank, source))
    }

    /// Puts a file into the set of its phase.
    fn enqueue(&mut self, file: &FileKey) {
        let Some((file, one)) = self.files.get_key_value(file) else {
            return;
        };
        let (file, rank) = (Arc::clone(file), rank(self.first, file, one));
        match one.phase {
            Phase::Ready => {
                let ready = self.ready.entry(file.source).or_default();
                ready.insert((rank, file));
            }
            Phase::Later(due) => {
                self.later.insert((due, file));
            }
            Phase::Draining | Phase::Held | Phase::Aside => {}
        }
    }

    /// Takes a file out of the set of its phase.
    fn dequeue(&mut self, file: &FileKey) {
        let Some((file, one)) = self.files.get_key_value(file) else {
            return;
        };
        let (file, rank) = (Arc::clone(file), rank(self.first, file, one));
        match one.phase {
            Phase::Ready => {
                if let Some(ready) = self.ready.get_mut(&file.source) {
                    ready.remove(&(rank, file));
                }
            }
            Phase::Later(due) => {
                self.later.remove(&(due, file));
            }
            Phase::Draining | Phase::Held | Phase::Aside => {}
        }
    }
}

/// The rank of a wanted file.
const WANTED: u64 = 0;

/// The first key of a path; with the largest `end`, one behind all its files.
fn key(source: SourceId, path: &[u8], end: u64) -> FileKey {
    FileKey {
        source,
        path: path.to_vec(),
        generation: Generation {
            bytes: end,
            stamp: end,
        },
    }
}

fn rank(first: First, file: &FileKey, one: &One) -> [u64; 3] {
    let since = u64::try_from(one.since.as_millis()).unwrap_or(u64::MAX);
    let bytes = match first {
        First::Oldest => 0,
        First::Smallest => file.generation.bytes,
    };
    [if one.is_wanted { WANTED } else { 1 }, bytes, since]
}

fn is_troubled(one: &One) -> bool {
    matches!(one.phase, Phase::Later(_) | Phase::Aside)
}
