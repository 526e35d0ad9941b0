//! Counts entries of a source, so that the closing of a large tree can be divided into regions. Does not
//! divide, and examines no entry more than necessary.

use godwit_api::failure::Code;
use godwit_engine::entry;
use godwit_proto::limits::{REGION_BYTES_MAX, REGION_DIRECTORIES_MAX};
use godwit_proto::{EntryId, Side};
use godwit_store::{Kind, StoreError, SurveyItem, TempName};

use super::{Walk, share_of};
use crate::reports::code;

/// Most failed entries of one directory; with more, the whole directory counts as unreadable.
const UNREAD_MAX: usize = 1_000;

/// One close finishes a directory with more names than this many times those of a walk: their order would take too much memory.
const NAMES_TIMES: usize = 100;

/// The contents of a directory, or one share of the directories in it.
#[derive(Debug, Default)]
pub struct Tally {
    /// The directories in it, below the source.
    pub directories: Vec<Vec<u8>>,
    /// Whether the directory has more entries than were counted, or more directories than one transfer
    /// can name.
    pub is_large: bool,
    /// Entries that the source has but cannot read. An unread entry may be a directory.
    pub unread: Vec<Unread>,
}

/// An entry of the source whose state is unknown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unread {
    /// Path below the source.
    pub path: Vec<u8>,
    /// Cause for programs.
    pub code: Code,
    /// Error message for users.
    pub message: String,
}

impl Unread {
    pub(super) fn of(path: &[u8], error: &StoreError) -> Self {
        let fault = entry::fault(EntryId(0), Side::SOURCE, error);
        Self {
            path: path.to_vec(),
            code: code(fault.code),
            message: fault.message,
        }
    }
}

impl Walk {
    /// Counts up to `most` entries at and below a directory, or below one share of the directories in it. A directory with very many names
    /// is not counted, and not large.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn tally(
        &self,
        from: &[u8],
        (share, shares): (u32, u32),
        most: u64,
    ) -> Result<Tally, Unread> {
        self.count(from, (share, shares), most)
            .map_err(|error| Unread::of(from, &error))
    }

    fn count(
        &self,
        from: &[u8],
        (share, shares): (u32, u32),
        most: u64,
    ) -> Result<Tally, StoreError> {
        let storage = &self.root.storage;
        let names_max = self.limits.names.saturating_mul(NAMES_TIMES);
        let (mut names, mut is_over) = (Vec::new(), false);
        storage.names_in(&self.path(from)?, &mut |name| {
            let is_ours = shares == 1 || share_of(name, shares) == share;
            if !is_ours || TempName::is_temp(name) {
                return;
            }
            match shares == 1 && names.len() >= names_max {
                true => is_over = true,
                false => names.push(name.to_vec()),
            }
        })?;
        if is_over {
            return Ok(Tally::default());
        }
        names.sort_unstable();
        let (mut tally, mut count) = (Tally::default(), 0);
        let mut look = storage.look();
        for name in &names {
            let path = match from {
                b"" => name.clone(),
                _ => [from, b"/", name].concat(),
            };
            let Ok(place) = self.path(&path) else {
                continue;
            };
            let meta = match look.stat(&place) {
                Ok(Some(meta)) => meta,
                Ok(None) => continue,
                Err(error) if tally.unread.len() >= UNREAD_MAX => return Err(error),
                Err(error) => {
                    tally.unread.push(Unread::of(&path, &error));
                    continue;
                }
            };
            count += 1;
            if meta.kind == Kind::Directory && !self.select.leaves_out(&path, true) {
                tally.directories.push(path);
            }
        }
        drop(look);
        for directory in &tally.directories {
            // A directory that cannot be listed fails in the transfer.
            let _ = storage.survey(&self.path(directory)?, &mut |item| {
                count += u64::from(matches!(item, SurveyItem::Entry { .. }));
                count <= most
            });
            if count > most {
                break;
            }
        }
        let bytes: usize = tally.directories.iter().map(Vec::len).sum();
        tally.is_large = count > most
            || tally.directories.len() > REGION_DIRECTORIES_MAX
            || bytes > REGION_BYTES_MAX;
        Ok(tally)
    }
}
