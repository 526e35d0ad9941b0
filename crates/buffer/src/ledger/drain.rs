//! Owns the order and the rate in which dirty extents drain. Drains nothing; the shell does.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::files::FileNumber;
use crate::extent::Place;

/// Which dirty extent drains first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that has waited longest.
    Oldest,
    /// Files in turn, each from its beginning to its end.
    ByFile,
    /// Small files before large ones.
    SmallFiles,
}

/// Settings of draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainSettings {
    /// Which extent drains first.
    pub order: Order,
    /// Most bytes a second; `None` is no limit.
    pub rate: Option<u64>,
    /// Most extents at once.
    pub at_once: u32,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            order: Order::Oldest,
            rate: None,
            at_once: 8,
        }
    }
}

/// Time before a failed drain is tried again; each failure doubles it.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest time between two tries.
const RETRY_LAST: Duration = Duration::from_secs(60);
/// After a pause, draining exceeds its rate by the bytes of this time at most.
const BURST: Duration = Duration::from_millis(100);

/// A dirty extent in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) file: FileNumber,
    pub(super) file_bytes: u64,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) since: Duration,
}

/// The queue of dirty extents.
#[derive(Debug)]
pub(super) struct Drain {
    settings: DrainSettings,
    queue: BTreeSet<([u64; 3], Place)>,
    /// Extents whose drain failed, by the time of the next try.
    later: BTreeSet<(Duration, Place)>,
    /// All places of both sets. A place in `later` has the time of its next try here.
    waiting: HashMap<Place, (Waiting, Option<Duration>)>,
    failures: HashMap<Place, u32>,
    running: u32,
    next_at: Duration,
}

impl Drain {
    pub(super) fn new(settings: DrainSettings) -> Self {
        Self {
            settings,
            queue: BTreeSet::new(),
            later: BTreeSet::new(),
            waiting: HashMap::new(),
            failures: HashMap::new(),
            running: 0,
            next_at: Duration::ZERO,
        }
    }

    pub(super) fn set(&mut self, settings: DrainSettings) {
        self.settings = settings;
        let ready = self.waiting.values().filter(|(_, due)| due.is_none());
        self.queue = ready
            .map(|(waiting, _)| (key_of(settings.order, waiting), waiting.place))
            .collect();
    }

    /// Adds an extent that became dirty.
    pub(super) fn add(&mut self, waiting: Waiting) {
        let key = key_of(self.settings.order, &waiting);
        self.queue.insert((key, waiting.place));
        self.waiting.insert(waiting.place, (waiting, None));
    }

    /// The drain of a waiting extent has failed. It waits longer after each failure.
    pub(super) fn put_off(&mut self, place: Place, now: Duration) {
        let Some((waiting, next)) = self.waiting.get_mut(&place) else {
            return;
        };
        let failures = self.failures.entry(place).or_insert(0);
        let wait = RETRY_FIRST * 2u32.saturating_pow((*failures).min(10));
        *failures += 1;
        let due = now.saturating_add(wait.min(RETRY_LAST));
        self.queue
            .remove(&(key_of(self.settings.order, waiting), place));
        self.later.insert((due, place));
        *next = Some(due);
    }

    /// Forgets an extent that need not drain.
    pub(super) fn remove(&mut self, place: Place) {
        self.failures.remove(&place);
        match self.waiting.remove(&place) {
            Some((_, Some(due))) => {
                self.later.remove(&(due, place));
            }
            Some((waiting, None)) => {
                let key = key_of(self.settings.order, &waiting);
                self.queue.remove(&(key, place));
            }
            None => {}
        }
    }

    /// The next extent to drain, which counts as running.
    pub(super) fn poll(&mut self, now: Duration) -> Option<Place> {
        while let Some((due, place)) = self.later.first().copied()
            && due <= now
        {
            self.later.remove(&(due, place));
            if let Some((waiting, due)) = self.waiting.get_mut(&place) {
                *due = None;
                let key = key_of(self.settings.order, waiting);
                self.queue.insert((key, place));
            }
        }
        if self.running >= self.settings.at_once || now < self.next_at {
            return None;
        }
        let (_, place) = self.queue.pop_first()?;
        let (waiting, _) = self.waiting.remove(&place)?;
        self.running += 1;
        if let Some(rate) = self.settings.rate {
            let nanos = u128::from(waiting.bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let from = self.next_at.max(now.saturating_sub(BURST));
            self.next_at = from.saturating_add(cost);
        }
        Some(place)
    }

    /// A running drain ended, well or not.
    pub(super) fn handle_end(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// When the next drain may begin, if one waits for its time.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.running >= self.settings.at_once {
            return None;
        }
        let ready = (!self.queue.is_empty()).then_some(Duration::ZERO);
        let later = self.later.first().map(|(due, _)| *due);
        Some(ready.or(later)?.max(self.next_at))
    }
}

fn key_of(order: Order, waiting: &Waiting) -> [u64; 3] {
    let since = u64::try_from(waiting.since.as_millis()).unwrap_or(u64::MAX);
    let file = u64::from(waiting.file.raw());
    match order {
        Order::Oldest => [since, file, waiting.offset],
        Order::ByFile => [file, waiting.offset, since],
        Order::SmallFiles => [waiting.file_bytes, file, waiting.offset],
    }
}
