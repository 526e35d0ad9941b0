//! Settings for entries that already exist at the destination.
//! Compares nothing.

use crate::settings::resolve::Values;

/// How an existing entry at the destination is judged to be equal.
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

/// Treatment of entries that already exist at the destination. Each field is the setting of its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ComparisonSettings {
    /// From `checksum` and `size-only`.
    pub judge: Judge,
    /// Newer entries at the destination stay.
    pub update: bool,
    /// No new entries are made.
    pub existing: bool,
    /// Existing entries stay as they are.
    pub ignore_existing: bool,
    /// An entry fails if it would replace an entry with other contents.
    pub no_replace: bool,
    /// Only for `sync`: extra entries at the destination are deleted.
    pub delete: bool,
    /// Only for `sync`: extra entries at the destination are deleted before anything is sent.
    pub delete_before: bool,
    /// Only for `sync`: most entries to delete; None is no limit.
    pub max_delete: Option<u64>,
    /// Changes nothing.
    pub dry_run: bool,
    /// Both `checksum` and `size-only` were given.
    pub contradicts: bool,
    /// Not a setting: whether the destination is the counterpart of the source, as for `sync`.
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
            no_replace: values.flag("no-replace"),
            dry_run: values.flag("dry-run"),
            ..Self::default()
        }
    }
}
