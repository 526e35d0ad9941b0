//! Owns the directory of journals: which journals are in use, and which transfers may begin. Does not know the contents of a journal except
//! its header.
//!
//! There are two kinds of locks, both `flock`: the kernel drops them with the process, and they also separate two transfers of one process.
//! A lock of the directory is held while a journal is begun or removed. A lock of each journal's file is held by its transfer. Only the
//! directory's lock is waited for.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufReader, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::open_with_room;
use crate::spill::room_in;

use super::load::{self, Loaded, ReplayError};
use super::record::{self, Kind};
use super::room;
use super::{
    CLAIM_BYTES, Journal, JournalError, JournalHeader, JournalKey, LockedFile, Recovered, Tail,
};

/// The directory where a receiver keeps its journals.
#[derive(Clone, Debug)]
pub struct JournalDirectory {
    path: PathBuf,
}

/// Reason why no journal was begun. `E` is the error of the caller's own preparation.
#[derive(Debug, thiserror::Error)]
pub enum BeginError<E> {
    /// A running transfer writes to the same place, or above or below it.
    #[error("another transfer ({label}) is writing to {}", destination.display())]
    Busy {
        /// The label of the running transfer.
        label: String,
        /// The destination that the running transfer writes to.
        destination: PathBuf,
        /// The other transfer has the same key: it is the same transfer, started twice.
        same: bool,
    },
    /// The caller could not make a header for a new journal.
    #[error(transparent)]
    Fresh(E),
    /// The header of the caller is larger than the limit of a journal.
    #[error("the names of this transfer are too long for its journal")]
    TooLarge,
    /// A file could not be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl JournalDirectory {
    /// The directory at `path`; created with access for this user only if it does not exist.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(path)
            .map_err(failed("create the directory of", path))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Begins or resumes the transfer with this key and locks its journal.
    ///
    /// If there is an unfinished journal, its header is used and `fresh` is not called. A journal with a damaged header is moved aside to
    /// `….journal.damaged` and reported in [`Recovered::damage`]. A new journal takes its place, durably. No other journal can begin
    /// meanwhile, so `fresh` should be quick; it must not use this directory. While the records of a journal are read, others may begin.
    ///
    /// # Errors
    /// See [`BeginError`]; nothing has changed then.
    pub fn begin<E>(
        &self,
        key: JournalKey,
        fresh: impl FnOnce() -> Result<JournalHeader, E>,
    ) -> Result<(Journal, Recovered), BeginError<E>> {
        let load = |file: &File| load::load(BufReader::with_capacity(READ_BYTES, file));
        self.begin_loading(key, fresh, load)
    }

    fn begin_loading<E>(
        &self,
        key: JournalKey,
        fresh: impl FnOnce() -> Result<JournalHeader, E>,
        load: impl FnOnce(&File) -> Result<Loaded, ReplayError>,
    ) -> Result<(Journal, Recovered), BeginError<E>> {
        let lock = self
            .lock()
            .map_err(failed("lock the directory of", &self.path))?;
        let path = self.path.join(format!("{key}.{EXTENSION}"));
        let mut damage = None;
        if let Some(file) = self.open_idle(&path)? {
            match load::load_header(BufReader::new(&file)) {
                Ok(header) => {
                    self.check_free(&path, &header)?;
                    // A large journal takes seconds. Its own lock keeps it, and its header shows the others where its transfer writes.
                    drop(lock);
                    let rewound = (&file).rewind().map_err(ReplayError::Read);
                    let loaded = rewound.and_then(|()| load(&file));
                    let loaded = loaded.map_err(|error| failed("read", &path)(unread(error)))?;
                    return Ok(self.resume(file, path, loaded)?);
                }
                Err(ReplayError::Read(source)) => Err(failed("read", &path)(source))?,
                Err(ReplayError::Header) => damage = set_aside(&file, &path)?,
            }
        }
        let header = fresh().map_err(BeginError::Fresh)?;
        if !record::header_fits(&header) {
            return Err(BeginError::TooLarge);
        }
        self.check_free(&path, &header)?;
        self.check_room(&path, &header)?;
        let journal = self.create(path, &header)?;
        // If no journal can be removed, the space on the disk is the limit.
        let _ = self.makes_way(room_in(&self.path));
        // Other transfers need not wait for the disk.
        drop(lock);
        // The sync precedes any change at the destination: entries there must never outlive the name mapping that created them.
        journal.sync()?;
        Ok((journal, Recovered::fresh(header, damage)))
    }

    /// Removes idle journals until all journals are within their limits, as [`Self::begin`] does. `free` are the free bytes of the
    /// file system.
    ///
    /// # Errors
    /// The directory cannot be listed or locked.
    pub fn make_way(&self, free: u64) -> io::Result<()> {
        let _lock = self.lock()?;
        self.makes_way(Some(free))
    }

    /// Removes the journals of a claim's members that no running transfer uses: the claim has ended, and no transfer resumes them.
    ///
    /// # Errors
    /// The directory cannot be listed or locked. A journal that cannot be removed stays and does no harm.
    pub fn forget_claim(&self, claim: &[u8; CLAIM_BYTES]) -> io::Result<()> {
        let _lock = self.lock()?;
        for entry in open_with_room(|| fs::read_dir(&self.path))? {
            let path = entry?.path();
            if path.extension() != Some(OsStr::new(EXTENSION)) {
                continue;
            }
            let Ok(file) = open_with_room(|| File::open(&path)) else {
                continue;
            };
            let header = load::load_header(BufReader::new(&file));
            if header.is_ok_and(|header| header.claim.as_ref() == Some(claim))
                && file.try_lock().is_ok()
            {
                let _idle = Locked(file);
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Removes the journals with these tags that no running transfer uses and that write only below `real`: no transfer resumes them.
    ///
    /// # Errors
    /// The directory cannot be listed or locked. A journal that cannot be removed stays.
    pub fn forget_tags(&self, tags: &[u64], real: &Path) -> io::Result<()> {
        let _lock = self.lock()?;
        let is_below =
            |destination: &Vec<u8>| Path::new(OsStr::from_bytes(destination)).starts_with(real);
        for entry in open_with_room(|| fs::read_dir(&self.path))? {
            let path = entry?.path();
            if !tag_of(&path).is_some_and(|tag| tags.contains(&tag)) {
                continue;
            }
            let Ok(file) = open_with_room(|| File::open(&path)) else {
                continue;
            };
            let header = load::load_header(BufReader::new(&file));
            if header.is_ok_and(|header| header.destinations.iter().all(is_below))
                && file.try_lock().is_ok()
            {
                let _idle = Locked(file);
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// The header of the unfinished transfer with this key in the directory at `path`, if it can be read. Takes no lock and creates no
    /// files.
    pub fn header_of(path: &Path, key: JournalKey) -> Option<JournalHeader> {
        let file = File::open(path.join(format!("{key}.{EXTENSION}"))).ok()?;
        load::load_header(BufReader::new(file)).ok()
    }

    /// The tags of temporary files that the journals in the directory at `path` claim. Takes no lock.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn tags(path: &Path) -> io::Result<HashSet<u64>> {
        let mut tags = HashSet::new();
        for entry in fs::read_dir(path)? {
            tags.extend(tag_of(&entry?.path()));
        }
        Ok(tags)
    }

    /// Opens and locks the journal at `path`, if it exists and no running transfer uses it.
    fn open_idle<E>(&self, path: &Path) -> Result<Option<File>, BeginError<E>> {
        let mut options = OpenOptions::new();
        let file = match open_with_room(|| options.read(true).write(true).open(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", path)(error).into()),
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(busy(path, None, true)),
            Err(TryLockError::Error(error)) => Err(failed("lock", path)(error).into()),
        }
    }

    /// Searches for a running transfer other than `ours` whose destinations overlap the destinations of `header`.
    fn check_free<E>(&self, ours: &Path, header: &JournalHeader) -> Result<(), BeginError<E>> {
        let entries =
            open_with_room(|| fs::read_dir(&self.path)).map_err(failed("list", &self.path))?;
        for entry in entries {
            let path = entry.map_err(failed("list", &self.path))?.path();
            if path == ours || path.extension() != Some(OsStr::new(EXTENSION)) {
                continue;
            }
            let file = match open_with_room(|| File::open(&path)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("open", &path)(error).into()),
            };
            match file.try_lock_shared() {
                Ok(()) => drop(Locked(file)),
                Err(TryLockError::WouldBlock) => match load::load_header(BufReader::new(&file)) {
                    Ok(live) if live.claim.is_some() && live.claim == header.claim => {}
                    Ok(live) => check_apart(&path, header, &live)?,
                    Err(_) => return Err(busy(&path, None, false)),
                },
                Err(TryLockError::Error(error)) => {
                    return Err(failed("lock", &path)(error).into());
                }
            }
        }
        Ok(())
    }

    fn makes_way(&self, free: Option<u64>) -> io::Result<()> {
        room::make_way(&self.path, free, SystemTime::now(), &room::BOUNDS)
    }

    /// Refuses a new journal if little room is left, so that running transfers keep room for their records.
    fn check_room(&self, path: &Path, header: &JournalHeader) -> Result<(), JournalError> {
        let needed = record::header_bytes(header) as u64 + ROOM_LEAST;
        let free = || room_in(&self.path).filter(|free| *free < needed);
        if free().is_none() || self.makes_way(free()).is_ok() && free().is_none() {
            return Ok(());
        }
        let what = "the disk of the Godwit home is almost full; free some space there";
        Err(failed("create", path)(io::Error::new(
            io::ErrorKind::StorageFull,
            what,
        )))
    }

    pub(super) fn resume(
        &self,
        file: File,
        path: PathBuf,
        loaded: Loaded,
    ) -> Result<(Journal, Recovered), JournalError> {
        let mut recovered = loaded.recovered;
        let digest = recovered.header.digest;
        let journal = self.journal(file, path, digest, loaded.end, loaded.chain);
        // First, so that no crash loses the epoch.
        if loaded.begins_again && recovered.epoch > 0 {
            journal.append_epoch(recovered.epoch)?;
        }
        if let Some(damage) = &mut recovered.damage {
            journal.cut()?;
            *damage = format!("journal {}: {damage}", journal.path.display());
        }
        Ok((journal, recovered))
    }

    fn create(&self, path: PathBuf, header: &JournalHeader) -> Result<Journal, JournalError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = open_with_room(|| options.open(&path)).map_err(failed("create", &path))?;
        let mut bytes = Vec::new();
        let chain = record::encode_preamble(&mut bytes, random());
        let mut first = Vec::new();
        let chain = record::encode(&mut first, chain, Kind::Header, |body| {
            record::encode_header(header, body);
        });
        bytes.append(&mut first);
        let written = match file.try_lock() {
            Ok(()) => file.write_all(&bytes),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(failed("write", &path)(error));
        }
        Ok(self.journal(file, path, header.digest, bytes.len() as u64, chain))
    }

    fn journal(
        &self,
        file: File,
        path: PathBuf,
        digest: crate::digest::DigestKind,
        end: u64,
        chain: u64,
    ) -> Journal {
        let buffer = Vec::new();
        Journal {
            file: Arc::new(LockedFile(file)),
            path,
            directory: self.clone(),
            digest,
            tail: Mutex::new(Tail { end, chain, buffer }),
            name_durable: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        }
    }

    /// Removes a journal whose lock the caller holds. The caller also holds the directory's lock. Otherwise a new transfer could open the
    /// file first and lock it after the removal, when the file has lost its name.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        {
            let _lock = self.lock()?;
            fs::remove_file(path)?;
        }
        self.sync()
    }

    /// Makes the names in the directory durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        open_with_room(|| File::open(&self.path))?.sync_all()
    }

    fn lock(&self) -> io::Result<Locked> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = open_with_room(|| options.open(self.path.join("lock")))?;
        loop {
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|()| Locked(file)),
            }
        }
    }
}

/// The tag of the temporary files of a journal, by its name; `None` for any other file.
fn tag_of(journal: &Path) -> Option<u64> {
    let key = journal.file_stem().and_then(OsStr::to_str)?;
    let is_journal = journal.extension() == Some(OsStr::new(EXTENSION));
    let tag = u64::from_str_radix(key.get(..16)?, 16).ok();
    // A tag is the first bytes of the key in little-endian order; file names contain the bytes in the key's order.
    tag.filter(|_| is_journal).map(u64::swap_bytes)
}

/// A lock that another process may be waiting for; released when dropped.
pub(super) struct Locked(pub(super) File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock(); // closing would do, but for children forked a moment ago
    }
}

/// Moves a journal without a usable header aside, and reports it. A crash at the wrong moment leaves an empty journal; it is not reported,
/// because it contained nothing.
fn set_aside(file: &File, path: &Path) -> Result<Option<String>, JournalError> {
    let bytes = file.metadata().map_err(failed("read", path))?.len();
    if bytes == 0 {
        fs::remove_file(path).map_err(failed("remove", path))?;
        return Ok(None);
    }
    let aside = path.with_extension(format!("{EXTENSION}.damaged"));
    fs::rename(path, &aside).map_err(failed("move aside", path))?;
    Ok(Some(format!(
        "journal {}: the header is damaged, so the transfer starts from the beginning; if an earlier run made the destination directory, sources are copied into that directory; the damaged file is now {}",
        path.display(),
        aside.display()
    )))
}

fn check_apart<E>(
    path: &Path,
    header: &JournalHeader,
    live: &JournalHeader,
) -> Result<(), BeginError<E>> {
    match overlapping(&header.destinations, &live.destinations) {
        Some(destination) => Err(busy(path, Some((live, destination)), false)),
        None => Ok(()),
    }
}

/// The first of `theirs` that equals one of `ours`, or lies above or below one. Takes n log n steps for n paths, because there may be
/// 65,535 on each side.
fn overlapping<'a>(ours: &[Vec<u8>], theirs: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
    let path =
        |bytes: &Vec<u8>| -> PathBuf { Path::new(OsStr::from_bytes(bytes)).components().collect() };
    let ours: BTreeSet<PathBuf> = ours.iter().map(path).collect();
    theirs.iter().find(|bytes| {
        let their = path(bytes);
        // Paths are ordered by their components, so all paths below a path follow directly after it.
        let below = ours.range(their.clone()..).next();
        below.is_some_and(|our| our.starts_with(&their))
            || their.ancestors().any(|above| ours.contains(above))
    })
}

fn busy<E>(path: &Path, known: Option<(&JournalHeader, &Vec<u8>)>, same: bool) -> BeginError<E> {
    if let Some((live, destination)) = known {
        return BeginError::Busy {
            label: live.label.clone(),
            destination: PathBuf::from(OsStr::from_bytes(destination)),
            same,
        };
    }
    let header = File::open(path).map(|file| load::load_header(BufReader::new(file)));
    match header {
        Ok(Ok(header)) => BeginError::Busy {
            destination: header.destinations.first().map_or_else(
                || path.to_owned(),
                |first| PathBuf::from(OsStr::from_bytes(first)),
            ),
            label: header.label,
            same,
        },
        // A journal in use that cannot be read; its transfer may write anywhere.
        _ => BeginError::Busy {
            label: format!("with the unreadable journal {}", path.display()),
            destination: path.to_owned(),
            same,
        },
    }
}

/// A header that was there a moment ago cannot be missing, because the caller holds the file's lock.
fn unread(error: ReplayError) -> io::Error {
    match error {
        ReplayError::Read(error) => error,
        ReplayError::Header => io::ErrorKind::InvalidData.into(),
    }
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> JournalError {
    move |source| JournalError {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// A number that no two journals are likely to share.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

const EXTENSION: &str = "journal";

/// Free room that running transfers need for their records while a new journal begins.
const ROOM_LEAST: u64 = 4 << 20;

/// Large enough that a journal of 10⁶ entries is read in a few hundred calls.
const READ_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests;
