//! Compares announced entries with the destination, makes directories, and does at the end what had to wait.
//! Writes no file contents; what has none is made elsewhere (`at_once`).

use std::sync::atomic::Ordering;

use godwit_proto::{
    EntryKind, Fault, FaultCode, HeldRange, Record, RecordFlags, Seq, Side, UNKNOWN_BYTES, Verdict,
};
use godwit_store::digest::FileDigest;
use godwit_store::journal::PathKey;
use godwit_store::{Kind, Look, Lost, RelPath, StoreError, StoreErrorKind, TempName};

use super::compare::Judgement;
use super::later::{decode_directory, encode_directory};
use super::sink::{TreeSink, destination_fault};
use super::spelling::LastDirectory;
use super::undelivered::Undelivered;
use crate::{entry, limits, lock};

/// Directories made by this transfer that are remembered; beyond it they are forgotten and looked at again.
const FRESH_MAX: usize = 64 * 1024;

/// Without one of these even its owner cannot work in a directory.
const OWNER_BITS: u32 = 0o700;

/// Directories that are made durable in one call.
const SYNC_AT_ONCE: usize = 4096;

impl TreeSink {
    /// `look` looks at what is there, `path` is memory for the path of the entry, and `last` for what is known of its directory.
    pub(super) fn plan_one(
        &self,
        record: &Record,
        look: &mut dyn Look,
        path: &mut RelPath,
        last: &mut LastDirectory,
    ) -> Verdict {
        if record.flags & RecordFlags::PASSED_OVER != 0 {
            self.pass_over(record);
            return Verdict::Done;
        }
        let planned =
            self.map_in(record.root, &record.path, path)
                .and_then(|()| match record.kind {
                    EntryKind::DIRECTORY => self.plan_directory(record, path, last),
                    EntryKind::SYMLINK => self.plan_at_once(record, path, last),
                    EntryKind::HARD_LINK => self.plan_link(record, path, last),
                    EntryKind::FILE => self.plan_file(record, path, look, last),
                    kind if kind.is_special() => self.plan_special(record, path, last),
                    other => Err(destination_fault(
                        record.id,
                        FaultCode::UNSUPPORTED,
                        format!("this version does not know entries of kind {}", other.0),
                    )),
                });
        planned.unwrap_or_else(|mut fault| {
            fault.entry = record.id;
            self.note_undelivered(record, Undelivered::Failed);
            self.keep_held(record);
            Verdict::Failed(fault)
        })
    }

    /// What an earlier run has brought of a file that is not asked for now is kept for the next one.
    fn keep_held(&self, record: &Record) {
        let key = PathKey::new(record.root, &record.path);
        let known = lock(&self.partial).remove(&key);
        if known.is_some_and(|partial| partial.digest.covered() > 0)
            && let Ok(path) = self.mapped(record.root, &record.path)
        {
            self.keep_arrived(&path);
        }
    }

    fn plan_directory(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        if path.is_root() {
            return Ok(self.unless_plain(Verdict::Skip, Verdict::Done));
        }
        let fault = |error: StoreError| {
            self.note_unusable(record, path, &error);
            entry::fault(record.id, Side::DESTINATION, &error)
        };
        let dry = self.comparison().dry_run;
        let meta = self.config.keeper.final_meta(record)?;
        let there = if self.is_fresh(path) {
            None
        } else {
            let there = self.look(path).map_err(fault)?;
            self.hold_to_spelling(record.id, path, there.is_some(), last)?;
            there
        };
        if self.stays_out(record.kind, there.as_ref()) {
            return Ok(Verdict::Skip);
        }
        let verdict = match &there {
            Some(there) if there.kind == Kind::Directory => {
                if there.mode & OWNER_BITS != OWNER_BITS && !dry {
                    let opened = self.config.storage.open_directory(path);
                    opened.map_err(fault)?;
                }
                self.spelling.remember_exact(path);
                self.judge_directory(path, there, &meta)
            }
            Some(_) if self.defers(record, path) => {
                let replaced = self.replace_by_directory(path, &record.path);
                replaced.map_err(fault)?;
                self.remember_fresh(path);
                Verdict::Done
            }
            _ => {
                // Its own mode comes at the end: until then files must be made in it.
                if dry || self.make_directory(path).map_err(fault)? {
                    self.remember_fresh(path);
                } else {
                    // It has come since, with something in it or under another name.
                    self.hold_to_spelling(record.id, path, true, last)?;
                }
                Verdict::Done
            }
        };
        if !dry {
            encode_directory(record)
                .and_then(|item| lock(&self.directories).push(&item))
                .map_err(|error| fault(spill_error(path, &error)))?;
        }
        Ok(verdict)
    }

    fn make_directory(&self, path: &RelPath) -> Result<bool, StoreError> {
        let storage = &self.config.storage;
        self.opening(path, &|| storage.make_directory(path, 0o700))
    }

    fn remember_fresh(&self, path: &RelPath) {
        let mut fresh = lock(&self.fresh);
        if fresh.len() >= FRESH_MAX {
            fresh.clear();
        }
        fresh.insert(path.as_bytes().into());
        self.made_any.store(true, Ordering::Release);
    }

    fn plan_file(
        &self,
        record: &Record,
        path: &RelPath,
        look: &mut dyn Look,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        if record.bytes == UNKNOWN_BYTES {
            self.comes_once.store(true, Ordering::Relaxed);
        }
        if record.path.is_empty() && self.config.must_be_directory {
            return Err(fault(StoreError {
                operation: "make a file of what was named as a directory",
                path: path.clone(),
                kind: StoreErrorKind::TypeConflict,
                errno: None,
            }));
        }
        let there = if self.is_fresh(path) {
            None
        } else {
            let there = self.unless_in_the_way(look.stat(path)).map_err(fault)?;
            if !last.is_plain(path) {
                self.hold_to_spelling(record.id, path, there.is_some(), last)?;
            }
            there
        };
        if self.stays_out(record.kind, there.as_ref()) {
            self.leave(record, there.as_ref());
            return Ok(Verdict::Skip);
        }
        let Some(there) = there else {
            return Ok(self.held(record, path).unwrap_or(Verdict::Send));
        };
        self.spare_special(record, &there)?;
        match there.kind {
            Kind::Directory if self.defers(record, path) => {
                self.expect_way(record, path).map_err(fault)?;
                if !self.comparison().dry_run {
                    self.deferred.expect(record.id);
                }
                return Ok(self.held(record, path).unwrap_or(Verdict::Send));
            }
            Kind::Directory => return Err(fault(type_conflict(path))),
            Kind::File => {
                let meta = self.config.keeper.final_meta(record)?;
                let judged = self.judge_file(record, path, &there, &meta);
                if let Judgement::Settled(verdict) = judged.map_err(fault)? {
                    return Ok(verdict);
                }
            }
            _ => {}
        }
        if !self.comparison().dry_run {
            lock(&self.replace).insert(record.id);
        }
        Ok(self.held(record, path).unwrap_or(Verdict::Send))
    }

    /// What the journal vouches for, if the temporary file is still what it was.
    fn held(&self, record: &Record, path: &RelPath) -> Option<Verdict> {
        let mut partial = lock(&self.partial);
        if partial.is_empty() {
            return None;
        }
        let key = PathKey::new(record.root, &record.path);
        let found = partial
            .get_mut(&key)
            .filter(|found| found.digest.covered() > 0)?;
        let ranges = found.digest.ranges();
        let reach = ranges
            .iter()
            .map(|(offset, bytes, _)| offset + bytes)
            .max()
            .unwrap_or(0);
        let temp = TempName::new(self.config.tag, path);
        let there = self
            .config
            .storage
            .open_temp(path, &temp)
            .and_then(|file| file.meta());
        let usable = found.generation == record.generation.0
            && there.is_ok_and(|meta| meta.bytes >= reach)
            && reach <= record.bytes;
        // More ranges than an answer can name are sent again: it takes thousands of gaps in one file.
        if !usable || ranges.len() > limits::HELD_RANGES_MAX {
            // That the journal tells of it is to be known when it is made anew.
            found.digest = FileDigest::new(found.digest.kind());
            return None;
        }
        let held = ranges
            .into_iter()
            .map(|(offset, bytes, digest)| HeldRange {
                offset,
                bytes,
                digest: entry::digest_to_wire(&digest),
            })
            .collect();
        Some(Verdict::Partial { held })
    }

    /// Modes and times of directories, those inside before those around them; then all names are durable.
    /// Returns what prevents that.
    pub(super) fn set_directories(&self) -> Option<String> {
        let storage = &self.config.storage;
        let mut to_sync: Vec<RelPath> = self
            .config
            .mapping
            .iter()
            .map(|mapped| mapped.parent().unwrap_or_default())
            .collect();
        let mut unsynced = None;
        let mut sync = |paths: &mut Vec<RelPath>| {
            if !self.config.no_sync && unsynced.is_none() {
                unsynced = storage.sync_directories(paths).err();
            }
            paths.clear();
        };
        let result = lock(&self.directories).backward(|item| {
            let Some(record) = decode_directory(item) else {
                return;
            };
            let Ok(path) = self.mapped(record.root, &record.path) else {
                return;
            };
            // Most are as they should be after a run that changes little; what was made by it is not.
            let mut right = false;
            let set = self.config.keeper.final_meta(&record).and_then(|meta| {
                let there = match self.made(path.as_bytes()) {
                    true => None,
                    false => storage.stat(&path).ok().flatten(),
                };
                right = there.is_some_and(|there| storage.agrees(&path, &there, &meta));
                if right {
                    return Ok(Lost::NOTHING);
                }
                storage
                    .set_directory_meta(&path, &meta)
                    .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))
            });
            if right {
                return;
            }
            match set {
                Ok(lost) => self.counters.count_lost(lost),
                Err(fault) => {
                    let shown = crate::Sink::display_path(self, record.root, &record.path);
                    self.acks
                        .fault(Seq(0), fault, record.root, &record.path, &shown);
                }
            }
            to_sync.push(path);
            if to_sync.len() >= SYNC_AT_ONCE {
                sync(&mut to_sync);
            }
        });
        sync(&mut to_sync);
        unsynced
            .map(|error| format!("the destination cannot be made durable: {error}"))
            .or_else(|| result.err().map(unreadable))
    }
}

pub(super) fn unreadable(error: std::io::Error) -> String {
    format!(
        "what was to be done at the end cannot be read back: {error}; give the same command again"
    )
}

pub(super) fn type_conflict(path: &RelPath) -> StoreError {
    StoreError {
        operation: "put something else in the place of the directory",
        path: path.clone(),
        kind: StoreErrorKind::TypeConflict,
        errno: None,
    }
}

pub(super) fn spill_error(path: &RelPath, error: &std::io::Error) -> StoreError {
    StoreError {
        operation: "note for the end",
        path: path.clone(),
        kind: StoreErrorKind::Io,
        errno: error.raw_os_error(),
    }
}
