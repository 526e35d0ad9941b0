//! Receiving nodes that share one storage, each through its own cache, and the acknowledgements that a sending end
//! gets. Runs no transfer.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use godwit_engine::{FailedEntry, Fence, Observer, lock};
use godwit_proto::{EntryId, Record};
use godwit_store::StoreErrorKind;
use godwit_testkit::{Faults, HostileStorage, MemoryStorage, Operation, Rule, When};

use super::support::Random;

#[derive(Default)]
pub(crate) struct Claim(AtomicBool);

impl Claim {
    pub(crate) fn end(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Fence for Claim {
    fn holds(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

/// A receiving node: its view of the shared storage, and its state on a private disk.
pub(crate) struct Node {
    pub(crate) storage: HostileStorage,
    pub(crate) journals: tempfile::TempDir,
    pub(crate) claim: Arc<Claim>,
    pub(crate) epoch: u64,
}

impl Node {
    pub(crate) fn new(inner: &MemoryStorage, faults: Faults) -> Self {
        Self {
            storage: HostileStorage::new(Arc::new(inner.clone()), faults),
            journals: tempfile::tempdir().unwrap(),
            claim: Arc::default(),
            epoch: 1,
        }
    }

    /// Restarts the node, or sets its claim again; unsynced data is lost.
    pub(crate) fn restart(
        &mut self,
        inner: &MemoryStorage,
        mut faults: Faults,
        random: &mut Random,
    ) {
        self.storage.crash();
        self.claim = Arc::default();
        self.epoch += 1;
        if random.below(3) == 0 {
            // The node stops in the middle of an operation.
            let (claim, left) = (Arc::clone(&self.claim), AtomicU64::new(random.below(60)));
            faults.hook = Some(Arc::new(move |_, _| {
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    claim.end();
                }
            }));
        }
        self.storage = HostileStorage::new(Arc::new(inner.clone()), faults);
    }
}

/// Acknowledgements that the sending end received for its items.
#[derive(Default)]
pub(crate) struct Items {
    numbers: Mutex<HashMap<EntryId, usize>>,
    pub(crate) done: Mutex<BTreeMap<usize, Option<godwit_proto::Digest>>>,
    pub(crate) said: Mutex<Vec<String>>,
}

impl Observer for Items {
    fn entry_failed(&self, failed: &FailedEntry<'_>) {
        lock(&self.said).push(failed.fault.message.clone());
        if let Some(number) = lock(&self.numbers).get(&failed.fault.entry) {
            lock(&self.done).remove(number);
        }
    }

    fn wants_entries(&self) -> bool {
        true
    }

    fn entry_done(&self, record: &Record) {
        if let Some(number) = lock(&self.numbers).get(&record.id) {
            lock(&self.done).insert(*number, record.digest);
        }
    }

    fn portion_announced(&self, record: &Record) {
        let mut numbers = lock(&self.numbers);
        let number = numbers.len();
        numbers.insert(record.id, number);
    }
}

/// Chooses one kind of failure.
pub(crate) fn faults(random: &mut Random) -> Faults {
    let mut faults = Faults::new(random.below(u64::MAX));
    (faults.writer_cache, faults.names_at_once) = (true, true);
    let mut rule = |operation, chance, error| {
        faults.rules.push(Rule {
            operation,
            when: When::Chance(chance),
            error,
        });
    };
    match random.below(8) {
        0 => rule(Operation::SyncBatch, 300_000, StoreErrorKind::Io),
        1 => rule(Operation::Write, 30_000, StoreErrorKind::Io),
        2 => rule(Operation::Commit, 300_000, StoreErrorKind::Io),
        3 => rule(Operation::Create, 200_000, StoreErrorKind::Io),
        4 | 5 => faults.crash_after = Some(random.below(60)),
        _ => rule(Operation::SyncDirectories, 200_000, StoreErrorKind::Io),
    }
    faults
}
