//! Owns whether two absolute paths are one place, or one of them lies below the other, also where a file system takes several spellings
//! for one name.
//! Looks at names only: opens nothing, and follows no link.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Result of a look at two spellings.
#[derive(PartialEq, Eq)]
enum Looked {
    One,
    Two,
    /// Neither exists yet.
    Neither,
}

/// Whether one path is the other, or lies below it. Spellings that may be one name are looked up. While neither exists, names that differ
/// only in the case of letters count as one.
pub(crate) fn overlap(one: &[u8], other: &[u8]) -> bool {
    let (mut at_one, mut at_other) = (PathBuf::new(), PathBuf::new());
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    for (one, other) in path(one).components().zip(path(other).components()) {
        at_one.push(one);
        at_other.push(other);
        let names = [one.as_os_str().as_bytes(), other.as_os_str().as_bytes()];
        if names[0] == names[1] {
            continue;
        }
        let are_cased = folded(names[0]) == folded(names[1]);
        // Whether other names are one depends on normal forms, which the file system knows.
        let are_ascii = names.iter().all(|name| name.is_ascii());
        if !are_cased && are_ascii {
            return false;
        }
        match look(&at_one, &at_other) {
            Looked::One => {}
            Looked::Two => return false,
            Looked::Neither => return are_cased,
        }
    }
    true
}

fn folded(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

fn look(one: &Path, other: &Path) -> Looked {
    let file = |path: &Path| {
        let there = fs::symlink_metadata(path).ok()?;
        Some((there.dev(), there.ino()))
    };
    match (file(one), file(other)) {
        (None, None) => Looked::Neither,
        (one, other) if one == other => Looked::One,
        _ => Looked::Two,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_a_file_system_may_take_for_one_name_meet_until_it_shows_two() {
        let directory = tempfile::tempdir().expect("made");
        let path = |below: &str| {
            let path = directory.path().join(below);
            path.into_os_string().into_encoded_bytes()
        };
        let meet = |one: &str, other: &str| overlap(&path(one), &path(other));
        assert!(meet("a", "a/b") && meet("a/b", "a") && meet("a", "a"));
        assert!(!meet("a", "b") && !meet("a/x", "a/y") && !meet("ab", "a"));
        // Neither exists, so they may be one.
        assert!(meet("Data", "data/run"));
        assert!(meet("caf\u{c9}", "caf\u{e9}"));
        assert!(!meet("caf\u{e9}", "cafe\u{301}s"));
        fs::create_dir(directory.path().join("Data")).expect("made");
        let folds = directory.path().join("data").exists();
        assert_eq!(meet("Data", "data/run"), folds);
        if !folds {
            fs::create_dir(directory.path().join("data")).expect("made");
            assert!(!meet("Data/run", "data/run"));
        }
    }
}
