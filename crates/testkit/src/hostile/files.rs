//! Owns the open files and scans of a hostile storage: their operations are counted, fail and are cached like all
//! others. Does not decide which operations fail.

use super::Shared;
use super::cache::Dirty;
use super::faults::{Operation, failed};
use godwit_store::error::StoreError;
use godwit_store::extended::Lost;
use godwit_store::meta::{FinalMeta, Kind, Meta};
use godwit_store::path::{RelPath, TempName};
use godwit_store::storage::{ReadFile, Scan, ScanItem, WriteFile};
use std::ops::Range;
use std::sync::Arc;

/// A file that is read; it has the data that its writer had cached when it was opened.
pub(super) struct HostileRead {
    pub(super) file: Box<dyn ReadFile>,
    pub(super) dirty: Option<Dirty>,
    pub(super) shared: Arc<Shared>,
    pub(super) path: RelPath,
}

impl ReadFile for HostileRead {
    fn meta(&self) -> Result<Meta, StoreError> {
        let below = self.file.meta()?;
        Ok(self.dirty.as_ref().map_or(below, |dirty| dirty.meta(below)))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        drop(self.shared.enter(Operation::Read, &self.path)?);
        let Some(dirty) = &self.dirty else {
            return self.file.read_at(offset, buffer);
        };
        let left = self.meta()?.bytes.saturating_sub(offset);
        let bytes = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..bytes];
        buffer.fill(0);
        self.file.read_at(offset, buffer)?;
        dirty.overlay(offset, buffer);
        Ok(bytes)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, StoreError> {
        let below = self.file.next_data(offset)?;
        Ok(match &self.dirty {
            Some(dirty) => dirty.next_data(offset, below),
            None => below,
        })
    }

    fn drop_cache(&self) {
        self.file.drop_cache();
    }
}

/// A temporary file that is written.
pub(super) struct HostileWrite {
    pub(super) file: Box<dyn WriteFile>,
    pub(super) shared: Arc<Shared>,
    pub(super) path: RelPath,
    pub(super) temp: TempName,
}

impl WriteFile for HostileWrite {
    fn preallocate(&self, range: Range<u64>) -> Result<(), StoreError> {
        drop(self.shared.enter(Operation::Preallocate, &self.path)?);
        self.file.preallocate(range)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let (mut state, fails) = self.shared.decide(Operation::Write, &self.path);
        let (bytes, fails) = state.cut(data.len(), fails);
        let written = &data[..bytes];
        if written.is_empty() && fails.is_some() {
            // Nothing is written to the file.
        } else if state.caches() {
            state.cache.write(&self.path, &self.temp, offset, written);
        } else {
            drop(state);
            self.file.write_at(offset, written)?;
        }
        fails.map_or(Ok(()), |kind| {
            Err(failed(Operation::Write, &self.path, kind))
        })
    }

    fn write_out(&self, range: Range<u64>) {
        self.file.write_out(range);
    }

    fn finish(&self, bytes: u64, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let mut state = self.shared.enter(Operation::Finish, &self.path)?;
        if state.caches() {
            state.cache.finish(&self.path, &self.temp, bytes, meta);
            return Ok(Lost::NOTHING);
        }
        drop(state);
        self.file.finish(bytes, meta)
    }
}

/// A scan in which any regular file may be unreadable.
pub(super) struct HostileScan {
    pub(super) scan: Box<dyn Scan>,
    pub(super) shared: Arc<Shared>,
}

impl Scan for HostileScan {
    fn next_batch(&mut self, out: &mut Vec<ScanItem>) -> bool {
        let start = out.len();
        let more = self.scan.next_batch(out);
        for item in &mut out[start..] {
            let fault = match item {
                ScanItem::Entry(entry) if entry.meta.kind == Kind::File => {
                    self.shared.enter(Operation::Scan, &entry.path).err()
                }
                _ => None,
            };
            if let Some(error) = fault {
                *item = ScanItem::Fault(error);
            }
        }
        more
    }
}
