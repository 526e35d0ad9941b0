//! Settings of what becomes of entries that are at the destination.
//! Compares nothing.

use crate::settings::resolve::Values;

/// How an entry that is at the destination is judged to be the same.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Judge {
    /// By size and modification time.
    #[default]
    SizeAndTime,
    /// By size and contents.
    Checksum,
    /// By size.
    Size,
}

/// What becomes of entries that are at the destination; each field is the setting of its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ComparisonSettings {
    /// From `checksum` and `size-only`.
    pub judge: Judge,
    /// Newer ones stay.
    pub update: bool,
    /// Nothing new is made.
    pub existing: bool,
    /// What is there stays.
    pub ignore_existing: bool,
    /// Only of `sync`.
    pub delete: bool,
    /// Only of `sync`: what only the destination has goes before anything is sent.
    pub delete_before: bool,
    /// Only of `sync`; None is no limit.
    pub max_delete: Option<u64>,
    /// Change nothing.
    pub dry_run: bool,
    /// `checksum` and `size-only` were both asked for.
    pub contradicts: bool,
    /// No setting: whether the destination is the source's counterpart, as for `sync`.
    pub counterpart: bool,
}

impl ComparisonSettings {
    pub(super) fn from_values(values: &Values) -> Self {
        Self {
            judge: match (values.flag("checksum"), values.flag("size-only")) {
                (true, _) => Judge::Checksum,
                (false, true) => Judge::Size,
                (false, false) => Judge::SizeAndTime,
            },
            contradicts: values.flag("checksum") && values.flag("size-only"),
            update: values.flag("update"),
            existing: values.flag("existing"),
            ignore_existing: values.flag("ignore-existing"),
            dry_run: values.flag("dry-run"),
            ..Self::default()
        }
    }
}
