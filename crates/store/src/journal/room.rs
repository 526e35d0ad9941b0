//! Owns the limits of space, number and age for the journals of unfinished transfers, and chooses the journals to cut or
//! remove. Reads only
//! the sender's tag of a journal.
//!
//! Peers choose how many transfers they leave unfinished, and how long the names in a journal are. Each sender has limits. The
//! sender with the most loses journals first, down to an equal share. So a peer that fills the space loses its own journals,
//! the oldest first. Journals
//! in use count, but are kept. An idle journal is first cut to its header, so that its transfer begins again with the same names; if that is
//! not enough, it is removed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::SENDER_BYTES;
use super::directory::Locked;
use super::record::{self, HEAD_BYTES, PREAMBLE_BYTES};
use crate::open_with_room;

/// All journals together take at most one part in this many of a file system's space.
const SHARE_OF_ROOM: u64 = 4;

/// The limits of a directory of journals. A record of a file takes some 40 bytes.
pub(super) const BOUNDS: Bounds = Bounds {
    bytes: 4 << 30,
    bytes_of_sender: 1 << 30,
    journals: 4_096,
    journals_of_sender: 512,
    age: Duration::from_hours(30 * 24),
};

/// Limits of a directory of journals.
pub(super) struct Bounds {
    pub(super) bytes: u64,
    pub(super) bytes_of_sender: u64,
    pub(super) journals: usize,
    pub(super) journals_of_sender: usize,
    /// An idle journal that was not written for longer is removed.
    pub(super) age: Duration,
}

/// Sender of a journal. A journal without a sender counts as a separate sender. So do journals of earlier versions, which end
/// with other bytes.
#[derive(Eq, Hash, PartialEq)]
enum Sender {
    Tag([u8; SENDER_BYTES]),
    Unknown(PathBuf),
}

/// A journal that may be cut or removed. Uncut journals come first, and among them the oldest.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Candidate {
    is_whole: bool,
    modified: Reverse<SystemTime>,
    bytes: u64,
    path: PathBuf,
}

/// The journals of a sender, or of all.
#[derive(Default)]
struct Held {
    bytes: u64,
    count: usize,
    /// Journals that may be idle.
    journals: BinaryHeap<Candidate>,
}

/// Cuts or removes idle journals of a directory until all journals are within the limits. `free` is the number of free bytes of its file
/// system, if known. The caller holds the lock of the directory.
pub(super) fn make_way(
    directory: &Path,
    free: Option<u64>,
    now: SystemTime,
    bounds: &Bounds,
) -> io::Result<()> {
    let mut journals: Vec<Candidate> = Vec::new();
    for entry in open_with_room(|| fs::read_dir(directory))? {
        let path = entry?.path();
        if path.file_name() == Some(OsStr::new("lock")) {
            continue;
        }
        // A journal that a transfer has finished meanwhile has no size.
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let journal = Candidate {
            is_whole: true,
            modified: Reverse(meta.modified().unwrap_or(now)),
            bytes: meta.len(),
            path,
        };
        let age = now.duration_since(journal.modified.0).unwrap_or_default();
        if age <= bounds.age || idle(&journal.path).is_none_or(|idle| !remove(&journal, idle)) {
            journals.push(journal);
        }
    }
    let bytes: u64 = journals.iter().map(|journal| journal.bytes).sum();
    let room = free.map(|free| free.saturating_add(bytes) / SHARE_OF_ROOM);
    let most = room.unwrap_or(u64::MAX).min(bounds.bytes);
    if bytes <= most.min(bounds.bytes_of_sender) && journals.len() <= bounds.journals_of_sender {
        return Ok(());
    }
    let mut all = Held {
        bytes,
        count: journals.len(),
        ..Held::default()
    };
    let mut senders: HashMap<Sender, Held> = HashMap::new();
    for journal in journals {
        let sender = senders.entry(sender_of(&journal.path)).or_default();
        sender.bytes += journal.bytes;
        sender.count += 1;
        sender.journals.push(journal);
    }
    for sender in senders.values_mut() {
        while sender.count > bounds.journals_of_sender && sender.removes_one(&mut all) {}
        while sender.bytes > bounds.bytes_of_sender && sender.shrinks_one(&mut all) {}
    }
    let share = most / senders.len().max(1) as u64;
    while all.bytes > most {
        let over = senders.values_mut().filter(|sender| sender.bytes > share);
        let most_bytes = over.filter(|sender| !sender.journals.is_empty());
        match most_bytes.max_by_key(|sender| sender.bytes) {
            Some(sender) => sender.shrinks_one(&mut all),
            None => break,
        };
    }
    while all.count > bounds.journals {
        let with_idle = senders.values_mut().filter(|it| !it.journals.is_empty());
        match with_idle.max_by_key(|sender| sender.count) {
            Some(sender) => sender.removes_one(&mut all),
            None => break,
        };
    }
    Ok(())
}

impl Held {
    /// Removes the oldest journal. `false` if none is left; a journal in use is passed over.
    fn removes_one(&mut self, all: &mut Self) -> bool {
        let Some(journal) = self.journals.pop() else {
            return false;
        };
        if idle(&journal.path).is_some_and(|idle| remove(&journal, idle)) {
            self.gives(journal.bytes, 1, all);
        }
        true
    }

    /// Cuts the oldest journal, or removes it if it was cut before. `false` if none is left.
    fn shrinks_one(&mut self, all: &mut Self) -> bool {
        let Some(journal) = self.journals.pop() else {
            return false;
        };
        let Some(left) = shrink(&journal) else {
            return true;
        };
        let gone = usize::from(left == 0);
        self.gives(journal.bytes.saturating_sub(left), gone, all);
        if left > 0 {
            self.journals.push(Candidate {
                is_whole: false,
                bytes: left,
                ..journal
            });
        }
        true
    }

    fn gives(&mut self, bytes: u64, count: usize, all: &mut Self) {
        for held in [self, all] {
            held.bytes = held.bytes.saturating_sub(bytes);
            held.count = held.count.saturating_sub(count);
        }
    }
}

/// The locked file of a journal; `None` if the journal is in use.
fn idle(path: &Path) -> Option<Locked> {
    let mut options = OpenOptions::new();
    let file = open_with_room(|| options.read(true).write(true).open(path)).ok()?;
    file.try_lock().ok()?;
    Some(Locked(file))
}

fn remove(journal: &Candidate, _idle: Locked) -> bool {
    fs::remove_file(&journal.path).is_ok()
}

/// Cuts an idle journal to its header, or removes it if it was cut before; returns the bytes that are left. `None` if the journal is in
/// use.
fn shrink(journal: &Candidate) -> Option<u64> {
    let idle = idle(&journal.path)?;
    if journal.is_whole
        && let Some(end) = header_end(&idle.0).filter(|end| *end <= journal.bytes)
        && idle.0.set_len(end).is_ok()
    {
        return Some(end);
    }
    remove(journal, idle).then_some(0)
}

fn header_end(mut file: &File) -> Option<u64> {
    let mut start = [0; PREAMBLE_BYTES + HEAD_BYTES];
    file.read_exact(&mut start).ok()?;
    record::header_end(&start)
}

fn sender_of(path: &Path) -> Sender {
    let tag = || {
        let file = open_with_room(|| File::open(path)).ok()?;
        let at = header_end(&file)?.checked_sub(SENDER_BYTES as u64)?;
        let mut tag = [0; SENDER_BYTES];
        file.read_exact_at(&mut tag, at).ok()?;
        Some(Sender::Tag(tag))
    };
    tag().unwrap_or_else(|| Sender::Unknown(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_idle_journals_make_way_and_live_ones_stay() {
        let directory = tempfile::tempdir().expect("made");
        let path = |name: &str| directory.path().join(name);
        for (name, bytes) in [("a", 60), ("b", 50), ("c", 30), ("d", 1), ("lock", 0)] {
            fs::write(path(name), vec![0; bytes]).expect("written");
        }
        let live = File::open(path("a")).expect("there");
        live.try_lock().expect("ours");
        let left = || {
            let names = ["a", "b", "c", "d", "lock"];
            names.map(|name| path(name).exists())
        };
        let now = SystemTime::now();
        make_way(directory.path(), None, now, &BOUNDS).expect("listed");
        make_way(directory.path(), Some(3 * 141), now, &BOUNDS).expect("listed");
        assert_eq!(left(), [true; 5], "they take a quarter");
        make_way(directory.path(), Some(3 * 141 - 4), now, &BOUNDS).expect("listed");
        assert_eq!(left(), [true, false, true, true, true]);
        make_way(directory.path(), Some(250), now, &BOUNDS).expect("listed");
        assert_eq!(left(), [true, false, false, true, true]);
        drop(live);
        make_way(directory.path(), Some(0), now, &BOUNDS).expect("listed");
        assert_eq!(left(), [false, false, false, true, true]);
    }
    #[test]
    fn the_oldest_idle_journals_beyond_a_number_or_an_age_go() {
        let directory = tempfile::tempdir().expect("made");
        let path = |number: u64| directory.path().join(format!("{number}.journal"));
        let now = SystemTime::now();
        let hours = |count: u64| Duration::from_hours(count);
        for number in 1..=8 {
            let file = File::create(path(number)).expect("made");
            let modified = now - hours(number);
            file.set_modified(modified).expect("set");
        }
        File::create(directory.path().join("lock")).expect("made");
        let live = File::open(path(8)).expect("there");
        live.try_lock().expect("ours");
        let left = |bounds: &Bounds| -> Vec<u64> {
            make_way(directory.path(), None, now, bounds).expect("listed");
            (1..=8).filter(|number| path(*number).exists()).collect()
        };
        assert_eq!(left(&BOUNDS), [1, 2, 3, 4, 5, 6, 7, 8]);
        let aged = Bounds {
            age: hours(6),
            ..BOUNDS
        };
        assert_eq!(left(&aged), [1, 2, 3, 4, 5, 6, 8], "one is in use");
        let few = Bounds {
            journals: 4,
            journals_of_sender: 4,
            ..BOUNDS
        };
        assert_eq!(left(&few).len(), 4);
        assert!(directory.path().join("lock").exists());
    }
}
