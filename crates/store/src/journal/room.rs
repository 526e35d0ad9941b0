//! Owns the limit of space for the journals of unfinished transfers, and the choice of journals that make way. Reads only the sender's tag
//! of a journal.
//!
//! Peers choose how many transfers they leave unfinished, and how long the names in a journal are. The sender with the most bytes makes way
//! first, down to an equal share, so a peer that fills the space loses its own journals. Journals in use count, but are kept. An idle
//! journal is first cut to its header, so that its transfer begins again with the same names; if that is not enough, it is removed.

use std::collections::{BinaryHeap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::SENDER_BYTES;
use super::directory::Locked;
use super::record::{self, HEAD_BYTES, PREAMBLE_BYTES};
use crate::open_with_room;

/// All journals together take at most one part in this many of a file system's space.
const SHARE_OF_ROOM: u64 = 4;

/// Sender of a journal. A file without a sender counts as its own sender, as do journals of earlier versions, which end with other bytes.
#[derive(Eq, Hash, PartialEq)]
enum Sender {
    Tag([u8; SENDER_BYTES]),
    Unknown(PathBuf),
}

/// A journal that may be cut or removed. Uncut journals come first, and among them the largest.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Candidate {
    is_whole: bool,
    bytes: u64,
    path: PathBuf,
}

/// The journals of a sender.
#[derive(Default)]
struct Held {
    bytes: u64,
    journals: BinaryHeap<Candidate>,
}

/// Cuts or removes idle journals of a directory until all journals are within their share. `free` is the number of free bytes of its file
/// system, if known. The caller holds the lock of the directory.
pub(super) fn make_way(directory: &Path, free: Option<u64>) -> io::Result<()> {
    let Some(free) = free else {
        return Ok(());
    };
    let mut journals: Vec<Candidate> = Vec::new();
    for entry in open_with_room(|| fs::read_dir(directory))? {
        let path = entry?.path();
        // A journal that a transfer has finished meanwhile has no size.
        let bytes = fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
        let is_whole = true;
        journals.push(Candidate {
            is_whole,
            bytes,
            path,
        });
    }
    let mut held: u64 = journals.iter().map(|journal| journal.bytes).sum();
    let most = free.saturating_add(held) / SHARE_OF_ROOM;
    if held <= most {
        return Ok(());
    }
    let mut senders: HashMap<Sender, Held> = HashMap::new();
    for journal in journals {
        let sender = senders.entry(sender_of(&journal.path)).or_default();
        sender.bytes += journal.bytes;
        sender.journals.push(journal);
    }
    let share = most / senders.len().max(1) as u64;
    while held > most {
        let over = senders
            .values_mut()
            .filter(|sender| sender.bytes > share && !sender.journals.is_empty());
        let Some(sender) = over.max_by_key(|sender| sender.bytes) else {
            break;
        };
        let Some(journal) = sender.journals.pop() else {
            break;
        };
        let Some(left) = shrink(&journal) else {
            continue;
        };
        let freed = journal.bytes.saturating_sub(left);
        held = held.saturating_sub(freed);
        sender.bytes = sender.bytes.saturating_sub(freed);
        if left > 0 {
            sender.journals.push(Candidate {
                is_whole: false,
                bytes: left,
                path: journal.path,
            });
        }
    }
    Ok(())
}

/// Cuts an idle journal to its header, or removes it if it was cut before; returns the bytes that are left. `None` if the journal is in
/// use.
fn shrink(journal: &Candidate) -> Option<u64> {
    let mut options = OpenOptions::new();
    let file = open_with_room(|| options.read(true).write(true).open(&journal.path)).ok()?;
    file.try_lock().ok()?;
    let idle = Locked(file);
    if journal.is_whole
        && let Some(end) = header_end(&idle.0).filter(|end| *end <= journal.bytes)
        && idle.0.set_len(end).is_ok()
    {
        return Some(end);
    }
    fs::remove_file(&journal.path).ok().map(|()| 0)
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
        make_way(directory.path(), None).expect("listed");
        make_way(directory.path(), Some(3 * 141)).expect("listed");
        assert_eq!(left(), [true; 5], "they take a quarter");
        make_way(directory.path(), Some(3 * 141 - 4)).expect("listed");
        assert_eq!(left(), [true, false, true, true, true]);
        make_way(directory.path(), Some(250)).expect("listed");
        assert_eq!(left(), [true, false, false, true, true]);
        drop(live);
        make_way(directory.path(), Some(0)).expect("listed");
        assert_eq!(left(), [false, false, false, true, true]);
    }
}
