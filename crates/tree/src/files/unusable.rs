//! Handles errors that end a transfer at its beginning: a source's own directory can be neither made nor opened at the
//! destination. Ignores entries below the destination, which fail one by one.

use std::sync::OnceLock;

use godwit_proto::Record;
use godwit_store::{RelPath, StoreError, StoreErrorKind};

use crate::files::target::Target;

/// The reason why nothing can be written to the destination, once it is known.
#[derive(Default)]
pub(crate) struct Unusable(OnceLock<String>);

impl Unusable {
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Records an error that prevents a directory. For the directory of a whole source it ends the transfer, because all its contents
    /// would fail for the same reason. Lack of space does not end the transfer, nor does a name that another entry has in `sync`. With
    /// several sources, the transfer ends only if the error would affect all of them. Any other error fails only its entry.
    pub(crate) fn note(
        &self,
        target: &Target,
        record: &Record,
        path: &RelPath,
        error: &StoreError,
    ) {
        let is_one_of_several = target.config.mapping.len() > 1;
        let counterpart = target.comparison().counterpart;
        if record.path.is_empty() && ends_all(error.kind, is_one_of_several, counterpart) {
            self.0.get_or_init(|| describe(target, path, error));
        }
    }
}

fn describe(target: &Target, path: &RelPath, error: &StoreError) -> String {
    let around = place(target, &path.parent().unwrap_or_default());
    let (trouble, mend) = match error.kind {
        StoreErrorKind::Permission => (
            format!("permission denied, there or in {around}"),
            "give the writing user permission, or name another place".to_owned(),
        ),
        StoreErrorKind::ReadOnly => (
            "the file system is read-only".to_owned(),
            "mount the file system for writing, or name another place".to_owned(),
        ),
        StoreErrorKind::NotFound => (
            format!("{around} no longer exists"),
            "make it, or name another place".to_owned(),
        ),
        StoreErrorKind::TypeConflict => (
            "an entry that is not a directory is there".to_owned(),
            "move it away, or name another place".to_owned(),
        ),
        _ => (error.to_string(), "mend that".to_owned()),
    };
    format!(
        "the destination {} cannot be used: {trouble}; {mend}, and give the same command again",
        place(target, path)
    )
}

fn place(target: &Target, path: &RelPath) -> String {
    let display = &target.config.display;
    let name = match (path.is_root(), display.is_empty()) {
        (true, true) => b".".to_vec(),
        (true, false) => display.clone(),
        _ => target.shown(path),
    };
    String::from_utf8_lossy(&name).into_owned()
}

/// Whether the error for the directory of a source prevents all later entries.
fn ends_all(kind: StoreErrorKind, is_one_of_several: bool, counterpart: bool) -> bool {
    match kind {
        StoreErrorKind::NoSpace => false,
        StoreErrorKind::Permission | StoreErrorKind::ReadOnly | StoreErrorKind::NotFound => true,
        StoreErrorKind::TypeConflict => !counterpart && !is_one_of_several,
        _ => !is_one_of_several,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_sources_one_with_a_name_of_its_own_trouble_ends_nothing() {
        for kind in [
            StoreErrorKind::NameTooLong,
            StoreErrorKind::Unsupported,
            StoreErrorKind::TypeConflict,
            StoreErrorKind::Io,
        ] {
            assert!(!ends_all(kind, true, false), "{kind:?}");
            assert!(ends_all(kind, false, false), "{kind:?}");
        }
        for kind in [StoreErrorKind::Permission, StoreErrorKind::ReadOnly] {
            assert!(ends_all(kind, true, false), "{kind:?}");
        }
        assert!(!ends_all(StoreErrorKind::TypeConflict, false, true));
        assert!(!ends_all(StoreErrorKind::NoSpace, false, false));
    }
}
