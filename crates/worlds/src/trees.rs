//! Owns small trees to copy, and the comparison of trees by their contents. Reads no metadata.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of files of each tree.
pub const TREE_FILES: usize = 21;

/// Makes a tree of small files and a large one, with other contents for each number.
///
/// # Panics
/// The files cannot be written.
pub fn tree(directory: &Path, number: u8, large_bytes: usize) {
    fs::create_dir_all(directory.join("d")).expect("made");
    for file in 0..20_u8 {
        let content = vec![number ^ file; 1000 + usize::from(file)];
        fs::write(directory.join("d").join(file.to_string()), content).expect("written");
    }
    fs::write(directory.join("large"), vec![number; large_bytes]).expect("written");
}

/// All files below a directory, by their names.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("read");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            let name = path.strip_prefix(directory).expect("below").to_owned();
            found.insert(name, fs::read(&path).expect("read"));
        }
    }
    found
}
