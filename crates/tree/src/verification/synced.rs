//! Makes checked batches durable: syncs each file system that had files of the batch before the batch is reported.
//! Compares nothing.

use std::collections::BTreeMap;

use godwit_engine::lock;
use godwit_store::{StoreError, StoreErrorKind};

use super::entry::store_fault;
use super::{Finding, Job, Shared};

impl Shared {
    /// Remembers on which device a file is that was read.
    pub(super) fn note_device(&self, job: &Job, index: usize, device: u64) {
        if self.config.durable {
            lock(&job.progress).devices.insert(device, index);
        }
    }

    /// Syncs the file systems of a batch. If one cannot be synced, no file of the batch counts as expected.
    pub(super) fn sync(&self, job: &Job, devices: &BTreeMap<u64, usize>, findings: &mut [Finding]) {
        let synced = devices
            .values()
            .try_for_each(|index| self.sync_around(job, *index));
        let Err(error) = synced else {
            return;
        };
        for (record, finding) in job.records.iter().zip(findings) {
            if matches!(finding, Finding::Same(_)) {
                *finding = Finding::Different(store_fault(record.id, &error));
            }
        }
    }

    /// Syncs the file system of one file: its contents, its name, and the directories above.
    fn sync_around(&self, job: &Job, index: usize) -> Result<(), StoreError> {
        let record = job.records.get(index);
        let found = record.and_then(|record| {
            let root = self.config.roots.get(usize::from(record.root))?;
            Some((root, root.path(&record.path)?))
        });
        let Some((root, path)) = found else {
            return Ok(());
        };
        let file = root.storage.open(&path)?;
        let handle = file
            .handle()
            .ok_or_else(|| StoreError::new("make durable", &path, StoreErrorKind::Unsupported))?;
        rustix::fs::syncfs(handle)
            .map_err(|errno| StoreError::from_errno("make durable", &path, errno))
    }
}
