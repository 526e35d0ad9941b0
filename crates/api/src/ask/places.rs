//! The documents about entries at places: listings, changes, and what came of them.
//! Names no site; a path begins with the name of an export.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::grant::Right;
use crate::job::{ClaimId, Text};
use crate::rest::Timestamp;

/// Most entries of one page: with names of 64 bytes they fit a document four times.
pub const LIST_MAX: u32 = 1_000;

/// Most paths that one answer names one by one; further ones are counted.
pub const NAMED_MAX: usize = 100;

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
    /// Directories above that are missing are made too, and one that is there is fine.
    #[serde(default)]
    pub parents: bool,
}

/// An entry to remove.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RemovePlace {
    /// Path of the entry, export first.
    pub path: Text,
    /// A directory goes with all that is in it.
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
    /// What stands at the new path is replaced, as far as the file system allows it.
    #[serde(default)]
    pub replace: bool,
}

impl RenamePlace {
    /// The rights that renaming needs at the old path. Reading is one of them: whoever may only write could else move what others wrote to
    /// a place where it may be read.
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

/// Where to remove temporary files that nobody needs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CleanPlace {
    /// Path of a directory, export first.
    pub path: Text,
    /// Nothing is removed; the answer says what would be.
    #[serde(default)]
    pub dry_run: bool,
    /// Files that were written to in these last seconds stay: a transfer of another machine may need them.
    #[serde(default)]
    pub older_than_seconds: u64,
    /// Tags of the temporary files of one job that has ended: these go, however new they are, with the journals that only they need, and no
    /// others. Without tags and claim, those of all transfers that nothing can resume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<u64>,
    /// The claim of the same job, where it was divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimId>,
}

/// What an entry is.
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
    /// What the entry is.
    pub kind: EntryKind,
    /// Length of its contents in bytes.
    pub size: u64,
    /// When its contents changed last.
    pub modified: Timestamp,
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    /// Where a symbolic link points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub target: Option<Text>,
}

/// A page of a directory, sorted by the bytes of the names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<EntryView>,
    /// Give this as `cursor` for the next page; None after the last one.
    #[schema(value_type = Option<serde_json::Value>)]
    pub next: Option<Text>,
}

/// An export, what the asker may do there, and how much room it has.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ExportRoom {
    /// Name of the export.
    pub name: String,
    /// The asker may read something there.
    pub read: bool,
    /// The asker may write somewhere there.
    pub write: bool,
    /// Bytes of its file system; None where that is not known.
    pub bytes_total: Option<u64>,
    /// Bytes that are free there; None where that is not known.
    pub bytes_free: Option<u64>,
}

/// A path at which something failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct FailedPlace {
    /// Path below the one that was asked for.
    #[schema(value_type = serde_json::Value)]
    pub path: Text,
    /// What failed.
    pub message: String,
}

/// What was removed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Removed {
    /// Files and links.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Entries that could not be removed.
    pub failed: u64,
    /// Some of those that could not be removed.
    pub failures: Vec<FailedPlace>,
}

/// Temporary files that stayed, for one reason.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct KeptFiles {
    /// Why they stayed.
    pub reason: String,
    /// How many there are.
    pub files: u64,
    /// Some of their paths, below the one that was asked for.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub paths: Vec<Text>,
}

/// What was cleaned.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Cleaned {
    /// Temporary files that were removed, or would be in a dry run.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Some of their paths, below the one that was asked for.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub paths: Vec<Text>,
    /// Temporary files that stayed, by reason.
    pub kept: Vec<KeptFiles>,
    /// Directories that could not be looked through, and files that could not be removed.
    pub failed: u64,
    /// Some of those.
    pub failures: Vec<FailedPlace>,
}

/// Says why names are missing.
const UNNAMED: &str = "some entries below could not be looked at or removed; the right to list is needed to see which";

/// The one line that stands for failures whose names may not be seen.
fn unnamed(failures: &mut Vec<FailedPlace>) {
    if !failures.is_empty() {
        *failures = vec![FailedPlace {
            path: Text(Vec::new()),
            message: UNNAMED.to_owned(),
        }];
    }
}

impl Removed {
    /// The same for who may not list the place.
    #[must_use]
    pub fn without_names(mut self) -> Self {
        unnamed(&mut self.failures);
        self
    }
}

impl Cleaned {
    /// The same for who may not list the place.
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
