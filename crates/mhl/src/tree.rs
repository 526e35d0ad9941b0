//! Owns the walk over a data set, and the digests of its files, by several threads. Follows no link.
//! Writes no history, and reads one only for its ignored patterns.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use ignore::gitignore::Gitignore;
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use rustix::io::Errno;

use crate::digest::{Digest, DigestState, Format};
use crate::history::History;
use crate::place::{open_directory, open_file};
use crate::write::is_writable;
use crate::{Error, FOLDER, Watch, read};

/// A directory of a data set, in the order of names.
pub(crate) struct Directory {
    pub(crate) name: String,
    pub(crate) modified: SystemTime,
    /// The history of this directory, if it has one or is the top.
    pub(crate) history: Option<History>,
    pub(crate) files: Vec<Entry>,
    pub(crate) directories: Vec<Self>,
    /// Links, devices, sockets, FIFOs and unfinished files by name. A history has none of them.
    pub(crate) others: Vec<String>,
}

/// A file of a data set.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    /// The kinds of digest to take.
    pub(crate) formats: Vec<Format>,
    /// The digests of these kinds, or the reason why there are none.
    pub(crate) digests: Result<Vec<Digest>, String>,
}

/// Most levels of directories below the top: a walk takes room on the stack for each.
const LEVELS_MAX: usize = 256;

/// A walk, and the memory that it may still use.
struct Walk<'a> {
    watch: &'a Watch<'a>,
    /// For the entries of the data set. A history with more could be read by no later one.
    found: Room,
    /// For the files in all histories of the data set together.
    recorded: Room,
}

/// Room for paths.
struct Room {
    paths: Cell<usize>,
    /// As [`Watch::room`] counts them.
    bytes: Cell<u64>,
}

impl Room {
    fn of(bytes: u64) -> Self {
        Self {
            paths: Cell::new(read::FILES_MAX),
            bytes: Cell::new(bytes),
        }
    }

    /// Counts the memory for some paths. A failure names the last path.
    fn take(&self, last: &Path, paths: usize, bytes: u64) -> Result<(), Error> {
        let left = self.paths.get().checked_sub(paths);
        match left.zip(self.bytes.get().checked_sub(bytes)) {
            Some((paths, bytes)) => {
                self.paths.set(paths);
                self.bytes.set(bytes);
                Ok(())
            }
            None => Err(too_many(last)),
        }
    }
}

/// The error for a data set with more entries than there is room for.
pub(crate) fn too_many(path: &Path) -> Error {
    Error::malformed(
        path,
        format!(
            "and the entries before it are more than {}, or take more memory than there is for them here: no history takes more, so use those of directories below",
            read::FILES_MAX
        ),
    )
}

/// Walks the data set of a history. Each directory below that has a history gets that one.
pub(crate) fn scan(history: History, watch: &Watch<'_>) -> Result<Directory, Error> {
    let walk = Walk {
        watch,
        found: Room::of(watch.room),
        recorded: Room::of(watch.room),
    };
    scan_below(history, LEVELS_MAX, &walk)
}

fn scan_below(history: History, levels: usize, walk: &Walk<'_>) -> Result<Directory, Error> {
    let root = history.root.clone();
    let recorded = &walk.recorded;
    recorded.take(&root.join(FOLDER), history.files.len(), history.bytes)?;
    let ignored = history.ignored()?;
    let mut made = directory(&root, String::new(), (&ignored, levels), walk)?;
    made.history = Some(history);
    Ok(made)
}

fn directory(
    path: &Path,
    name: String,
    (ignored, levels): (&Gitignore, usize),
    walk: &Walk<'_>,
) -> Result<Directory, Error> {
    let about = fs::symlink_metadata(path).map_err(Error::io(path))?;
    let mut made = Directory {
        name,
        modified: about.modified().map_err(Error::io(path))?,
        history: None,
        files: Vec::new(),
        directories: Vec::new(),
        others: Vec::new(),
    };
    for (name, about) in entries(path, walk)? {
        let path = path.join(&name);
        let kind = FileType::from_raw_mode(about.st_mode);
        if name == FOLDER || ignored.matched(&path, kind.is_dir()).is_ignore() {
            continue;
        }
        let Some(name) = name.to_str().filter(|name| is_writable(name)) else {
            return Err(Error::malformed(
                &path,
                "has a name that an ASC MHL history cannot have; rename the file, or exclude it from the copy",
            ));
        };
        let name = name.to_owned();
        if kind.is_dir() {
            let Some(levels) = levels.checked_sub(1) else {
                return Err(Error::malformed(
                    &path,
                    format!("is more than {LEVELS_MAX} levels below the top, which is the limit"),
                ));
            };
            let child = match path.join(FOLDER).symlink_metadata() {
                Ok(_) => {
                    let below = scan_below(History::load(&path, walk.watch)?, levels, walk);
                    below.map(|child| Directory { name, ..child })
                }
                Err(_) => directory(&path, name, (ignored, levels), walk),
            };
            made.directories.push(child?);
        } else if kind.is_file() && !is_unfinished(&name) {
            made.files.push(Entry {
                name,
                size: u64::try_from(about.st_size).unwrap_or_default(),
                modified: modified(&about),
                formats: Vec::new(),
                digests: Ok(Vec::new()),
            });
        } else {
            made.others.push(name);
        }
    }
    Ok(made)
}

/// Whether a file of this name is one that a transfer has not finished, or the mark of a claim. Such a file disappears soon. A
/// history that contained it would report it missing for ever.
fn is_unfinished(name: &str) -> bool {
    let digits = name.strip_prefix(".godwit-");
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(is_digit))
}

/// The entries of a directory in the order of their names, each with its metadata. No link is followed, in any part of the path. Takes the room
/// for each entry first: the entries of all directories above stay in memory, too.
fn entries(path: &Path, walk: &Walk<'_>) -> Result<Vec<(OsString, Stat)>, Error> {
    let failed = |error: Errno| Error::io(path)(error.into());
    let opened = open_directory(path).map_err(Error::io(path))?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&opened).map_err(failed)? {
        if walk.watch.is_stopped() {
            return Err(Error::Stopped);
        }
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let bytes = path.as_os_str().len() + 1 + name.to_bytes().len();
        walk.found.take(path, 1, bytes as u64 + read::ENTRY_BYTES)?;
        let about = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        entries.push((OsString::from_vec(name.to_bytes().to_vec()), about));
    }
    entries.sort_by(|(one, _), (next, _)| one.cmp(next));
    Ok(entries)
}

/// When a file was changed last, in the form of the standard library.
fn modified(about: &Stat) -> SystemTime {
    let nanoseconds = Duration::from_nanos(about.st_mtime_nsec);
    let seconds = Duration::from_secs(about.st_mtime.unsigned_abs());
    let whole = match about.st_mtime < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(seconds),
        false => SystemTime::UNIX_EPOCH.checked_add(seconds),
    };
    let exact = whole.and_then(|whole| whole.checked_add(nanoseconds));
    exact.unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Directory {
    /// Calls `take` with each file below, with its path on the disk.
    pub(crate) fn each_file<'a>(
        &'a mut self,
        path: &Path,
        take: &mut dyn FnMut(PathBuf, &'a mut Entry),
    ) {
        for file in &mut self.files {
            take(path.join(&file.name), file);
        }
        for directory in &mut self.directories {
            let path = path.join(&directory.name);
            directory.each_file(&path, take);
        }
    }
}

/// Takes the digests of files, several at a time.
pub(crate) fn take_digests(
    work: Vec<(PathBuf, &mut Entry)>,
    threads: usize,
    watch: &Watch<'_>,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let work: Vec<_> = work.into_iter().map(Mutex::new).collect();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, work.len().max(1)) {
            scope.spawn(|| {
                let mut buffer = vec![0; 1 << 20];
                while let Some(one) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if watch.is_stopped() {
                        return;
                    }
                    let mut one = one.lock().unwrap_or_else(PoisonError::into_inner);
                    let (path, entry) = &mut *one;
                    let taken = digests(path, entry, &mut buffer, watch);
                    entry.digests = taken.map_err(|error| error.to_string());
                }
            });
        }
    });
    match watch.is_stopped() {
        true => Err(Error::Stopped),
        false => Ok(()),
    }
}

fn digests(
    path: &Path,
    entry: &mut Entry,
    buffer: &mut [u8],
    watch: &Watch<'_>,
) -> io::Result<Vec<Digest>> {
    let mut file = open_file(path)?;
    let mut running: Vec<DigestState> = entry
        .formats
        .iter()
        .copied()
        .map(DigestState::new)
        .collect();
    let mut bytes = 0;
    loop {
        let count = file.read(buffer)?;
        if count == 0 || watch.is_stopped() {
            break;
        }
        bytes += count as u64;
        (watch.read)(count as u64);
        for one in &mut running {
            one.update(&buffer[..count]);
        }
    }
    let about = file.metadata()?;
    if bytes != about.size() || about.modified()? != entry.modified {
        return Err(io::Error::other("it was changed while it was read"));
    }
    entry.size = bytes;
    Ok(running.into_iter().map(DigestState::finish).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::history::Record;

    #[test]
    fn a_walk_finds_no_more_than_a_history_takes() {
        let directory = tempfile::tempdir().expect("made");
        let root = fs::canonicalize(directory.path()).expect("there");
        fs::create_dir(root.join("below")).expect("made");
        for name in ["one", "below/two", "below/three"] {
            fs::write(root.join(name), "").expect("written");
        }
        let stop = AtomicBool::new(false);
        let watch = Watch {
            stop: &stop,
            read: &|_| {},
            room: crate::ROOM_MAX,
        };
        let room = |paths, bytes| Room {
            paths: Cell::new(paths),
            bytes: Cell::new(bytes),
        };
        let walk = |found: Room, recorded: Room| {
            let walk = Walk {
                watch: &watch,
                found,
                recorded,
            };
            let mut history = History::empty(&root);
            history.files.insert("one".to_owned(), Record::default());
            scan_below(history, LEVELS_MAX, &walk).map(|made| made.files.len())
        };
        assert_eq!(walk(room(4, 1 << 20), room(1, 0)).expect("it fits"), 1);
        for (found, recorded) in [
            (room(3, 1 << 20), room(1, 0)),
            (room(0, 1 << 20), room(1, 0)),
            (room(4, 200), room(1, 0)),
            (room(4, 1 << 20), room(0, 0)),
        ] {
            let why = walk(found, recorded).expect_err("too many").to_string();
            assert!(why.contains("no history takes more"), "{why}");
        }
        stop.store(true, Ordering::Relaxed);
        let stopped = walk(room(4, 1 << 20), room(1, 0));
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    }
}
