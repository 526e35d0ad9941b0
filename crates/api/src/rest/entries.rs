//! The documents for changes of entries at places.
//! The answers are documents of `ask`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Text;

/// A directory to make.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDirectory {
    /// Place of the directory, as `SITE:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/new")]
    pub place: Text,
    /// Also makes missing parent directories, and accepts an existing directory.
    #[serde(default)]
    pub parents: bool,
}

/// An entry to remove.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveEntry {
    /// Place of the entry, as `SITE:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/old")]
    pub place: Text,
    /// Removes a directory with all its contents.
    #[serde(default)]
    pub recursive: bool,
}

/// An entry to rename.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameEntry {
    /// Place of the entry, as `SITE:/EXPORT/PATH`.
    #[schema(value_type = String, example = "here:/data/old")]
    pub from: Text,
    /// New place of the entry, in the same export.
    #[schema(value_type = String, example = "here:/data/new")]
    pub to: Text,
    /// Replaces an existing entry at the new place, as far as the file system allows it.
    #[serde(default)]
    pub replace: bool,
}

/// Selects leftover temporary files to remove.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanEntries {
    /// Place of a directory, as `SITE:/EXPORT/PATH`; empty with `job`.
    #[serde(default)]
    #[schema(value_type = String, example = "here:/data")]
    pub place: Text,
    /// Id of an ended job of the caller. Removes only files that this job left at its destination, whatever their age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Removes nothing; the answer lists the files that would be removed.
    #[serde(default)]
    pub dry_run: bool,
    /// Files modified in these last seconds stay; default 3600.
    #[serde(default = "an_hour")]
    pub older_than_seconds: u64,
}

const fn an_hour() -> u64 {
    3_600
}
