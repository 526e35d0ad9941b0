//! Owns the chains of a destination while a copy writes there: a copied chain may be an earlier state of the one that it replaces.
//! Makes no generation.

use std::fs;
use std::path::{Path, PathBuf};

use crate::chain::{self, Link};
use crate::{Error, FOLDER};

/// The chains below a directory, by their folders.
#[derive(Debug, Default)]
pub struct Chains(Vec<(PathBuf, Vec<Link>)>);

impl Chains {
    /// Reads the chains below a directory. A chain that cannot be read has nothing to keep.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        let mut found = Vec::new();
        let mut left = Vec::new();
        if root.symlink_metadata().is_ok_and(|about| about.is_dir())
            && let Ok(root) = fs::canonicalize(root)
        {
            left.push(root);
        }
        while let Some(directory) = left.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let path = entry.path();
                if entry.file_name() != FOLDER {
                    left.push(path);
                } else if let Ok(links) = chain::load(&path) {
                    found.push((path, links));
                }
            }
        }
        Self(found)
    }

    /// Puts each chain back that is now shorter by generations that are still in its folder.
    ///
    /// # Errors
    /// A chain cannot be written.
    pub fn put_back(self) -> Result<(), Error> {
        for (folder, links) in self.0 {
            if !folder.symlink_metadata().is_ok_and(|about| about.is_dir()) {
                continue;
            }
            let Ok(now) = chain::load(&folder) else {
                continue;
            };
            let Some(more) = links.strip_prefix(now.as_slice()) else {
                continue;
            };
            let is_there = |link: &Link| {
                let found = chain::digest_of(&folder.join(&link.file));
                found.is_ok_and(|found| found == link.digest)
            };
            if !more.is_empty() && more.iter().all(is_there) {
                chain::store(&folder, &links)?;
            }
        }
        Ok(())
    }
}
