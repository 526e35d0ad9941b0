//! Compares one entry with its expectation: type, size, mode, time, target, contents. Does not
//! schedule work; files too large for one buffer go to `large`.

use std::sync::Arc;

use godwit_engine::entry as wire;
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Record, Side};
use godwit_store::digest::{self, Digest};
use godwit_store::times::{self, Kept};
use godwit_store::{Kind, Meta, RelPath, Storage, StoreError, Timestamp};

use super::large::LargeFile;
use super::{Finding, Job, Shared};

impl Shared {
    pub(super) fn check_entry(&self, job: &Arc<Job>, index: usize, buffer: &mut [u8]) {
        if let Some(finding) = self.look_at(job, index, buffer) {
            self.file(job, index, finding);
        }
    }

    /// `None` for a large file, which other tasks finish.
    fn look_at(&self, job: &Arc<Job>, index: usize, buffer: &mut [u8]) -> Option<Finding> {
        let record = &job.records[index];
        let place = self.config.roots.get(usize::from(record.root));
        let Some((storage, path)) =
            place.and_then(|root| Some((&*root.storage, root.path(&record.path)?)))
        else {
            let message = "its name cannot be one of an entry here".to_owned();
            return Some(Finding::Different(fault(
                record.id,
                FaultCode::NAME,
                message,
            )));
        };
        // A file that waits for slow storage is in its place once it is open, so the look comes afterwards.
        let is_large = record.kind == EntryKind::FILE && record.bytes > buffer.len() as u64;
        let open = || {
            let file = storage.open(&path)?;
            Ok((file.meta()?, file))
        };
        let opened: Option<Result<_, StoreError>> = is_large.then(open);
        let found = self.examine(storage, &path, record);
        let (meta, differs) = match found {
            Ok(found) => found,
            Err(fault) => return Some(Finding::Different(fault)),
        };
        if record.kind != EntryKind::FILE || stops(differs.as_ref()) {
            return Some(differs.map_or(Finding::Same(None), Finding::Different));
        }
        let expected = record.digest.as_ref().map(wire::digest_to_store);
        if let Some(opened) = opened {
            return match opened {
                Ok((opened, _)) if opened.generation() != meta.generation() => {
                    let message = "it changed while it was looked at".to_owned();
                    let changed = fault(record.id, FaultCode::CHANGED, message);
                    Some(Finding::Different(changed))
                }
                Ok((meta, file)) => {
                    let kind = self.config.digest;
                    self.note_device(job, index, meta.device);
                    let job = Arc::clone(job);
                    self.share(LargeFile::new(
                        job, index, file, meta, kind, expected, differs,
                    ));
                    None
                }
                Err(error) => Some(Finding::Different(store_fault(record.id, &error))),
            };
        }
        Some(match storage.read_whole(&path, buffer) {
            Ok((meta, bytes)) => {
                self.note_device(job, index, meta.device);
                self.counters.bytes_read.add(bytes as u64);
                let found =
                    digest::digest_slice(self.config.digest, 0, bytes as u64, &buffer[..bytes]);
                judge_content(record.id, found, expected, differs)
            }
            Err(error) => Finding::Different(store_fault(record.id, &error)),
        })
    }

    /// Looks at the entry and compares everything except its contents.
    fn examine(
        &self,
        storage: &dyn Storage,
        path: &RelPath,
        record: &Record,
    ) -> Result<(Meta, Option<Fault>), Fault> {
        let failed = |error: StoreError| store_fault(record.id, &error);
        let Some(meta) = storage.stat(path).map_err(failed)? else {
            let message = "the copy has no such entry".to_owned();
            return Err(fault(record.id, FaultCode::NOT_FOUND, message));
        };
        let expected = kind_of(record.kind);
        if expected != Some(meta.kind) {
            let message = format!(
                "it is a {}, and should be a {}",
                meta.kind.name(),
                expected.map_or("thing unknown here", Kind::name)
            );
            return Err(fault(record.id, FaultCode::TYPE_CONFLICT, message));
        }
        if record.kind == EntryKind::FILE && meta.bytes != record.bytes {
            let message = format!(
                "it has {} bytes, and should have {}",
                meta.bytes, record.bytes
            );
            return Ok((meta, Some(fault(record.id, FaultCode::SIZE, message))));
        }
        let mut differences = Vec::new();
        match record.kind {
            EntryKind::SYMLINK => {
                let target = storage.read_link(path).map_err(failed)?;
                if target != record.target {
                    differences.push(format!(
                        "it points to {}, and should to {}",
                        target.escape_ascii(),
                        record.target.escape_ascii()
                    ));
                }
            }
            EntryKind::HARD_LINK => {
                let first = self
                    .config
                    .roots
                    .get(usize::from(record.root))
                    .and_then(|root| root.path(&record.target));
                let first = match first {
                    Some(first) => storage.stat(&first).map_err(failed)?,
                    None => None,
                };
                let same = first
                    .is_some_and(|first| (first.inode, first.device) == (meta.inode, meta.device));
                if !same {
                    differences.push(format!(
                        "it is not the same file as {}",
                        record.target.escape_ascii()
                    ));
                }
            }
            _ => {}
        }
        // The user that created the requested directory chose its mode; a link's mode has no
        // meaning.
        let is_storage_root = path.as_bytes().is_empty();
        if !self.config.contents_only && !is_storage_root && record.kind != EntryKind::HARD_LINK {
            if record.kind != EntryKind::SYMLINK && meta.mode != record.mode & 0o7777 {
                differences.push(format!(
                    "its mode is {:04o}, and should be {:04o}",
                    meta.mode,
                    record.mode & 0o7777
                ));
            }
            let mtime = Timestamp {
                seconds: record.mtime_seconds,
                nanoseconds: record.mtime_nanoseconds,
            };
            let is_touched = meta.kind == Kind::Directory
                && self.config.touched == Some((meta.device, meta.inode));
            // The contents are compared in any case.
            if times::kept(meta.mtime, mtime) == Kept::Otherwise && !is_touched {
                differences.push(format!(
                    "its time is {}, and should be {}",
                    meta.mtime.utc(),
                    mtime.utc()
                ));
            }
        }
        let differs = (!differences.is_empty()).then(|| {
            let message = differences.join("; ");
            fault(record.id, FaultCode::METADATA, message)
        });
        Ok((meta, differs))
    }
}

/// If the size differs, reading is pointless.
fn stops(differs: Option<&Fault>) -> bool {
    differs.is_some_and(|fault| fault.code == FaultCode::SIZE)
}

pub(super) fn judge_content(
    id: EntryId,
    found: Digest,
    expected: Option<Digest>,
    differs: Option<Fault>,
) -> Finding {
    if expected.is_some_and(|expected| expected != found) {
        let mut message = "its contents differ".to_owned();
        if let Some(also) = differs {
            message = format!("{message}; {}", also.message);
        }
        return Finding::Different(fault(id, FaultCode::DIGEST, message));
    }
    differs.map_or(Finding::Same(Some(found)), Finding::Different)
}

pub(super) fn fault(entry: EntryId, code: FaultCode, message: String) -> Fault {
    Fault {
        entry,
        side: Side::DESTINATION,
        code,
        errno: None,
        message,
    }
}

pub(super) fn store_fault(entry: EntryId, error: &StoreError) -> Fault {
    wire::fault(entry, Side::DESTINATION, error)
}

fn kind_of(kind: EntryKind) -> Option<Kind> {
    Some(match kind {
        // An additional name of a file is also a file.
        EntryKind::FILE | EntryKind::HARD_LINK => Kind::File,
        EntryKind::DIRECTORY => Kind::Directory,
        EntryKind::SYMLINK => Kind::Symlink,
        EntryKind(5) => Kind::Fifo,
        EntryKind(6) => Kind::Socket,
        EntryKind(7) => Kind::CharDevice,
        EntryKind(8) => Kind::BlockDevice,
        _ => return None,
    })
}
