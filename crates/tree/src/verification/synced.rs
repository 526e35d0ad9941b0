//! Makes checked batches durable: holds them, and syncs the file systems of their files before it reports them.
//! Compares nothing.
//!
//! A client chooses the size of its batches, so a sync for each batch would flush a shared file system without end. One sync serves all
//! batches that were checked before it began. Between two syncs of a verification there is a pause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use godwit_engine::lock;
use godwit_store::{ReadFile, RelPath, StoreError, StoreErrorKind};
use rustix::io::Errno;

use super::entry::store_fault;
use super::{Checked, Finding, Job, Shared};

/// Pause between the end of a sync and the begin of the next one.
const SYNC_EVERY: Duration = Duration::from_secs(2);

/// A batch that was checked.
pub(super) struct Batch {
    pub(super) checked: Checked,
    /// Memory of the records.
    pub(super) bytes: usize,
    /// A file of each file system with read files, by the number of its device.
    pub(super) devices: BTreeMap<u64, usize>,
}

/// Batches that wait for a sync.
#[derive(Default)]
pub(super) struct Held {
    batches: Vec<Batch>,
    is_syncing: bool,
    /// The end of the latest sync.
    synced: Option<Instant>,
}

impl Held {
    pub(super) fn add(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// Time until the next sync; None while nothing waits for one, or one runs.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        if self.batches.is_empty() || self.is_syncing {
            return None;
        }
        let passed = self.synced.map(|at| now.saturating_duration_since(at));
        Some(passed.map_or(Duration::ZERO, |passed| SYNC_EVERY.saturating_sub(passed)))
    }

    /// The batches of a sync that is due and begins now. Call [`Held::end`] after it.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Vec<Batch>> {
        if !self.pause(now)?.is_zero() {
            return None;
        }
        self.is_syncing = true;
        Some(std::mem::take(&mut self.batches))
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.is_syncing = false;
        self.synced = Some(now);
    }
}

/// Opens a file of a batch, by its index.
type OpenFile<'a> = &'a dyn Fn(&Batch, usize) -> Result<Box<dyn ReadFile>, StoreError>;

/// Syncs the file system of an open file.
type SyncFile<'a> = &'a dyn Fn(&dyn ReadFile) -> Result<(), Errno>;

/// Syncs each file system once. If one cannot be synced, no file of its batches counts as expected.
fn sync_all(batches: &mut [Batch], open: OpenFile<'_>, sync: SyncFile<'_>) {
    let mut ends: BTreeMap<u64, Result<(), Errno>> = BTreeMap::new();
    for batch in batches {
        let read: &Batch = batch;
        let synced = read.devices.iter().try_for_each(|(device, index)| {
            let error = |errno: Errno| {
                let record = read.checked.records.get(*index);
                let path = record.and_then(|record| RelPath::parse(&record.path).ok());
                StoreError::from_errno("make durable", &path.unwrap_or_default(), errno)
            };
            if let Some(end) = ends.get(device) {
                return (*end).map_err(error);
            }
            let file = open(read, *index)?;
            // Another file system may be mounted there meanwhile.
            let meta = file.meta()?;
            if meta.device != *device {
                return Err(error(Errno::STALE));
            }
            let end = sync(&*file);
            ends.insert(*device, end);
            end.map_err(error)
        });
        if let Err(error) = synced {
            let Checked {
                records, findings, ..
            } = &mut batch.checked;
            for (record, finding) in records.iter().zip(findings) {
                if matches!(finding, Finding::Same(_)) {
                    *finding = Finding::Different(store_fault(record.id, &error));
                }
            }
        }
    }
}

/// Syncs the file system of one file: its contents, its name, and the directories above.
fn sync_around(file: &dyn ReadFile) -> Result<(), Errno> {
    rustix::fs::syncfs(file.handle().ok_or(Errno::OPNOTSUPP)?)
}

impl Shared {
    /// Remembers on which device a file is that was read.
    pub(super) fn note_device(&self, job: &Job, index: usize, device: u64) {
        if self.config.durable {
            lock(&job.progress).devices.insert(device, index);
        }
    }

    /// Syncs the file systems of these batches, and reports the batches. The sync begins after all their files were read.
    pub(super) fn sync(&self, mut batches: Vec<Batch>) {
        let open = |batch: &Batch, index: usize| {
            let found = batch.checked.records.get(index).and_then(|record| {
                let root = self.config.roots.get(usize::from(record.root))?;
                Some((root, root.path(&record.path)?))
            });
            let Some((root, path)) = found else {
                let kind = StoreErrorKind::NotFound;
                return Err(StoreError::new("open", &RelPath::root(), kind));
            };
            root.storage.open(&path)
        };
        sync_all(&mut batches, &open, &sync_around);
        lock(&self.state).held.end(Instant::now());
        // A thread that waits has not counted on the pause that begins now.
        self.changed.notify_all();
        for batch in batches {
            self.report(batch);
        }
    }
}

#[cfg(test)]
mod tests;
