//! The destinations of a hold: which are here, which keep up, and how much patience the others have with each.
//! Knows no blocks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{
    DESTINATIONS_MAX, Destination, LOW_EVERY_MOST, LOW_PART, PATIENCE_FIRST, PATIENCE_FOR_BEGIN,
    PATIENCE_MOST, PATIENCE_PART,
};

/// Patience below this is none: a wait of this length gains nothing.
const PATIENCE_LEAST: Duration = Duration::from_millis(20);

/// A lane without a request for this time does not count: its thread may have ended.
const LANE_LASTS: Duration = Duration::from_secs(2);

/// A set of destinations, one bit each.
pub(crate) type Mask = u64;

/// The mask of one destination; empty if there is no such one.
pub(crate) const fn bit(who: Destination) -> Mask {
    if who.0 < DESTINATIONS_MAX {
        1 << who.0
    } else {
        0
    }
}

#[derive(Debug, Default)]
struct One {
    patience: Duration,
    has_asked: bool,
    /// When it may read although others read, if it is behind.
    low_due: Duration,
    /// Its lanes: when each asked last, and whether it waits.
    lanes: BTreeMap<u64, (Duration, bool)>,
}

/// All destinations.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    ones: Vec<One>,
    here: Mask,
    current: Mask,
    settled: Duration,
}

impl Destinations {
    pub(crate) fn join(&mut self, now: Duration, who: Destination) {
        if who.0 >= DESTINATIONS_MAX {
            return;
        }
        if self.ones.len() <= who.0 {
            self.ones.resize_with(who.0 + 1, One::default);
        }
        self.ones[who.0] = One {
            patience: PATIENCE_FOR_BEGIN,
            has_asked: false,
            low_due: now,
            lanes: BTreeMap::new(),
        };
        self.here |= bit(who);
        self.current |= bit(who);
    }

    pub(crate) fn leave(&mut self, who: Destination) {
        self.here &= !bit(who);
        self.current &= !bit(who);
    }

    /// A lane asks. The first question ends the patience for the beginning.
    pub(crate) fn note_ask(&mut self, now: Duration, who: Destination, lane: u64) {
        if let Some(one) = self.ones.get_mut(who.0) {
            if !std::mem::replace(&mut one.has_asked, true) {
                one.patience = one.patience.min(PATIENCE_FIRST);
            }
            one.lanes
                .retain(|_, (asked, waits)| *waits || *asked + LANE_LASTS > now);
            one.lanes.insert(lane, (now, false));
        }
    }

    /// A lane waits, or continues.
    pub(crate) fn note_wait(&mut self, now: Duration, who: Destination, lane: u64, waits: bool) {
        if let Some(one) = self.ones.get_mut(who.0) {
            one.lanes.insert(lane, (now, waits));
        }
    }

    /// Whether all lanes of the destination wait, so that it sends nothing.
    pub(crate) fn is_held_up(&self, now: Duration, who: Destination) -> bool {
        self.ones.get(who.0).is_some_and(|one| {
            let mut lanes = one.lanes.values();
            lanes.all(|(asked, waits)| *waits || *asked + LANE_LASTS <= now)
        })
    }

    /// Adds the patience of the time since the last call, and takes that time from the destinations that held others up.
    pub(crate) fn settle(&mut self, now: Duration, awaited: Mask) {
        let passed = now.saturating_sub(self.settled);
        self.settled = self.settled.max(now);
        if passed.is_zero() {
            return;
        }
        for (number, one) in self.ones.iter_mut().enumerate() {
            if one.has_asked {
                let grown = one.patience + passed / PATIENCE_PART;
                one.patience = grown.min(PATIENCE_MOST.max(one.patience));
            }
            if awaited & bit(Destination(number)) != 0 {
                one.patience = one.patience.saturating_sub(passed);
            }
        }
    }

    pub(crate) const fn here(&self) -> Mask {
        self.here
    }

    pub(crate) const fn current(&self) -> Mask {
        self.current
    }

    pub(crate) const fn is_here(&self, who: Destination) -> bool {
        self.here & bit(who) != 0
    }

    pub(crate) const fn is_behind(&self, who: Destination) -> bool {
        self.here & !self.current & bit(who) != 0
    }

    /// Makes the destination current; whether it was behind.
    pub(crate) const fn make_current(&mut self, who: Destination) -> bool {
        let was_behind = self.is_behind(who);
        self.current |= self.here & bit(who);
        was_behind
    }

    pub(crate) const fn make_behind(&mut self, of: Mask) {
        self.current &= !of;
    }

    /// Makes all that are here current.
    pub(crate) const fn make_all_current(&mut self) {
        self.current = self.here;
    }

    /// The destinations of the mask with patience left, and the least patience of them.
    pub(crate) fn patient(&self, of: Mask) -> (Mask, Duration) {
        let (mut patient, mut least) = (0, Duration::MAX);
        for (number, one) in self.ones.iter().enumerate() {
            let own = bit(Destination(number));
            if of & own != 0 && one.patience >= PATIENCE_LEAST {
                patient |= own;
                least = least.min(one.patience);
            }
        }
        (patient, least)
    }

    /// When this destination may read, even while destinations that keep up are reading.
    pub(crate) fn low_due(&self, who: Destination) -> Duration {
        self.ones
            .get(who.0)
            .map_or(Duration::MAX, |one| one.low_due)
    }

    /// A read at low priority began.
    pub(crate) fn low_begins(&mut self, now: Duration, who: Destination) {
        if let Some(one) = self.ones.get_mut(who.0) {
            one.low_due = now + LOW_EVERY_MOST;
        }
    }

    /// A read at low priority took this time.
    pub(crate) fn low_ends(&mut self, now: Duration, who: Destination, took: Duration) {
        let sharing = (self.here & !self.current).count_ones().max(1);
        let rest = took.saturating_mul(LOW_PART.saturating_mul(sharing));
        if let Some(one) = self.ones.get_mut(who.0) {
            one.low_due = now + rest.min(LOW_EVERY_MOST);
        }
    }
}
