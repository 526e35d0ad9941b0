//! Owns what ends a transfer at its beginning: a source's own directory that can be neither made nor opened at the destination.
//! Judges nothing below it; there an entry fails by itself.

use std::sync::OnceLock;

use godwit_proto::Record;
use godwit_store::{RelPath, StoreError, StoreErrorKind};

use super::sink::TreeSink;

/// Why nothing can go to the destination, once that is known.
pub(super) type Unusable = OnceLock<String>;

impl TreeSink {
    /// Takes note of what prevents a directory. That of a whole source ends the transfer, for all that is in it would fail likewise,
    /// one by one. Room that is lacking now does not, and a name that something else has neither in `sync` nor among several sources:
    /// there it is the entry's.
    pub(super) fn note_unusable(&self, record: &Record, path: &RelPath, error: &StoreError) {
        let passed_over = match error.kind {
            StoreErrorKind::NoSpace => true,
            StoreErrorKind::TypeConflict => {
                self.comparison().counterpart || self.config.mapping.len() > 1
            }
            _ => false,
        };
        if record.path.is_empty() && !passed_over {
            self.unusable.get_or_init(|| self.describe(path, error));
        }
    }

    fn describe(&self, path: &RelPath, error: &StoreError) -> String {
        let around = self.place(&path.parent().unwrap_or_default());
        let (trouble, mend) = match error.kind {
            StoreErrorKind::Permission => (
                format!("permission denied, there or in {around}"),
                "let the user in that writes there, or name another place".to_owned(),
            ),
            StoreErrorKind::ReadOnly => (
                "the file system is read-only".to_owned(),
                "mount it for writing, or name another place".to_owned(),
            ),
            StoreErrorKind::NotFound => (
                format!("{around} is not there any more"),
                "make it, or name another place".to_owned(),
            ),
            StoreErrorKind::TypeConflict => (
                "something that is no directory stands there".to_owned(),
                "move it away, or name another place".to_owned(),
            ),
            _ => (error.to_string(), "mend that".to_owned()),
        };
        format!(
            "the destination {} cannot be used: {trouble}; {mend}, and give the same command again",
            self.place(path)
        )
    }

    fn place(&self, path: &RelPath) -> String {
        let display = &self.config.display;
        let name = match (path.is_root(), display.is_empty()) {
            (true, true) => b".".to_vec(),
            (true, false) => display.clone(),
            _ => self.shown(path),
        };
        String::from_utf8_lossy(&name).into_owned()
    }
}
