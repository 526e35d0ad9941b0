//! Owns the judgement of a tree at its destination.
//! Moves nothing.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rig::Rig;

/// The judge is another program: nothing to change and nothing to delete means that both are the same.
#[track_caller]
pub(crate) fn assert_identical(source: &Path, destination: &Path) {
    assert_identical_to_rsync("-aH", source, destination);
}

/// The same for the properties that these flags of rsync compare.
#[track_caller]
pub(crate) fn assert_identical_to_rsync(flags: &str, source: &Path, destination: &Path) {
    let slash = |path: &Path| path.join("");
    let output = Command::new("rsync")
        .args([flags, "--checksum", "--delete", "--dry-run"])
        .arg("--itemize-changes")
        .args([slash(source), slash(destination)])
        .output()
        .expect("rsync runs");
    let differences = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && differences.is_empty(),
        "{}: {differences}{output:?}",
        destination.display()
    );
}

/// Every file below `root`, with its path from there.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("ours to read") {
            let entry = entry.expect("read");
            if entry.file_type().expect("read").is_dir() {
                directories.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root).expect("below").to_owned());
            }
        }
    }
    found
}

/// The names in a directory, sorted; each has to be text.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let listed = fs::read_dir(directory).expect("listed");
    let mut names: Vec<String> = listed
        .map(|entry| entry.expect("listed").file_name())
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    names
}

pub(crate) fn is_temporary(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b".godwit-"))
}

/// Only the requested entries of the transfer remain.
#[track_caller]
pub(crate) fn assert_tidy(destination: &Path, home: &Path) {
    assert_no_temporaries(destination);
    let journals = Rig::journals(home);
    assert!(journals.is_empty(), "{journals:?}");
}

/// No temporary name is anywhere below.
#[track_caller]
pub(crate) fn assert_no_temporaries(root: &Path) {
    let mut left = files_below(root);
    left.retain(|path| is_temporary(path));
    assert!(left.is_empty(), "{left:?}");
}

/// Whatever has its final name must be whole, however the transfer ended. Returns how many there are.
#[track_caller]
pub(crate) fn assert_finals_whole(source: &Path, destination: &Path) -> usize {
    assert_finals_whole_of(&[source], destination)
}

/// The same check, where each file as a whole may equal that file in any of several trees.
#[track_caller]
pub(crate) fn assert_finals_whole_of(trees: &[&Path], destination: &Path) -> usize {
    let mut finals = 0;
    if !destination.exists() {
        return finals;
    }
    for path in files_below(destination) {
        // Temporary files may get their final names at this moment.
        if is_temporary(&path) {
            continue;
        }
        let there = destination.join(&path);
        let meta = there.symlink_metadata().expect("final names stay");
        if !meta.is_file() {
            continue;
        }
        finals += 1;
        let differences: Vec<_> = trees
            .iter()
            .map(|tree| difference(&tree.join(&path), &there))
            .collect();
        assert!(
            differences.contains(&None),
            "{}: {differences:?}",
            path.display()
        );
    }
    finals
}

/// How the contents of two files differ, if they do.
fn difference(here: &Path, there: &Path) -> Option<String> {
    let bytes = |path: &Path| path.metadata().expect("a file").size();
    let total = bytes(there);
    if bytes(here) != total {
        return Some(format!("{total} bytes instead of {}", bytes(here)));
    }
    let (mut one, mut other) = (
        File::open(there).expect("opened"),
        File::open(here).expect("opened"),
    );
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for offset in (0..total).step_by(1 << 20) {
        let bytes = usize::try_from((total - offset).min(1 << 20)).expect("a block");
        one.read_exact(&mut left[..bytes]).expect("read");
        other.read_exact(&mut right[..bytes]).expect("read");
        if left[..bytes] != right[..bytes] {
            return Some(format!("another content in the MiB at {offset}"));
        }
    }
    None
}
