//! Counts entries of a source, so that the close of a large tree is divided into regions.
//! Divides nothing, and looks at no entry more than it must.

use godwit_api::failure::{Failure, FailureCode};
use godwit_proto::limits::{REGION_BYTES_MAX, REGION_DIRECTORIES_MAX};
use godwit_store::{Kind, StoreError, SurveyItem, TempName};

use super::{Walk, share_of};

/// The contents of a directory, or one share of the directories in it.
#[derive(Debug, Default)]
pub struct Tally {
    /// The directories in it, below the source.
    pub directories: Vec<Vec<u8>>,
    /// It has more entries than were counted, or more directories than one transfer names.
    pub is_large: bool,
}

impl Walk {
    /// Counts up to `most` entries at and below a directory, or below one share of the directories in it.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn tally(
        &self,
        from: &[u8],
        (share, shares): (u32, u32),
        most: u64,
    ) -> Result<Tally, Failure> {
        self.count(from, (share, shares), most)
            .map_err(|error| Failure::new(FailureCode::LocalFailure, error))
    }

    fn count(
        &self,
        from: &[u8],
        (share, shares): (u32, u32),
        most: u64,
    ) -> Result<Tally, StoreError> {
        let storage = &self.root.storage;
        let mut names = Vec::new();
        storage.names_in(&self.path(from)?, &mut |name| {
            let is_ours = shares == 1 || share_of(name, shares) == share;
            if is_ours && !TempName::is_temp(name) {
                names.push(name.to_vec());
            }
        })?;
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
            let Ok(Some(meta)) = look.stat(&place) else {
                continue;
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
