//! Lets requests of one owner take turns between reading the owner's count and the change that adds to it.
//! Knows no bound: the caller looks and changes while it has the turn.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The owners that have a turn now.
#[derive(Default)]
pub(crate) struct Turns {
    busy: Mutex<HashSet<String>>,
    ended: Condvar,
}

/// The turn of one owner, until this is dropped.
pub struct Turn<'a> {
    turns: &'a Turns,
    owner: String,
}

impl Turns {
    /// Waits until no other request of the owner has a turn.
    pub(crate) fn take(&self, owner: String) -> Turn<'_> {
        let mut busy = self.lock();
        while busy.contains(&owner) {
            let waited = self.ended.wait(busy);
            busy = waited.unwrap_or_else(PoisonError::into_inner);
        }
        busy.insert(owner.clone());
        Turn { turns: self, owner }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.owner);
        self.turns.ended.notify_all();
    }
}
