//! Owns work on all files of a tree with as many threads as there are cores, because work outside the measurement should not take long.
//! Does not choose the work for a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::Context as _;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};

/// `path`, which may be a file, and all directories below it, each after its parent.
fn directories(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        let entries = fs::read_dir(&directory);
        for entry in entries.with_context(|| format!("cannot list {directory:?}"))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Calls `work` for each directory at `root` and below it, in any order, on several threads. Each thread has a separate `T`; returns all of
/// them. `root` may be a file, and then `work` is called for it alone.
///
/// # Errors
/// The first error of `work`; the remaining work is then not done.
pub(super) fn each_directory<T: Default + Send>(
    root: &Path,
    work: impl Fn(&Path, &mut T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Vec<T>> {
    let directories = if root.is_dir() {
        directories(root)?
    } else {
        vec![root.to_owned()]
    };
    each(&directories, &work)
}

fn each<T: Default + Send>(
    directories: &[PathBuf],
    work: &(impl Fn(&Path, &mut T) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let one = || -> anyhow::Result<T> {
        let mut own = T::default();
        while !failed.load(Ordering::Relaxed)
            && let Some(directory) = directories.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let done = work(directory, &mut own);
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
            done?;
        }
        Ok(own)
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let ended = all.into_iter().map(|thread| {
            let end = thread.join();
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // All threads must end before the first failure is reported.
        let ended: Vec<_> = ended.collect();
        ended.into_iter().collect()
    })
}

/// Removes a directory with all its contents.
///
/// # Errors
/// An entry cannot be removed.
pub(crate) fn remove(root: &Path) -> anyhow::Result<()> {
    let directories = directories(root)?;
    each(&directories, &|directory: &Path, (): &mut ()| {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(CWD, directory, flags, Mode::empty())?;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                unlinkat(&handle, entry.file_name(), AtFlags::empty())
                    .with_context(|| format!("cannot remove {:?}", entry.path()))?;
            }
        }
        Ok(())
    })?;
    for directory in directories.iter().rev() {
        fs::remove_dir(directory).with_context(|| format!("cannot remove {directory:?}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_seen_and_removed_whole_and_a_failure_is_reported() {
        let outside = tempfile::tempdir().expect("make a directory");
        let root = outside.path().join("root");
        for number in 0..40 {
            let directory = root.join(format!("{}/{number}/deep", number % 3));
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join("file"), b"x").expect("written");
        }
        std::os::unix::fs::symlink(outside.path(), root.join("out")).expect("linked");
        let count = |_: &Path, seen: &mut usize| -> anyhow::Result<()> {
            *seen += 1;
            Ok(())
        };
        let seen = each_directory(&root, count).expect("counted");
        assert_eq!(seen.into_iter().sum::<usize>(), 1 + 3 + 40 + 40);
        let refuse = |_: &Path, (): &mut ()| anyhow::bail!("no");
        assert!(each_directory(&root, refuse).is_err());
        remove(&root).expect("removed");
        assert!(!root.exists());
        assert!(outside.path().exists(), "what a link leads to stays");
        assert!(remove(&root).is_err(), "what is not there");
    }
}
