//! Owns the numbers of requested entries whose names need care: the name is taken, or waits for a directory to be removed. Does not assign
//! names (`commit`).
//!
//! An entry leaves when it has its name or has failed. A correct sender keeps the number of entries within its windows. A sender that has
//! entries requested and never sends them is stopped before their numbers take all memory.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_engine::{SinkFailure, lock};
use godwit_proto::{EntryId, Fault, FaultCode};

use crate::files::target::destination_fault;

/// Requested entries that have neither arrived nor failed.
pub(crate) struct Awaited {
    entries: Mutex<HashSet<EntryId>>,
    entries_max: usize,
    is_overrun: AtomicBool,
}

impl Awaited {
    /// An empty set with room for this many entries. [`godwit_engine::limits::AWAITED_ENTRIES_MAX`] is enough for a correct
    /// sender.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: Mutex::default(),
            entries_max,
            is_overrun: AtomicBool::new(false),
        }
    }

    /// Adds an entry that is being requested.
    ///
    /// # Errors
    /// There are too many: the sender broke the protocol, and the transfer ends with [`Awaited::failure`].
    pub(crate) fn expect(&self, id: EntryId) -> Result<(), Fault> {
        let mut entries = lock(&self.entries);
        if entries.len() < self.entries_max || entries.contains(&id) {
            entries.insert(id);
            return Ok(());
        }
        self.is_overrun.store(true, Ordering::Relaxed);
        let message = self.too_many();
        Err(destination_fault(id, FaultCode::LIMIT, message))
    }

    /// Adds entries that have arrived and are requested again. They were within the sender's windows.
    pub(crate) fn expect_again(&self, ids: impl IntoIterator<Item = EntryId>) {
        lock(&self.entries).extend(ids);
    }

    pub(crate) fn contains(&self, id: EntryId) -> bool {
        lock(&self.entries).contains(&id)
    }

    /// Removes an entry; returns whether it was there.
    pub(crate) fn take(&self, id: EntryId) -> bool {
        lock(&self.entries).remove(&id)
    }

    /// Removes entries that have their names or have failed.
    pub(crate) fn settle(&self, ids: impl IntoIterator<Item = EntryId>) {
        let mut entries = lock(&self.entries);
        if !entries.is_empty() {
            for id in ids {
                entries.remove(&id);
            }
        }
    }

    /// The reason why the transfer must end, once there were too many entries.
    pub(crate) fn failure(&self) -> Option<SinkFailure> {
        let is_overrun = self.is_overrun.load(Ordering::Relaxed);
        is_overrun.then(|| SinkFailure::Protocol(self.too_many()))
    }

    fn too_many(&self) -> String {
        format!(
            "the sender broke the protocol: more than {} entries were requested and have not arrived",
            self.entries_max
        )
    }
}
