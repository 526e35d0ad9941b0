//! Owns the reading of the tree: all text files of the repository, without build output. Does not
//! check the files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// A text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root of the repository, with `/` as the separator.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Whether the file is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extension == "rs")
    }
}

/// Directories of tools and of build output.
const SKIPPED: [&str; 6] = [
    ".git",
    "target",
    "artifacts",
    "coverage",
    "node_modules",
    "dist",
];

/// Reads all files below `root` that are UTF-8 text.
///
/// # Errors
/// A directory cannot be listed, or a file cannot be read.
pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    read_into(root, "", &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn read_into(directory: &Path, below: &str, files: &mut Vec<File>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {directory:?}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            read_into(&entry.path(), &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes)
                && !text.contains('\0')
            {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}
