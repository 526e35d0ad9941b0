//! Owns the marks in directories of the source that lose files: empty directories with one name that was never used before.
//! Looks for no mark at a copy: the node of the job has the sites do that.

use std::collections::BTreeSet;

use godwit_store::{RelPath, Storage};

use super::Within;
use crate::local::LocalSource;

/// Marks that exist. Dropping it removes them.
pub struct Marks<'a> {
    storage: &'a dyn Storage,
    paths: Vec<RelPath>,
    marked: BTreeSet<Within>,
}

impl Marks<'_> {
    /// Removes the marks; returns the directories that had one.
    #[must_use]
    pub fn lift(mut self) -> BTreeSet<Within> {
        std::mem::take(&mut self.marked)
    }
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        for path in self.paths.drain(..) {
            // An empty directory that stays does no harm.
            let _ = self.storage.remove_entry(&path, true);
        }
    }
}

/// Marks each of these directories below a source that is still there.
///
/// # Errors
/// A directory cannot be written, or has an entry of this name.
pub fn mark<'a>(
    source: &'a LocalSource,
    directories: &BTreeSet<Within>,
    name: &str,
) -> Result<Marks<'a>, String> {
    let root = &source.root;
    let mut marks = Marks {
        storage: &*root.storage,
        paths: Vec::with_capacity(directories.len()),
        marked: BTreeSet::new(),
    };
    for within in directories {
        let directory = match within {
            Some(below) => root.start.join(below),
            None => match root.start.parent() {
                Some(parent) => Ok(parent),
                None => return Err("the source is no file".to_owned()),
            },
        };
        let directory = directory.map_err(|error| error.to_string())?;
        let path = directory.join(name.as_bytes());
        let path = path.map_err(|error| error.to_string())?;
        // A directory that is gone is not to come back.
        let there = marks.storage.stat(&directory);
        let there = there.map_err(|error| error.to_string())?;
        if there.is_none() && !directory.is_root() {
            continue;
        }
        match marks.storage.make_directory(&path, 0o700) {
            Ok(true) => {
                marks.paths.push(path);
                marks.marked.insert(within.clone());
            }
            Ok(false) => return Err(format!("{path}: this name is taken")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(marks)
}
