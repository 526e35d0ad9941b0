//! Compares announced entries with the destination, makes directories and symbolic links, and does at the end what had to wait.
//! Writes no file contents.

use godwit_proto::{
    EntryId, EntryKind, Fault, FaultCode, HeldRange, Record, RecordReader, RecordWriter, Seq, Side,
    Verdict,
};
use godwit_store::journal::PathKey;
use godwit_store::{
    FinalMeta, Kind, Lost, Meta, RelPath, Replace, StoreError, StoreErrorKind, TempName, Timestamp,
};

use super::sink::{TreeSink, destination_fault};
use crate::{entry, limits, lock};

/// Directories made by this transfer that are remembered; beyond it they are forgotten and looked at again.
const FRESH_MAX: usize = 64 * 1024;

/// Directories that are made durable in one call.
const SYNC_AT_ONCE: usize = 4096;

impl TreeSink {
    pub(super) fn plan_one(&self, record: &Record) -> Verdict {
        let planned = self.mapped(record.root, &record.path).and_then(|path| {
            let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
            match record.kind {
                EntryKind::DIRECTORY => self.plan_directory(record, &path),
                EntryKind::SYMLINK => self.plan_symlink(record, &path),
                EntryKind::HARD_LINK => self.plan_link(record),
                EntryKind::FILE => self.plan_file(record, &path).map_err(fault),
                kind if kind.is_special() => self.plan_special(record, &path),
                other => Err(destination_fault(
                    record.id,
                    FaultCode::UNSUPPORTED,
                    format!("this version does not know entries of kind {}", other.0),
                )),
            }
        });
        planned.unwrap_or_else(|mut fault| {
            fault.entry = record.id;
            Verdict::Failed(fault)
        })
    }

    fn plan_directory(&self, record: &Record, path: &RelPath) -> Result<Verdict, Fault> {
        if path.as_bytes().is_empty() {
            return Ok(Verdict::Done);
        }
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let storage = &self.config.storage;
        // Its own mode comes at the end: until then files must be made in it.
        if storage.make_directory(path, 0o700).map_err(fault)? {
            let mut fresh = lock(&self.fresh);
            if fresh.len() >= FRESH_MAX {
                fresh.clear();
            }
            fresh.insert(path.clone());
        } else {
            storage.open_directory(path).map_err(fault)?;
        }
        let noted = encode_directory(record)
            .and_then(|item| lock(&self.directories).push(&item))
            .map_err(|error| fault(spill_error(path, &error)));
        noted.map(|()| Verdict::Done)
    }

    fn plan_symlink(&self, record: &Record, path: &RelPath) -> Result<Verdict, Fault> {
        let meta = self.config.keeper.final_meta(record)?;
        let storage = &self.config.storage;
        let is_same = |there: &Meta| {
            Ok(there.kind == Kind::Symlink && storage.read_link(path)? == record.target)
        };
        self.plan_at_once(record, path, &meta, is_same, |temp, replace| {
            storage.make_symlink(path, &record.target, &meta, temp, replace)
        })
    }

    fn plan_special(&self, record: &Record, path: &RelPath) -> Result<Verdict, Fault> {
        let kind = match record.kind {
            _ if !self.config.keeper.preserve().specials => {
                let message = "the sender sends a special file that was not asked for".to_owned();
                let code = FaultCode::NOT_REGULAR;
                return Err(destination_fault(record.id, code, message));
            }
            EntryKind::FIFO => Kind::Fifo,
            EntryKind::SOCKET => Kind::Socket,
            EntryKind::CHAR_DEVICE => Kind::CharDevice,
            _ => Kind::BlockDevice,
        };
        let rdev = match kind {
            Kind::CharDevice | Kind::BlockDevice => self.config.keeper.device(record)?,
            _ => 0,
        };
        let meta = self.config.keeper.final_meta(record)?;
        let is_same = |there: &Meta| Ok(there.kind == kind && there.rdev == rdev);
        self.plan_at_once(record, path, &meta, is_same, |temp, replace| {
            let storage = &self.config.storage;
            storage.make_special(path, kind, rdev, &meta, temp, replace)
        })
    }

    /// Makes what needs no contents, unless it is there with the same time.
    fn plan_at_once(
        &self,
        record: &Record,
        path: &RelPath,
        meta: &FinalMeta,
        is_same: impl FnOnce(&Meta) -> Result<bool, StoreError>,
        make: impl Fn(&TempName, Replace) -> Result<Lost, StoreError>,
    ) -> Result<Verdict, Fault> {
        let make_it = || {
            let replace = match self.config.storage.stat(path)? {
                None => Replace::Never,
                Some(there) if there.kind == Kind::Directory => return Err(type_conflict(path)),
                Some(there) => {
                    if !self.config.force && there.mtime == meta.mtime && is_same(&there)? {
                        return Ok(Verdict::Skip);
                    }
                    Replace::Atomically
                }
            };
            let temp = TempName::new(self.config.tag, path);
            let mut made = make(&temp, replace);
            if matches!(&made, Err(error) if error.kind == StoreErrorKind::NotFound) {
                // The manifest with its directory may still be on its way, on another stream.
                self.make_parents(path)?;
                made = make(&temp, replace);
            }
            self.counters.count_lost(made?);
            self.counters.files_done.add(1);
            Ok(Verdict::Done)
        };
        make_it().map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))
    }

    fn plan_link(&self, record: &Record) -> Result<Verdict, Fault> {
        let mut item = Vec::with_capacity(16 + record.path.len() + record.target.len());
        item.extend(record.id.0.to_le_bytes());
        item.extend(record.root.to_le_bytes());
        item.extend(
            u32::try_from(record.path.len())
                .unwrap_or(u32::MAX)
                .to_le_bytes(),
        );
        item.extend(&record.path);
        item.extend(&record.target);
        lock(&self.links).push(&item).map_err(|error| {
            destination_fault(
                record.id,
                FaultCode::IO,
                format!("what is to be done later cannot be noted: {error}"),
            )
        })?;
        Ok(Verdict::Done)
    }

    fn plan_file(&self, record: &Record, path: &RelPath) -> Result<Verdict, StoreError> {
        let in_fresh = path
            .parent()
            .is_some_and(|parent| lock(&self.fresh).contains(&parent));
        let there = if in_fresh {
            None
        } else {
            self.config.storage.stat(path)?
        };
        let key = PathKey::new(record.root, &record.path);
        if let Some(there) = there {
            match there.kind {
                Kind::Directory => return Err(type_conflict(path)),
                Kind::File => {
                    let same = there.bytes == record.bytes
                        && there.mtime
                            == (Timestamp {
                                seconds: record.mtime_seconds,
                                nanoseconds: record.mtime_nanoseconds,
                            });
                    if same && (!self.config.force || self.done.contains(&key, record.generation.0))
                    {
                        return Ok(Verdict::Skip);
                    }
                }
                _ => {}
            }
            lock(&self.replace).insert(record.id);
        }
        Ok(self.held(record, path, key).unwrap_or(Verdict::Send))
    }

    /// What the journal vouches for, if the temporary file is still what it was.
    fn held(&self, record: &Record, path: &RelPath, key: PathKey) -> Option<Verdict> {
        let mut partial = lock(&self.partial);
        let found = partial.get(&key)?;
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
            partial.remove(&key);
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

    /// Hard links, once the files that they name are there. Returns what prevents all of them.
    pub(super) fn make_links(&self) -> Option<String> {
        let result = lock(&self.links).forward(|item| {
            let Some((id, root, path, first)) = decode_link(item) else {
                return;
            };
            let made = self.mapped(root, path).and_then(|name| {
                let first = self.mapped(root, first)?;
                let temp = TempName::new(self.config.tag, &name);
                let storage = &self.config.storage;
                storage
                    .make_link(&name, &first, &temp)
                    .map_err(|error| entry::fault(id, Side::DESTINATION, &error))
            });
            match made {
                Ok(()) => self.counters.files_done.add(1),
                Err(mut fault) => {
                    fault.entry = id;
                    let shown = crate::Sink::display_path(self, root, path);
                    self.acks.fault(Seq(0), fault, root, path, &shown);
                }
            }
        });
        result.err().map(unreadable)
    }

    /// Modes and times of directories, those inside before those around them; then all names are durable.
    /// Returns what prevents that.
    pub(super) fn set_directories(&self) -> Option<String> {
        let storage = &self.config.storage;
        let mut to_sync: Vec<RelPath> = self
            .config
            .mapping
            .iter()
            .filter_map(RelPath::parent)
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
            let set = self.config.keeper.final_meta(&record).and_then(|meta| {
                storage
                    .set_directory_meta(&path, &meta)
                    .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))
            });
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

fn unreadable(error: std::io::Error) -> String {
    format!(
        "what was to be done at the end cannot be read back: {error}; give the same command again"
    )
}

fn type_conflict(path: &RelPath) -> StoreError {
    StoreError {
        operation: "replace a directory by something else",
        path: path.clone(),
        kind: StoreErrorKind::TypeConflict,
        errno: None,
    }
}

fn spill_error(path: &RelPath, error: &std::io::Error) -> StoreError {
    StoreError {
        operation: "note for the end",
        path: path.clone(),
        kind: StoreErrorKind::Io,
        errno: error.raw_os_error(),
    }
}

/// As a section of the wire: what goes with a directory may be long, and has a form there already.
fn encode_directory(record: &Record) -> std::io::Result<Vec<u8>> {
    let mut item = Vec::new();
    let written = RecordWriter::new(&mut item).push(record);
    written.map_err(std::io::Error::other)?;
    Ok(item)
}

fn decode_directory(item: &[u8]) -> Option<Record> {
    RecordReader::new(item, 1).ok()?.next()?.ok()
}

fn decode_link(item: &[u8]) -> Option<(EntryId, u16, &[u8], &[u8])> {
    let (id, rest) = item.split_first_chunk::<8>()?;
    let (root, rest) = rest.split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (path, first) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((
        EntryId(u64::from_le_bytes(*id)),
        u16::from_le_bytes(*root),
        path,
        first,
    ))
}
