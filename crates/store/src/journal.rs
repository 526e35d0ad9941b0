//! Owns the journal of a transfer at its receiving side: an append-only, checksummed log of durable data. Does not make data durable: the
//! caller does so before it appends a record.
//!
//! A journal is one file, `<64 hex digits of its key>.journal`. The kernel locks it (`flock`) while its transfer runs: a process that dies
//! leaves no lock. Loading stops at the first incomplete record, cuts the file there and reports it. The format is in `record`.
//!
//! The key is computed from the sender's identity, the sources and the destination argument. The header remembers how names were mapped, so
//! that the same command resumes. A run with `--force` sends again the entries of other runs, but skips those that forced runs have sent.

mod directory;
mod done;
mod load;
mod record;
mod room;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::digest::{Digest, DigestKind, FileDigest};

pub use directory::{BeginError, JournalDirectory};
pub use done::DoneSet;
pub use load::{ReplayError, replay};
use record::Kind;
pub use record::{HEADER_BYTES_MAX, LABEL_BYTES_MAX, MAPPING_BYTES_MAX};

/// Names a journal: the same transfer, started again, has the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JournalKey(pub [u8; 32]);

impl JournalKey {
    /// The key of the transfer that `parts` identify together. The order of the parts and their boundaries matter.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for JournalKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Facts about the transfer as a whole. The first header written stays for the life of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// How names were mapped when the transfer began; the journal does not interpret it. At most [`MAPPING_BYTES_MAX`] bytes.
    pub mapping: Vec<u8>,
    /// The digest of all ranges in this journal.
    pub digest: DigestKind,
    /// The absolute paths that the transfer writes to; used to find transfers with the same destination.
    pub destinations: Vec<Vec<u8>>,
    /// The sources and the destination, for people. At most [`LABEL_BYTES_MAX`] bytes.
    pub label: String,
    /// The claim whose member the transfer is, if it is one. Members of one claim may write to the same destinations.
    pub claim: Option<[u8; CLAIM_BYTES]>,
    /// The [tag](sender_tag) of the sender, for its share of the journal space. Journals of earlier versions have none.
    pub sender: Option<[u8; SENDER_BYTES]>,
}

/// Length of the tag of a sender.
pub const SENDER_BYTES: usize = 8;

/// Names a sender in the headers of its journals.
pub fn sender_tag(sender: &[u8]) -> [u8; SENDER_BYTES] {
    let mut tag = [0; SENDER_BYTES];
    tag.copy_from_slice(&blake3::hash(sender).as_bytes()[..SENDER_BYTES]);
    tag
}

/// Length of the name of a claim.
pub const CLAIM_BYTES: usize = 16;

/// Names an entry: 128 bits of the hash of its root's index and its path below that root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey(pub [u8; 16]);

impl PathKey {
    /// The key of the entry at `path` below the root with index `root`.
    pub fn new(root: u16, path: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&root.to_le_bytes());
        hasher.update(path);
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(key)
    }
}

impl PathKey {
    /// The key of the part that begins at `offset` in the file at `path` below the root with index `root`.
    pub fn of_part(root: u16, path: &[u8], offset: u64) -> Self {
        // The separator is unambiguous because no path contains a zero byte.
        Self::new(root, &[path, b"\0part", &offset.to_le_bytes()].concat())
    }
}

/// A range of an entry that is durable under its temporary name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRecord {
    /// The entry.
    pub key: PathKey,
    /// The generation of the source that the bytes belong to.
    pub generation: u64,
    /// Offset of the range in the file.
    pub offset: u64,
    /// Length of the range.
    pub bytes: u64,
    /// Digest of the range, in the form that [`FileDigest::add`] accepts.
    pub digest: Digest,
}

/// An entry that is durable under its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneRecord {
    /// The entry.
    pub key: PathKey,
    /// The generation of the source that was copied.
    pub generation: u64,
    /// Number of content bytes.
    pub bytes: u64,
}

/// The known ranges of an unfinished entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The generation of the source that the ranges belong to.
    pub generation: u64,
    /// The ranges that are durable.
    pub digest: FileDigest,
}

/// The contents of a journal when it was opened.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Whether there was an unfinished journal; otherwise everything below except the header is empty.
    pub resumed: bool,
    /// The valid header: the header of the unfinished journal if there was one.
    pub header: JournalHeader,
    /// Entries of which some ranges are durable.
    pub partial: HashMap<PathKey, Partial>,
    /// Whether the last run was forced: it sent existing entries too.
    pub forced: bool,
    /// Entries completed by the last run, and by earlier runs with the same setting of `--force`.
    pub done: DoneSet,
    /// The last progress mark: bytes of content received since the transfer first began.
    pub received_bytes: u64,
    /// Bytes of content that the records cover.
    pub vouched_bytes: u64,
    /// Files that the records report as complete.
    pub vouched_files: u64,
    /// The highest epoch of the claim in which a run of this transfer began; 0 if the transfer was no member.
    pub epoch: u64,
    /// A description of the unusable part of the journal, if any.
    pub damage: Option<String>,
}

impl Recovered {
    /// The state of a new journal: only a header.
    pub fn fresh(header: JournalHeader, damage: Option<String>) -> Self {
        Self {
            resumed: false,
            header,
            partial: HashMap::new(),
            forced: false,
            done: DoneSet::default(),
            received_bytes: 0,
            vouched_bytes: 0,
            vouched_files: 0,
            epoch: 0,
            damage,
        }
    }
}

/// An operation on a journal that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} the journal {}: {source}", path.display())]
pub struct JournalError {
    /// The operation that failed.
    pub operation: &'static str,
    /// The journal's file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// The locked journal of a running transfer. A journal dropped without [`finish`](Self::finish) stays for a later resume.
///
/// An append that fails changes nothing: the journal still loads, and the next append may be tried. After a failed [`sync`](Self::sync) the
/// contents of the file are unknown, so from then on every call fails.
#[derive(Debug)]
pub struct Journal {
    file: Arc<LockedFile>,
    path: PathBuf,
    directory: JournalDirectory,
    digest: DigestKind,
    tail: Mutex<Tail>,
    name_durable: AtomicBool,
    broken: AtomicBool,
}

/// The file of a journal. Dropping it releases the lock.
#[derive(Debug)]
struct LockedFile(File);

/// Keeps a journal locked after its [`Journal`] was dropped, so that no other transfer uses the journal or writes to its destinations.
#[derive(Debug)]
pub struct JournalHold {
    _file: Arc<LockedFile>,
}

/// Most bytes of a journal in use: records of 200 million files. A sender may send or fail the same files again and again.
const IN_USE_BYTES_MAX: u64 = 8 << 30;

/// The end of the file, where the next record is written.
#[derive(Debug)]
struct Tail {
    end: u64,
    chain: u64,
    buffer: Vec<u8>,
}

impl Journal {
    /// Records ranges as durable. Not durable itself before [`sync`](Self::sync).
    ///
    /// # Errors
    /// When the file cannot be written. Some of the records may then be in the journal.
    pub fn append_ranges(&self, ranges: &[RangeRecord]) -> Result<(), JournalError> {
        let kind = self.digest;
        for batch in ranges.chunks(record::ranges_max(kind)) {
            self.append(Kind::Ranges, |body| {
                record::encode_ranges(batch, kind, body);
            })?;
        }
        Ok(())
    }

    /// Records entries as complete. Not durable itself before [`sync`](Self::sync).
    ///
    /// # Errors
    /// When the file cannot be written. Some of the records may then be in the journal.
    pub fn append_done(&self, done: &[DoneRecord]) -> Result<(), JournalError> {
        for batch in done.chunks(record::DONE_MAX) {
            self.append(Kind::Done, |body| record::encode_done(batch, body))?;
        }
        Ok(())
    }

    /// Records that the ranges of an entry no longer exist.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append_restart(&self, key: PathKey) -> Result<(), JournalError> {
        self.append(Kind::Restart, |body| body.extend_from_slice(&key.0))
    }

    /// Records how many bytes of content were received since the transfer first began, durable or not. The count guarantees nothing: after
    /// a crash it only shows how much was lost.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append_received(&self, bytes_total: u64) -> Result<(), JournalError> {
        self.append(Kind::Received, |body| {
            body.extend_from_slice(&bytes_total.to_le_bytes());
        })
    }

    /// Records that another run begins, forced or not. A new journal counts as the journal of a run without `--force`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append_run(&self, forced: bool) -> Result<(), JournalError> {
        self.append(Kind::Run, |body| body.push(u8::from(forced)))
    }

    /// Records that a run begins in this epoch of the claim. From then on, no run of an earlier epoch resumes the journal.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append_epoch(&self, epoch: u64) -> Result<(), JournalError> {
        self.append(Kind::Epoch, |body| {
            body.extend_from_slice(&epoch.to_le_bytes());
        })
    }

    /// Makes everything appended so far durable. Appends by other threads do not wait for it.
    ///
    /// # Errors
    /// When the system cannot; the journal is then unusable, and its transfer can only be ended and resumed.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.check_usable("sync")?;
        let mut result = self.file.0.sync_data();
        if result.is_ok() && !self.name_durable.load(Ordering::Acquire) {
            result = self.directory.sync();
            self.name_durable.store(result.is_ok(), Ordering::Release);
        }
        result.map_err(|source| {
            self.broken.store(true, Ordering::Release);
            self.error("sync", source)
        })
    }

    /// Removes the journal, durably: the transfer is complete.
    ///
    /// # Errors
    /// When it cannot be removed. The transfer is still complete; only its journal is left.
    pub fn finish(self) -> Result<(), JournalError> {
        let removed = self.directory.remove(&self.path);
        removed.map_err(|source| self.error("remove", source))
    }

    /// Shares the lock of the journal. Needs no additional file descriptor.
    pub fn hold(&self) -> JournalHold {
        JournalHold {
            _file: Arc::clone(&self.file),
        }
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append(&self, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), JournalError> {
        self.check_usable("write")?;
        let mut tail = self.lock();
        let Tail { end, chain, buffer } = &mut *tail;
        buffer.clear();
        let next = record::encode(buffer, *chain, kind, fill);
        if *end + buffer.len() as u64 > IN_USE_BYTES_MAX {
            let what = "it is full; the next run begins again with the same names";
            return Err(self.error("write", io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        if let Err(source) = self.file.0.write_all_at(buffer, *end) {
            // Not required for correctness: the next record overwrites the rest, and the checksum of the rest does not fit.
            let _ = self.file.0.set_len(*end);
            return Err(self.error("write", source));
        }
        *end += buffer.len() as u64;
        *chain = next;
        Ok(())
    }

    /// Removes what follows the last record.
    fn cut(&self) -> Result<(), JournalError> {
        let end = self.lock().end;
        let cut = self.file.0.set_len(end);
        cut.map_err(|source| self.error("repair", source))
    }

    fn check_usable(&self, operation: &'static str) -> Result<(), JournalError> {
        if self.broken.load(Ordering::Acquire) {
            let source = io::Error::other("an earlier sync of it failed");
            return Err(self.error(operation, source));
        }
        Ok(())
    }

    /// The tail changes only after a successful write, so its value is valid even if the lock is poisoned.
    fn lock(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, operation: &'static str, source: io::Error) -> JournalError {
        JournalError {
            operation,
            path: self.path.clone(),
            source,
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file would release the lock later if a child process, forked a moment ago, still has a copy of the handle.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::*;

    /// A journal in a file that cannot grow beyond `bytes_max`; for the journal this looks like a full disk.
    fn journal_on_full_disk(directory: &Path, bytes_max: u64) -> Journal {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("journal", flags).unwrap());
        file.set_len(bytes_max).unwrap();
        fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let header = JournalHeader {
            mapping: Vec::new(),
            digest: DigestKind::Crc64Nvme,
            destinations: Vec::new(),
            label: String::new(),
            claim: None,
            sender: None,
        };
        let mut start = Vec::new();
        let chain = record::encode_preamble(&mut start, 1);
        let mut buffer = Vec::new();
        let chain = record::encode(&mut buffer, chain, Kind::Header, |body| {
            record::encode_header(&header, body);
        });
        start.extend_from_slice(&buffer);
        file.write_all_at(&start, 0).unwrap();
        let end = start.len() as u64;
        Journal {
            file: Arc::new(LockedFile(file)),
            path: PathBuf::from("journal"),
            directory: JournalDirectory::open(directory).unwrap(),
            digest: header.digest,
            tail: Mutex::new(Tail { end, chain, buffer }),
            name_durable: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        }
    }

    fn content(journal: &Journal) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(journal.file.0.metadata().unwrap().len()).unwrap()];
        journal.file.0.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_journal_in_use_takes_bounded_room() {
        let place = tempfile::tempdir().unwrap();
        let journal = journal_on_full_disk(place.path(), 8192);
        let (before, end) = (content(&journal), journal.lock().end);
        journal.lock().end = IN_USE_BYTES_MAX;
        let error = journal.append_restart(PathKey([1; 16])).unwrap_err();
        assert!(error.to_string().contains("it is full"), "{error}");
        assert_eq!(content(&journal), before);
        journal.lock().end = end;
        journal.append_restart(PathKey([1; 16])).unwrap();
    }

    #[test]
    fn a_write_that_fails_half_way_loses_only_itself() {
        let place = tempfile::tempdir().unwrap();
        let journal = journal_on_full_disk(place.path(), 8192);
        let done = |number: u8| DoneRecord {
            key: PathKey([number; 16]),
            generation: 1,
            bytes: 100,
        };
        journal.append_done(&[done(1), done(2)]).unwrap();
        // Larger than the remaining room: the kernel writes the first page or two and then refuses.
        let many: Vec<_> = (0..1000).map(|_| done(3)).collect();
        let error = journal.append_done(&many).unwrap_err();
        assert_eq!(error.operation, "write");
        let recovered = replay(Cursor::new(content(&journal))).unwrap();
        assert_eq!(recovered.damage, None, "the remains were cut off");
        assert_eq!(recovered.done.len(), 2);
    }

    #[test]
    fn appends_continue_after_a_failed_one() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = journal_on_full_disk(place.path(), 4096);
        journal.append_received(1).unwrap();
        let writable = Arc::clone(&journal.file);
        journal.file = Arc::new(LockedFile(File::open("/dev/null").unwrap()));
        assert!(journal.append_received(2).is_err());
        journal.file = writable;
        journal.append_received(3).unwrap();
        let recovered = replay(Cursor::new(content(&journal))).unwrap();
        assert_eq!(recovered.received_bytes, 3);
    }

    #[test]
    fn after_a_failed_sync_nothing_more_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = journal_on_full_disk(place.path(), 4096);
        journal.sync().unwrap();
        let (_reader, pipe) = io::pipe().unwrap();
        journal.file = Arc::new(LockedFile(File::from(std::os::fd::OwnedFd::from(pipe))));
        assert_eq!(journal.sync().unwrap_err().operation, "sync");
        assert!(journal.append_received(1).is_err());
        assert!(journal.sync().is_err());
    }
}
