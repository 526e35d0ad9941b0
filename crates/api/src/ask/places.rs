//! The documents about entries at places: listings, changes and their results.
//! Names no site; a path begins with the name of an export.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::grant::Right;
use crate::job::{ClaimId, Text};
use crate::rest::Timestamp;

/// Most entries of one page. With names of 64 bytes, four such pages fit a document.
pub const LIST_MAX: u32 = 1_000;

/// Most paths that one answer names. Further paths are only counted.
pub const NAMED_MAX: usize = 100;

/// Most places that one question compares: as many as a job has destinations.
pub const OVERLAPS_MAX: usize = 64;

/// A page of a directory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ListPlace {
    /// Path of the directory, export first.
    pub path: Text,
    /// Name after which the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
    /// Entries of the page.
    pub limit: u32,
}

/// A directory to make.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct MakeDirectory {
    /// Path of the directory, export first.
    pub path: Text,
    /// Also makes missing parent directories, and accepts an existing directory.
    #[serde(default)]
    pub parents: bool,
}

/// An entry to remove.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RemovePlace {
    /// Path of the entry, export first.
    pub path: Text,
    /// Removes a directory with all its contents.
    #[serde(default)]
    pub recursive: bool,
}

/// An entry to rename.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RenamePlace {
    /// Path of the entry, export first.
    pub from: Text,
    /// Path that the entry gets, in the same export.
    pub to: Text,
    /// Replaces an existing entry at the new path, as far as the file system allows it.
    #[serde(default)]
    pub replace: bool,
}

impl RenamePlace {
    /// The rights that renaming needs at the old path. Reading is needed, because a user with only write access could move files of
    /// others to a readable place.
    pub const FROM: [Right; 2] = [Right::Delete, Right::Read];

    /// The rights that renaming needs at the new path.
    #[must_use]
    pub const fn to(replace: bool) -> &'static [Right] {
        match replace {
            true => &[Right::Write, Right::Delete],
            false => &[Right::Write],
        }
    }
}

/// Selects leftover temporary files to remove.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CleanPlace {
    /// Path of a directory, export first.
    pub path: Text,
    /// Removes nothing; the answer lists the files that would be removed.
    #[serde(default)]
    pub dry_run: bool,
    /// Files modified in these last seconds stay: a transfer of another machine may need them.
    #[serde(default)]
    pub older_than_seconds: u64,
    /// Tags of the temporary files of one ended job. These files are removed whatever their age, with the journals that only
    /// they need. Without tags and claim, all files are removed that no transfer can resume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<u64>,
    /// The claim of the same job, if the job was divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimId>,
}

/// Seals a directory with an ASC MHL history.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SealPlace {
    /// Path of the directory, export first.
    pub path: Text,
    /// Kinds of digest, with commas between them.
    pub kinds: String,
    /// Checks the question and the right, and seals nothing.
    #[serde(default)]
    pub check: bool,
}

/// Result of a sealing.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sealed {
    /// Path of the new generation, below the directory.
    pub file: Text,
    /// The C4 identifier of that file.
    pub identifier: String,
    /// Files with digests in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that no history has, such as symbolic links.
    pub others: u64,
    /// Generations that a copied chain had left out, and that are in the chain again.
    #[serde(default)]
    pub rejoined: u64,
    /// Number of files that differ from the history.
    pub differing: u64,
    /// Some of those files.
    #[serde(default)]
    pub differences: Vec<FailedPlace>,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// An entry as its directory shows it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct EntryView {
    /// Name of the entry; bytes that are not UTF-8 come as `{"base64": "…"}`.
    #[schema(value_type = serde_json::Value)]
    pub name: Text,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Length of its contents in bytes.
    pub size: u64,
    /// When its contents changed last.
    pub modified: Timestamp,
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    /// Target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub target: Option<Text>,
}

/// A page of a directory, sorted by the bytes of the names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<EntryView>,
    /// Cursor of the next page; null after the last page.
    #[schema(value_type = Option<serde_json::Value>)]
    pub next: Option<Text>,
}

/// Two of the places in a question that overlap.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PlaceOverlap {
    /// Number of the first place in the question, from 0.
    pub one: usize,
    /// Number of the second one, which is larger.
    pub other: usize,
    /// They are one directory. Otherwise one of them, or a part of it, is inside the other.
    pub same: bool,
}

/// An export, the rights of the asker, and its free space.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ExportRoom {
    /// Name of the export.
    pub name: String,
    /// The asker may read some part of the export.
    pub read: bool,
    /// The asker may write to some part of the export.
    pub write: bool,
    /// Size of the file system in bytes; null if unknown.
    pub bytes_total: Option<u64>,
    /// Free bytes of the file system; null if unknown.
    pub bytes_free: Option<u64>,
}

/// A path at which something failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct FailedPlace {
    /// Path below the requested one.
    #[schema(value_type = serde_json::Value)]
    pub path: Text,
    /// Error message.
    pub message: String,
}

/// Result of a removal.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Removed {
    /// Removed files and links.
    pub files: u64,
    /// Removed directories.
    pub directories: u64,
    /// Entries that could not be removed.
    pub failed: u64,
    /// Some of the entries that could not be removed.
    pub failures: Vec<FailedPlace>,
}

/// Temporary files that stayed, for one reason.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct KeptFiles {
    /// Why they stayed.
    pub reason: String,
    /// Number of files.
    pub files: u64,
    /// Some of their paths, below the requested one.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub paths: Vec<Text>,
}

/// Result of a clean-up.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Cleaned {
    /// Temporary files that were removed, or would be in a dry run.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Some of their paths, below the requested one.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub paths: Vec<Text>,
    /// Temporary files that stayed, by reason.
    pub kept: Vec<KeptFiles>,
    /// Directories that could not be scanned, and files that could not be removed.
    pub failed: u64,
    /// Some of those failures.
    pub failures: Vec<FailedPlace>,
}

/// Explains why names are missing.
const UNNAMED: &str = "some entries below could not be read or removed; the right to list is needed to see their names";

/// Replaces failures with one line without names.
fn unnamed(failures: &mut Vec<FailedPlace>) {
    if !failures.is_empty() {
        *failures = vec![FailedPlace {
            path: Text(Vec::new()),
            message: UNNAMED.to_owned(),
        }];
    }
}

impl Removed {
    /// The result without names, for a caller who may not list the place.
    #[must_use]
    pub fn without_names(mut self) -> Self {
        unnamed(&mut self.failures);
        self
    }
}

impl Cleaned {
    /// The result without names, for a caller who may not list the place.
    #[must_use]
    pub fn without_names(mut self) -> Self {
        unnamed(&mut self.failures);
        self.paths.clear();
        self.kept.iter_mut().for_each(|kept| kept.paths.clear());
        self
    }
}

/// Kind and mode as `ls -l` shows them.
#[must_use]
pub fn mode_text(kind: EntryKind, mode: u32) -> String {
    let mut text = String::with_capacity(10);
    text.push(match kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'l',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
        EntryKind::CharDevice => 'c',
        EntryKind::BlockDevice => 'b',
        EntryKind::Other => '?',
    });
    for (shift, special, marks) in [
        (6, 0o4000, ['s', 'S']),
        (3, 0o2000, ['s', 'S']),
        (0, 0o1000, ['t', 'T']),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => marks[0],
            (true, false) => marks[1],
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_in_ls() {
        for (kind, mode, expected) in [
            (EntryKind::File, 0o644, "-rw-r--r--"),
            (EntryKind::Directory, 0o1777, "drwxrwxrwt"),
            (EntryKind::File, 0o4755, "-rwsr-xr-x"),
            (EntryKind::File, 0o6600, "-rwS--S---"),
            (EntryKind::Symlink, 0o777, "lrwxrwxrwx"),
        ] {
            assert_eq!(mode_text(kind, mode), expected);
        }
    }
}
