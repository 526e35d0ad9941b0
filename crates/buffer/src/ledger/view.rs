//! Owns the view of single files: which ones the buffer has, and how much of each. Decides nothing about room or eviction.

use std::sync::Arc;

use super::Ledger;
use crate::extent::{FileKey, Keep, SourceId, State};

/// One generation of a file in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// The file.
    pub file: Arc<FileKey>,
    /// Until when its extents stay.
    pub keep: Keep,
    /// Bytes that can be served now.
    pub bytes: u64,
    /// Whether slow storage lacks some of them.
    pub is_dirty: bool,
}

impl Ledger {
    /// Whether the extent is in the buffer, or on its way there.
    #[must_use]
    pub fn has(&self, file: &FileKey, offset: u64) -> bool {
        let number = self.shelf.files.find(file);
        let known = number.and_then(|number| self.shelf.files.get(number));
        known.is_some_and(|known| known.is_superseded || known.extents.contains_key(&offset))
    }

    /// Makes a file stay at least so long, as [`Self::keep`] does.
    pub fn keep_at_least(&mut self, file: &FileKey, keep: Keep) -> bool {
        let number = self.shelf.files.find(file);
        let known = number.and_then(|number| self.shelf.files.get(number));
        match known.map(|known| known.keep) {
            None => false,
            Some(now) if now >= keep => true,
            Some(_) => self.keep(file, keep),
        }
    }

    /// The next files of a source in the order of their paths, behind `after`, at and below a path. Returns at most `most`, and no
    /// superseded generation.
    #[must_use]
    pub fn files(
        &self,
        source: SourceId,
        below: &[u8],
        after: Option<&FileKey>,
        most: usize,
    ) -> Vec<FileView> {
        let files = self.shelf.files.below(source, below, after);
        let files = files.filter(|file| !file.is_superseded);
        let views = files.map(|file| {
            let extents = file.extents.values();
            let extents = extents.filter_map(|place| self.shelf.get(*place));
            let held = extents.filter(|extent| extent.state.is_served());
            let (mut bytes, mut is_dirty) = (0, false);
            for extent in held {
                bytes += u64::from(extent.bytes);
                is_dirty |= extent.state != State::Clean;
            }
            FileView {
                file: Arc::clone(&file.key),
                keep: file.keep,
                bytes,
                is_dirty,
            }
        });
        views.take(most).collect()
    }
}
