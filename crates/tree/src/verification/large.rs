//! A large file that several threads read at once, in windows; the thread that reads the last window compares the file.
//! Compares only the digest of the whole file.

use std::sync::{Arc, Mutex};

use godwit_engine::lock;
use godwit_proto::{Fault, FaultCode};
use godwit_store::digest::{self, Digest, DigestKind, FileDigest};
use godwit_store::{Meta, ReadFile, StoreError};

use super::{CHUNK_BYTES, Finding, Job, Shared};

/// Bytes that a thread reads of a file before it looks for other work.
const WINDOW_BYTES: u64 = 8 * CHUNK_BYTES as u64;

pub(super) struct LargeFile {
    pub(super) job: Arc<Job>,
    pub(super) index: usize,
    file: Box<dyn ReadFile>,
    before: Meta,
    kind: DigestKind,
    /// Differences found besides the contents.
    differs: Option<Fault>,
    expected: Option<Digest>,
    progress: Mutex<Progress>,
}

struct Progress {
    next: u64,
    reading: usize,
    digest: FileDigest,
    fault: Option<Fault>,
    judged: bool,
}

impl LargeFile {
    pub(super) fn new(
        job: Arc<Job>,
        index: usize,
        file: Box<dyn ReadFile>,
        before: Meta,
        kind: DigestKind,
        expected: Option<Digest>,
        differs: Option<Fault>,
    ) -> Self {
        Self {
            job,
            index,
            file,
            before,
            kind,
            differs,
            expected,
            progress: Mutex::new(Progress {
                next: 0,
                reading: 0,
                digest: FileDigest::new(kind),
                fault: None,
                judged: false,
            }),
        }
    }

    /// Offset of the next window; `None` when there is none left.
    pub(super) fn take_window(&self) -> Option<u64> {
        let mut progress = lock(&self.progress);
        if progress.fault.is_some() || progress.next >= self.before.bytes {
            return None;
        }
        let offset = progress.next;
        progress.next += WINDOW_BYTES;
        progress.reading += 1;
        Some(offset)
    }

    /// Digests of the chunks of a window, without chunks that are holes.
    fn read(&self, window: u64, buffer: &mut [u8]) -> Result<Vec<(u64, u64, Digest)>, StoreError> {
        let bytes = self.before.bytes;
        let end = (window + WINDOW_BYTES).min(bytes);
        let mut chunks = Vec::with_capacity(8);
        let mut offset = window;
        while offset < end {
            if self.before.sparse {
                let chunk = CHUNK_BYTES as u64;
                match self.file.next_data(offset)? {
                    Some(data) if data.start < end => {
                        offset = offset.max(data.start - data.start % chunk);
                    }
                    Some(data) => {
                        self.skip_to(data.start - data.start % WINDOW_BYTES);
                        break;
                    }
                    None => {
                        self.skip_to(bytes);
                        break;
                    }
                }
            }
            let length = usize::try_from(end - offset)
                .unwrap_or(CHUNK_BYTES)
                .min(CHUNK_BYTES);
            let read = self.file.read_at(offset, &mut buffer[..length])?;
            if read < length {
                // The file became shorter; the check of its metadata afterwards finds that.
                break;
            }
            let digest = digest::digest_slice(self.kind, offset, bytes, &buffer[..length]);
            chunks.push((offset, length as u64, digest));
            offset += length as u64;
        }
        Ok(chunks)
    }

    /// Records that only a hole precedes `offset`.
    fn skip_to(&self, offset: u64) {
        let mut progress = lock(&self.progress);
        progress.next = progress.next.max(offset);
    }

    fn judge(&self, digest: &FileDigest, fault: Option<Fault>) -> Finding {
        if let Some(fault) = fault.or_else(|| self.changed()) {
            return Finding::Different(fault);
        }
        let record = &self.job.records[self.index];
        let found = digest.finish(self.before.bytes);
        super::entry::judge_content(record.id, found, self.expected, self.differs.clone())
    }

    fn changed(&self) -> Option<Fault> {
        let id = self.job.records[self.index].id;
        match self.file.meta() {
            Ok(after) if after.generation() == self.before.generation() => None,
            Ok(_) => Some(super::entry::fault(
                id,
                FaultCode::CHANGED,
                "it changed while it was read".to_owned(),
            )),
            Err(error) => Some(super::entry::store_fault(id, &error)),
        }
    }
}

impl Shared {
    pub(super) fn check_window(&self, large: &LargeFile, window: u64, buffer: &mut [u8]) {
        let read = large.read(window, buffer);
        let mut progress = lock(&large.progress);
        progress.reading -= 1;
        match read {
            Ok(chunks) => {
                for (offset, bytes, digest) in chunks {
                    self.counters.bytes_read.add(bytes);
                    progress.digest.add(offset, bytes, digest);
                }
            }
            Err(error) => {
                let id = large.job.records[large.index].id;
                progress
                    .fault
                    .get_or_insert_with(|| super::entry::store_fault(id, &error));
            }
        }
        let over = progress.fault.is_some() || progress.next >= large.before.bytes;
        if progress.reading > 0 || !over || std::mem::replace(&mut progress.judged, true) {
            return;
        }
        let digest = std::mem::replace(&mut progress.digest, FileDigest::new(large.kind));
        let fault = progress.fault.take();
        // After a fault of any kind, the file is read no further.
        progress.next = u64::MAX;
        drop(progress);
        let finding = large.judge(&digest, fault);
        self.file(&large.job, large.index, finding);
    }
}
