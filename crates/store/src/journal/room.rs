//! Owns how much room the journals of unfinished transfers take together, and which of them make way.
//! Reads no journal.
//!
//! Peers choose how many transfers they leave unfinished, and how long the names in a journal are. The largest idle journal makes way first:
//! a peer that fills the room loses its own. A transfer whose journal went begins afresh.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::directory::Locked;
use crate::open_with_room;

/// Part of the room of a file system that all journals together take at most.
const SHARE_OF_ROOM: u64 = 4;

/// Removes idle journals of a directory until the others take no more than their share. `free` are the free bytes of its file system, if
/// that says. The caller holds the lock of the directory.
pub(super) fn make_way(directory: &Path, free: Option<u64>) -> io::Result<()> {
    let Some(free) = free else {
        return Ok(());
    };
    let mut journals: Vec<(u64, PathBuf)> = Vec::new();
    for entry in open_with_room(|| fs::read_dir(directory))? {
        let path = entry?.path();
        // One that a transfer finished meanwhile has no size.
        let bytes = fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
        journals.push((bytes, path));
    }
    let mut held: u64 = journals.iter().map(|(bytes, _)| bytes).sum();
    let most = free.saturating_add(held) / SHARE_OF_ROOM;
    if held <= most {
        return Ok(());
    }
    journals.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
    for (bytes, path) in journals {
        if held <= most {
            break;
        }
        let Ok(file) = open_with_room(|| File::open(&path)) else {
            continue;
        };
        if file.try_lock().is_ok() {
            let _idle = Locked(file);
            if fs::remove_file(&path).is_ok() {
                held = held.saturating_sub(bytes);
            }
        }
    }
    Ok(())
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
