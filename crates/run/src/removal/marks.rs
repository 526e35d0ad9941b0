//! Owns the marks in directories of the source that lose files: directories with one temporary name that was never used before.
//! Looks for no mark at a copy: the node of the job has the sites do that.
//!
//! A mark has each file of its directory for a moment before the file goes, under the name of the file. So a crash in between loses nothing:
//! scans report the mark, and a clean moves the file back before it removes the mark.

use std::collections::BTreeSet;

use godwit_store::{Kind, RelPath, Replace, Storage, StoreError, TempName};

use super::Within;
use crate::local::LocalSource;

/// Most files that move back out of a mark at once. A removal leaves one.
const BACK_MAX: usize = 1_000;

/// Marks that exist. Dropping it removes those that are empty.
pub struct Marks<'a> {
    storage: &'a dyn Storage,
    name: TempName,
    paths: Vec<RelPath>,
    marked: BTreeSet<Within>,
}

impl Marks<'_> {
    /// The name of each mark.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Checks that all marks are still there. A copy shows no mark that was gone when its site looked.
    ///
    /// # Errors
    /// One is gone, or cannot be looked at.
    pub fn check(&self) -> Result<(), String> {
        for path in &self.paths {
            let there = self.storage.stat(path).map_err(|error| error.to_string())?;
            if !there.is_some_and(|there| there.kind == Kind::Directory) {
                return Err(format!(
                    "{path}: this mark was removed while the copies were looked at; retry the job"
                ));
            }
        }
        Ok(())
    }

    /// The mark in a directory, as a path below that directory; None for a directory without.
    pub(super) fn name_in(&self, within: &Within) -> Option<&[u8]> {
        let is_marked = self.marked.contains(within);
        is_marked.then(|| self.name.as_bytes())
    }
}

/// Moves files out of a mark that a crash left, back to their names in the directory above.
///
/// # Errors
/// A file stays in the mark, for example because its name is taken again.
pub fn put_back(storage: &dyn Storage, mark: &RelPath) -> Result<(), StoreError> {
    let Some(directory) = mark.parent() else {
        return Ok(());
    };
    let mut names = Vec::new();
    storage.names_in(mark, &mut |name| {
        // A temporary file in it is of another transfer.
        if names.len() < BACK_MAX && !TempName::is_temp(name) {
            names.push(name.to_vec());
        }
    })?;
    let mut all = Ok(());
    for name in names {
        let joined = |place: &RelPath| {
            let path = place.join(&name);
            path.map_err(|error| StoreError::from_path("give its name back to", place, error))
        };
        let moved = joined(mark).and_then(|from| {
            let moved = storage.rename(&from, &joined(&directory)?, Replace::Never);
            moved.map_err(|error| StoreError {
                operation: "give its name back to",
                path: from,
                ..error
            })
        });
        all = all.and(moved);
    }
    all
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        for path in self.paths.drain(..) {
            // One that stays does no harm. One with a file stays.
            let _ = self.storage.remove_entry(&path, true);
        }
    }
}

/// Marks each of these directories below a source that is still there. `text` belongs to this removal alone.
///
/// # Errors
/// A directory cannot be written, or has an entry of this name.
pub fn mark<'a>(
    source: &'a LocalSource,
    directories: &BTreeSet<Within>,
    text: &str,
) -> Result<Marks<'a>, String> {
    let root = &source.root;
    let name = TempName::of_removal(text.as_bytes());
    let mut marks = Marks {
        storage: &*root.storage,
        name,
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
