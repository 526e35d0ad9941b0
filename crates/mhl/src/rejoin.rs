//! Owns the chains of a destination while a copy writes there: a copied chain may be an earlier state of the one that it replaces.
//! Makes no generation.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::chain::{self, Link};
use crate::history::History;
use crate::place::each_name;
use crate::tree::too_many;
use crate::{Error, FOLDER, Watch, read, to_the_end};

/// The chains below a directory, by their folders.
#[derive(Debug, Default)]
pub struct Chains(Vec<(PathBuf, Vec<Link>)>);

impl Chains {
    /// Reads the chains below a directory. A chain that cannot be read has nothing to keep.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        let watch = to_the_end();
        let is_directory = root.symlink_metadata().is_ok_and(|about| about.is_dir());
        let Some(root) = fs::canonicalize(root).ok().filter(|_| is_directory) else {
            return Self::default();
        };
        let read = |folder: PathBuf| Some((folder.clone(), chain::load(&folder, &watch).ok()?));
        let folders = folders(root, &watch).unwrap_or_default();
        Self(folders.into_iter().filter_map(read).collect())
    }

    /// Puts each chain back that is now shorter by generations that are still in its folder.
    ///
    /// # Errors
    /// A chain cannot be written.
    pub fn put_back(self) -> Result<(), Error> {
        let watch = to_the_end();
        for (folder, links) in self.0 {
            if !folder.symlink_metadata().is_ok_and(|about| about.is_dir()) {
                continue;
            }
            let Ok(now) = chain::load(&folder, &watch) else {
                continue;
            };
            let Some(more) = links.strip_prefix(now.as_slice()) else {
                continue;
            };
            let is_there = |link: &Link| {
                let found = chain::digest_of(&folder.join(&link.file), &watch);
                found.is_ok_and(|found| found == link.digest)
            };
            if !more.is_empty() && more.iter().all(is_there) {
                chain::store(&folder, &links)?;
            }
        }
        Ok(())
    }
}

/// The folders of histories below a directory, whose path is absolute and without links. Nothing is listed behind a link that another user puts
/// there meanwhile.
///
/// # Errors
/// There are more directories than there is room for.
fn folders(root: PathBuf, watch: &Watch<'_>) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut left = vec![root];
    while let Some(directory) = left.pop() {
        if watch.is_stopped() {
            break;
        }
        let mut full = None;
        let mut take = |name: &OsStr, is_directory: bool| {
            if !is_directory {
                return true;
            }
            let path = directory.join(name);
            bytes += path.as_os_str().len() as u64 + read::ENTRY_BYTES;
            if bytes > watch.room {
                full = Some(too_many(&path));
                return false;
            }
            match name == FOLDER {
                true => found.push(path),
                false => left.push(path),
            }
            true
        };
        // A directory that cannot be read has no history that could be repaired.
        let _ = each_name(&directory, &mut take);
        if let Some(full) = full {
            return Err(full);
        }
    }
    Ok(found)
}

/// Adds generations to each chain below a directory that lists them no more: a copy has replaced the chain by an earlier state of it. Such
/// a generation follows the last one of its chain by number. Returns how many were added. The path is absolute and without links, and no link
/// that others put there is followed.
///
/// # Errors
/// A chain cannot be written, there are more directories than there is room for, or the caller has set its stop flag.
pub fn rejoin(root: &Path, watch: &Watch<'_>) -> Result<u64, Error> {
    let mut added = 0;
    for folder in folders(root.to_owned(), watch)? {
        let Ok(mut links) = chain::load(&folder, watch) else {
            continue;
        };
        let listed = links.len();
        for (number, file) in strangers(&folder, &links) {
            let path = folder.join(&file);
            let next = links.last().map_or(1, |link| link.number.saturating_add(1));
            if number != next || History::of_generation(&path, watch).is_err() {
                break;
            }
            let digest = chain::digest_of(&path, watch)?;
            links.push(Link {
                number,
                file,
                digest,
            });
        }
        if links.len() > listed {
            chain::store(&folder, &links)?;
            added += (links.len() - listed) as u64;
        }
    }
    match watch.is_stopped() {
        true => Err(Error::Stopped),
        false => Ok(added),
    }
}

/// The generations in a folder that its chain does not list, by number. There are at most as many as a history may have. A name
/// without a number is no generation
/// of this program.
fn strangers(folder: &Path, links: &[Link]) -> Vec<(u32, String)> {
    let known: HashSet<&str> = links.iter().map(|link| link.file.as_str()).collect();
    let mut found: Vec<(u32, String)> = Vec::new();
    let generation = |name: &OsStr| {
        let name = name.to_str()?;
        let (number, _) = name.split_once('_')?;
        let number: u32 = number.parse().ok()?;
        let is_listed = known.contains(name);
        (name.ends_with(".mhl") && !is_listed).then(|| (number, name.to_owned()))
    };
    let mut take = |name: &OsStr, _: bool| {
        found.extend(generation(name));
        found.len() < read::GENERATIONS_MAX
    };
    if each_name(folder, &mut take).is_err() {
        return Vec::new();
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::{Format, Process, Tool};

    #[test]
    fn no_folder_is_found_behind_a_link() {
        let directory = tempfile::tempdir().expect("made");
        let root = &fs::canonicalize(directory.path()).expect("there");
        fs::create_dir_all(root.join("other/reel").join(FOLDER)).expect("made");
        std::os::unix::fs::symlink("other", root.join("link")).expect("made");
        let found = |path: &str| folders(root.join(path), &to_the_end()).expect("read");
        assert_eq!(found("other/reel").len(), 1);
        assert_eq!(found("other"), [root.join("other/reel").join(FOLDER)]);
        // Another user puts a link in the place of a directory on the way.
        for led in ["link", "link/reel"] {
            assert!(found(led).is_empty(), "{led}");
        }
    }

    #[test]
    fn generations_that_a_copied_chain_left_out_are_added_if_they_follow_it() {
        let directory = tempfile::tempdir().expect("made");
        let root = &fs::canonicalize(directory.path()).expect("there");
        fs::write(root.join("file"), "one").expect("written");
        let stop = AtomicBool::new(false);
        let watch = Watch {
            stop: &stop,
            read: &|_| {},
            room: crate::ROOM_MAX,
        };
        let tool = Tool {
            name: "godwit".to_owned(),
            version: "1".to_owned(),
            host: "here".to_owned(),
        };
        let seal = || {
            let by = (Process::Transfer, &tool);
            crate::seal(root, &[Format::Xxh64], by, 1, &watch)
        };
        for _ in 0..3 {
            seal().expect("sealed");
        }
        let folder = root.join(FOLDER);
        let all = chain::load(&folder, &watch).expect("read");
        chain::store(&folder, &all[..1]).expect("stored");
        seal().expect_err("two generations are not in the chain");
        assert_eq!(rejoin(root, &watch).expect("rejoined"), 2);
        assert_eq!(chain::load(&folder, &watch).expect("read"), all);
        seal().expect("sealed");
        // A generation beside one of its number, and one that is damaged, stay outside.
        let other = folder.join("0004_other.mhl");
        fs::copy(folder.join(&all[0].file), &other).expect("copied");
        assert_eq!(rejoin(root, &watch).expect("nothing"), 0);
        fs::rename(&other, folder.join("0005_other.mhl")).expect("renamed");
        fs::write(folder.join("0005_other.mhl"), "<hashlist").expect("written");
        assert_eq!(rejoin(root, &watch).expect("nothing"), 0);
        fs::create_dir(root.join("directory")).expect("made");
        let narrow = Watch { room: 64, ..watch };
        let refused = rejoin(root, &narrow).expect_err("no room").to_string();
        assert!(refused.contains("no history takes more"), "{refused}");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(rejoin(root, &watch), Err(Error::Stopped)));
    }
}
