//! Holds the temporary files that stay when a run ends with missing entries, so that a later run can resume them.
//! Removes nothing (`commit` does).

use std::collections::HashSet;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::FaultCode;
use godwit_store::{RelPath, TempName};

/// Most failed files of which data is kept by name; beyond that, all temporary files are kept.
const FILES_MAX: usize = 64 << 10;

/// Most places that the source could not read; beyond that, all temporary files are kept.
const UNSEEN_MAX: usize = 1024;

/// Most bytes of their paths; beyond that, all temporary files are kept.
const UNSEEN_BYTES_MAX: usize = 1 << 20;

/// The files that a sweep keeps.
#[derive(Default)]
pub(crate) struct Leftovers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The temporary names of these files.
    files: HashSet<Vec<u8>>,
    /// Paths that the source could not list; the entries below them may still exist there.
    unseen: Vec<RelPath>,
    unseen_bytes: usize,
    everything: bool,
}

impl Leftovers {
    /// Keeps the data of this file.
    pub(crate) fn keep(&self, temp: TempName) {
        let mut inner = lock(&self.0);
        if inner.files.len() < FILES_MAX {
            inner.files.insert(temp.as_bytes().to_vec());
        } else {
            inner.everything = true;
        }
    }

    /// Whether no file is kept, and everything at the source was read.
    pub(crate) fn is_empty(&self) -> bool {
        let inner = lock(&self.0);
        inner.files.is_empty() && inner.unseen.is_empty() && !inner.everything
    }

    /// Records a failure of the source at `path`: if that may be a directory, the entries below it are unknown.
    pub(crate) fn note_failure(&self, path: &RelPath, code: FaultCode) {
        let is_seen = matches!(
            code,
            FaultCode::NOT_REGULAR
                | FaultCode::NOT_FOUND
                | FaultCode::CHANGED
                | FaultCode::NAME
                | FaultCode::UNSUPPORTED
        );
        if is_seen {
            return;
        }
        let mut inner = lock(&self.0);
        let bytes = inner.unseen_bytes + path.as_bytes().len();
        if inner.unseen.len() < UNSEEN_MAX && bytes <= UNSEEN_BYTES_MAX {
            inner.unseen.push(path.clone());
            inner.unseen_bytes = bytes;
        } else {
            inner.everything = true;
        }
    }

    /// Whether the source was read completely. If so, an entry that the source did not announce no longer exists there.
    pub(crate) fn all_seen(&self) -> bool {
        let inner = lock(&self.0);
        inner.unseen.is_empty() && !inner.everything
    }

    /// Whether the temporary file at `path` is kept.
    pub(crate) fn has(&self, path: &RelPath) -> bool {
        let inner = lock(&self.0);
        let name = path.file_name().unwrap_or_default();
        inner.everything
            || inner.files.contains(name)
            || inner.unseen.iter().any(|above| is_below(path, above))
    }
}

fn is_below(path: &RelPath, above: &RelPath) -> bool {
    above.as_bytes().is_empty()
        || path
            .as_bytes()
            .strip_prefix(above.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn resumable_temporary_files_are_kept() {
        let leftovers = Leftovers::default();
        let temp = TempName::new(7, &path("a/kept"));
        let at = path("a").join(temp.as_bytes()).unwrap();
        assert!(!leftovers.has(&at));
        leftovers.keep(temp);
        assert!(leftovers.has(&at));
        assert!(leftovers.all_seen());
        leftovers.note_failure(&path("fifo"), FaultCode::NOT_REGULAR);
        assert!(leftovers.all_seen());
        leftovers.note_failure(&path("closed"), FaultCode::PERMISSION);
        assert!(!leftovers.all_seen());
        assert!(leftovers.has(&path("closed/deep/temp")));
        assert!(!leftovers.has(&path("closed2/temp")));
        leftovers.note_failure(&RelPath::default(), FaultCode::IO);
        assert!(leftovers.has(&path("closed2/temp")));
    }

    #[test]
    fn beyond_a_bound_in_bytes_all_temporary_files_are_kept() {
        let leftovers = Leftovers::default();
        for number in 0..40 {
            let long = format!("{number}/{}", "long/".repeat(6_000));
            leftovers.note_failure(&path(&format!("{long}name")), FaultCode::IO);
        }
        assert!(lock(&leftovers.0).unseen_bytes <= UNSEEN_BYTES_MAX);
        assert!(leftovers.has(&path("elsewhere/temp")));
        assert!(!leftovers.all_seen());
    }
}
