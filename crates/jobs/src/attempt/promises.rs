//! Owns the room that is promised to relays: the file system of each taker, and the bytes that may still arrive there.
//! Looks at no file system, and is lost with the node: a relay that runs again reserves its room again.
//! Lock order: the promises, then the table of running attempts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file system that relays fill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FileSystem {
    /// A file system of this node, by its device number.
    Device(u64),
    /// An export of a site. The site does not name the device.
    Export { site: String, export: String },
}

/// The room for one taker.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) at: FileSystem,
    /// Bytes of all files, and what the file system needs besides.
    pub(crate) bytes: u64,
    /// Bytes that earlier relays have brought.
    pub(crate) arrived: u64,
    /// The relay that brings data now.
    pub(crate) relay: String,
}

impl Promise {
    /// Bytes that may still arrive, of which the relay has brought `now`.
    const fn left(&self, now: u64) -> u64 {
        self.bytes.saturating_sub(self.arrived).saturating_sub(now)
    }
}

/// The promises of this node, by the jobs of the takers.
#[derive(Default)]
pub(crate) struct Promises(Mutex<HashMap<String, Promise>>);

impl Promises {
    /// Reserves the room for a taker, and replaces its earlier promise. `free` are the free bytes there, if they count; `jobs` are those that
    /// running jobs still need. `brought` says what a running relay has brought so far.
    ///
    /// # Errors
    /// Too little is free. The number of bytes that others need.
    pub(crate) fn reserve(
        &self,
        taker: &str,
        new: Promise,
        (free, jobs): (Option<u64>, u64),
        brought: &dyn Fn(&str) -> u64,
    ) -> Result<(), u64> {
        let mut all = self.lock();
        let others = all
            .iter()
            .filter(|(id, one)| *id != taker && one.at == new.at)
            .map(|(_, one)| one.left(brought(&one.relay)))
            .fold(jobs, u64::saturating_add);
        let needed = new.left(0).saturating_add(others);
        if free.is_some_and(|free| free < needed) {
            return Err(others);
        }
        all.insert(taker.to_owned(), new);
        Ok(())
    }

    /// A relay has ended, and has brought these bytes. The taker keeps the rest of its room if another relay is to follow.
    pub(crate) fn ended(&self, taker: &str, brought: u64, is_last: bool) {
        let mut all = self.lock();
        if is_last {
            all.remove(taker);
        } else if let Some(one) = all.get_mut(taker) {
            one.arrived = one.arrived.saturating_add(brought);
            // Its progress counts no longer.
            one.relay.clear();
        }
    }

    /// The takers with a promise.
    pub(crate) fn takers(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// The taker gets no data by relays any more.
    pub(crate) fn release(&self, taker: &str) {
        self.lock().remove(taker);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Promise>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(device: u64, bytes: u64, relay: &str) -> Promise {
        Promise {
            at: FileSystem::Device(device),
            bytes,
            arrived: 0,
            relay: relay.to_owned(),
        }
    }

    #[test]
    fn a_relay_begins_only_with_room_that_no_other_one_was_promised() {
        let promises = Promises::default();
        let none = |_: &str| 0;
        let reserve =
            |taker: &str, new: Promise, free| promises.reserve(taker, new, (free, 0), &none);
        assert_eq!(reserve("c", promise(1, 100, "r1"), Some(99)), Err(0));
        assert_eq!(reserve("c", promise(1, 100, "r1"), Some(150)), Ok(()));
        assert_eq!(reserve("d", promise(1, 100, "r2"), Some(150)), Err(100));
        // Another file system.
        assert_eq!(reserve("d", promise(2, 100, "r2"), Some(150)), Ok(()));
        // Its own promise is no obstacle, and one whose free room is unknown is kept too.
        assert_eq!(reserve("c", promise(1, 100, "r3"), None), Ok(()));
        assert_eq!(reserve("e", promise(1, 50, "r4"), Some(149)), Err(100));
        // Bytes that have arrived take room from the free bytes, and none from the promise.
        let brought = |relay: &str| if relay == "r3" { 60 } else { 0 };
        let small = promises.reserve("e", promise(1, 50, "r4"), (Some(90), 1), &brought);
        assert_eq!(small, Err(41), "another job needs a byte");
        let small = promises.reserve("e", promise(1, 50, "r4"), (Some(90), 0), &brought);
        assert_eq!(small, Ok(()));
        promises.ended("c", 60, false);
        assert_eq!(reserve("f", promise(1, 10, "r5"), Some(99)), Err(90));
        promises.ended("c", 40, true);
        assert_eq!(reserve("f", promise(1, 10, "r5"), Some(99)), Ok(()));
        promises.release("f");
        let mut takers = promises.takers();
        takers.sort();
        assert_eq!(takers, ["d", "e"]);
    }
}
