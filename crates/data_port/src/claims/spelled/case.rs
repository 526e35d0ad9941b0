//! Finds out whether a directory takes names in several letter cases for one name, by the files in it. Opens no files and makes none.

use super::directory::Directory;

/// Whether a directory takes other letter cases for the same name; None if no file there shows it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Case {
    /// Whether ASCII letters fold.
    pub(super) ascii: Option<bool>,
    /// Whether all letters fold.
    pub(super) all: Option<bool>,
}

impl Case {
    /// By an existing file in a directory.
    pub(super) fn of_file(directory: &Directory, name: &[u8], file: (u64, u64)) -> Self {
        // Two files may be one after all: some drivers number each spelling.
        let is_same = |other: Vec<u8>| match directory.file(&other) {
            None => Some(false),
            Some(other) => (other == file).then_some(true),
        };
        Self {
            ascii: ascii_swapped(name).and_then(is_same),
            all: swapped(name).and_then(is_same),
        }
    }

    /// By the files in a directory.
    pub(super) fn of_directory(directory: &Directory) -> Self {
        let mut found = Self::default();
        for name in directory.names() {
            let Some(file) = directory.file(&name) else {
                continue;
            };
            let case = Self::of_file(directory, &name, file);
            // Letters outside of ASCII show whether those are folded, too.
            let all = case.all.filter(|_| !name.is_ascii());
            found.ascii = found.ascii.or(case.ascii);
            found.all = found.all.or(all);
            if found.ascii.is_some() && found.all.is_some() {
                break;
            }
        }
        found
    }

    /// Whether one of two directories shows that it folds names.
    pub(super) fn folds(one: Self, other: Self) -> bool {
        [one.ascii, one.all, other.ascii, other.all].contains(&Some(true))
    }

    /// Whether such directories keep two names apart that differ only in letter case.
    pub(super) fn are_two(one: Self, other: Self, name: &[u8], other_name: &[u8]) -> bool {
        if Self::folds(one, other) {
            return false;
        }
        if name.eq_ignore_ascii_case(other_name) {
            return one.ascii.or(other.ascii) == Some(false);
        }
        let upper = |name: &[u8]| std::str::from_utf8(name).map(str::to_uppercase);
        match (upper(name), upper(other_name)) {
            (Ok(upper), Ok(other_upper)) if upper == other_upper => {
                one.all.or(other.all) == Some(false)
            }
            _ => false,
        }
    }
}

/// The name in another letter case, if it has one.
fn swapped(name: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(name).ok()?;
    let mut others = [text.to_uppercase(), text.to_lowercase()].into_iter();
    others.find(|other| other != text).map(String::into_bytes)
}

/// The name with its letters of ASCII in another case, if it has such letters.
fn ascii_swapped(name: &[u8]) -> Option<Vec<u8>> {
    let others = [name.to_ascii_uppercase(), name.to_ascii_lowercase()];
    others.into_iter().find(|other| other != name)
}
