//! The documents by which clients have entries at places changed.
//! What comes back are the documents of `ask`.

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
    /// Directories above that are missing are made too, and one that is there is fine.
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
    /// A directory goes with all that is in it.
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
    /// Place that it gets, in the same export.
    #[schema(value_type = String, example = "here:/data/new")]
    pub to: Text,
    /// What stands at the new place is replaced, as far as the file system allows it.
    #[serde(default)]
    pub replace: bool,
}

/// Where to remove temporary files that nobody needs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanEntries {
    /// Place of a directory, as `SITE:/EXPORT/PATH`; left out with `job`.
    #[serde(default)]
    #[schema(value_type = String, example = "here:/data")]
    pub place: Text,
    /// Id of a job that has ended and whose owner asks: what it left at its destination goes, however new it is, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Nothing is removed; the answer says what would be.
    #[serde(default)]
    pub dry_run: bool,
    /// Files that were written to in these last seconds stay; 3600 if it is missing.
    #[serde(default = "an_hour")]
    pub older_than_seconds: u64,
}

const fn an_hour() -> u64 {
    3_600
}
