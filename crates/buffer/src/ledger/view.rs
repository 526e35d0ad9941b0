//! Owns the view of single files: which ones the buffer has, and how much of each. Decides nothing about room or eviction.

use std::sync::Arc;

use super::Ledger;
use crate::extent::{FileKey, Keep, SourceId, State};

/// Bytes of the paths of a list. A list ends with the file that reaches them: paths may be long, and clients may leave many answers unread.
const PATHS_BYTES_MAX: usize = 256 << 10;

/// One generation of a file in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// The file.
    pub file: Arc<FileKey>,
    /// Time until which the extents of the file stay.
    pub keep: Keep,
    /// Bytes that can be served now.
    pub bytes: u64,
    /// Whether slow storage lacks some bytes of the file.
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

    /// The keys of the next files of a source at and below a path. They follow `after` in the order of their paths. Returns at
    /// most `most`, and
    /// no superseded generation.
    #[must_use]
    pub fn keys(
        &self,
        source: SourceId,
        below: &[u8],
        after: Option<&FileKey>,
        most: usize,
    ) -> Vec<Arc<FileKey>> {
        let files = self.shelf.files.below(source, below, after);
        let files = files.filter(|file| !file.is_superseded);
        files.take(most).map(|file| Arc::clone(&file.key)).collect()
    }
}

/// A list of the files at and below a path of a source, made in steps. So no step holds the ledger for long: a file may have millions
/// of extents.
#[derive(Debug)]
pub struct FileList<'a> {
    source: SourceId,
    below: &'a [u8],
    most: usize,
    /// The last file that was looked at.
    after: Option<Arc<FileKey>>,
    /// The file after it, with the extents looked at so far.
    part: Option<Part>,
    found: Vec<FileView>,
    /// Bytes of the paths of the files.
    paths_bytes: usize,
    has_more: bool,
}

#[derive(Debug)]
struct Part {
    view: FileView,
    /// The offset of the next extent.
    next: u64,
}

impl Part {
    fn of(file: &Arc<FileKey>) -> Self {
        Self {
            view: FileView {
                file: Arc::clone(file),
                keep: Keep::No,
                bytes: 0,
                is_dirty: false,
            },
            next: 0,
        }
    }
}

impl<'a> FileList<'a> {
    /// An empty list, which will have at most `most` files, behind `after`, and 256 KiB of paths.
    #[must_use]
    pub fn new(source: SourceId, below: &'a [u8], after: Option<&FileKey>, most: usize) -> Self {
        Self {
            source,
            below,
            most,
            after: after.cloned().map(Arc::new),
            part: None,
            found: Vec::new(),
            paths_bytes: 0,
            has_more: false,
        }
    }

    /// Adds files in the order of [`Ledger::keys`]. Looks at no more than `work` files and extents; the next call continues there.
    /// Returns whether the list is complete.
    pub fn look(&mut self, ledger: &Ledger, work: usize) -> bool {
        // A step that looks at a file only would not come further.
        let mut work = work.max(2);
        let (shelf, after) = (&ledger.shelf, self.after.clone());
        for file in shelf.files.below(self.source, self.below, after.as_deref()) {
            if self.found.len() >= self.most || self.paths_bytes >= PATHS_BYTES_MAX {
                self.has_more = true;
                return true;
            }
            if work == 0 {
                return false;
            }
            work -= 1;
            if !file.is_superseded {
                // The file of the last step may have been removed meanwhile.
                let part = self.part.take().filter(|part| part.view.file == file.key);
                let mut part = part.unwrap_or_else(|| Part::of(&file.key));
                for (offset, place) in file.extents.range(part.next..) {
                    if work == 0 {
                        part.next = *offset;
                        self.part = Some(part);
                        return false;
                    }
                    work -= 1;
                    let extent = shelf.get(*place);
                    if let Some(extent) = extent.filter(|extent| extent.state.is_served()) {
                        part.view.bytes += u64::from(extent.bytes);
                        part.view.is_dirty |= extent.state != State::Clean;
                    }
                }
                part.view.keep = file.keep;
                self.paths_bytes += file.key.path.len();
                self.found.push(part.view);
            }
            self.after = Some(Arc::clone(&file.key));
        }
        true
    }

    /// The files, and whether further ones may follow.
    #[must_use]
    pub fn into_page(self) -> (Vec<FileView>, bool) {
        (self.found, self.has_more)
    }
}
