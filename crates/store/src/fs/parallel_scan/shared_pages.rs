//! Owns the part of a scan that reads its pages once for several scans: lists a directory, or takes its names, and takes looks.
//! Does not decide which scan reads (`pages` asks), and shares no faults.

use super::state::{Listing, NameRange, Opened, PORTION_NAMES};
use super::{Finds, Listed, Looker, Shared, Tools};
use crate::error::StoreError;
use crate::fs::pages::{Page, PageReading, SharedLook, Turn};
use crate::fs::walk::{Found, ListingBuffer, Names};
use crate::path::RelPath;
use crate::storage::ScanItem;
use std::sync::Arc;

/// Most names, about, of a directory whose listing is shared: some 200 KiB. The listing of a larger one takes a thousandth of the calls
/// that its metadata takes.
const SHARED_NAMES_MAX: usize = 4096;

/// A scan's looks at a portion of names.
pub(super) enum Looking<'a> {
    /// For itself.
    Own,
    /// For others too, with the looks so far.
    ForAll(PageReading<'a>, Vec<SharedLook>),
}

impl Looking<'_> {
    /// Looks at the next name.
    pub(super) fn look<L: Looker>(
        &mut self,
        looker: &L,
        found: Found<'_>,
        tools: &mut L::Tools,
        finds: &mut Finds,
    ) {
        match self {
            Self::Own => looker.look(found, tools, finds),
            Self::ForAll(_, looks) => looks.push(looker.look_for_all(found, tools, finds)),
        }
    }

    /// All names of the portion were looked at.
    pub(super) fn end(self) {
        if let Self::ForAll(reading, looks) = self {
            reading.end(Page::Looks(looks.into()));
        }
    }
}

impl<L: Looker + 'static> Shared<L> {
    /// Lists a directory, or takes its names from another scan. Returns one portion, and leaves the others to other threads.
    pub(super) fn open(
        &self,
        path: RelPath,
        buffer: &mut ListingBuffer,
        finds: &mut Finds,
    ) -> Option<NameRange> {
        let turn = self.looker.pages().map(|pages| pages.listing(&path));
        // All scans must divide the names in the same places, or no looks are shared.
        let wanted = match turn {
            Some(_) => SHARED_NAMES_MAX,
            None => PORTION_NAMES,
        };
        let reading = match turn {
            Some(Turn::Take(Page::Names(names))) => {
                let listing = Arc::new(Listing::of(path));
                return self.begin(Opened::new(listing, names, true));
            }
            Some(Turn::Read(reading)) if reading.is_kept() => Some(reading),
            _ => None,
        };
        self.read_names(
            Arc::new(Listing::of(path)),
            (wanted, reading),
            buffer,
            finds,
        )
    }

    /// Reads more names of a directory. Returns one portion, and leaves the others to other threads.
    pub(super) fn list(
        &self,
        listing: Arc<Listing>,
        buffer: &mut ListingBuffer,
        finds: &mut Finds,
    ) -> Option<NameRange> {
        self.read_names(listing, (PORTION_NAMES, None), buffer, finds)
    }

    /// Reads names until there are `wanted`; for others too if they are all names of the directory and `reading` is given.
    fn read_names(
        &self,
        listing: Arc<Listing>,
        (wanted, reading): (usize, Option<PageReading<'_>>),
        buffer: &mut ListingBuffer,
        finds: &mut Finds,
    ) -> Option<NameRange> {
        let fd = match listing.fd(&self.directories) {
            Ok(fd) => fd,
            Err(error) => {
                finds.push(ScanItem::Fault(error));
                return None;
            }
        };
        let mut names = Names::default();
        let filled = names.fill_to(wanted, fd, buffer);
        let names = Arc::new(names);
        let ended = match filled {
            Ok(ended) => {
                if let Some(reading) = reading
                    && ended
                {
                    reading.end(Page::Names(Arc::clone(&names)));
                }
                ended
            }
            Err(errno) => {
                let error = StoreError::from_errno("list", &listing.path, errno);
                finds.push(ScanItem::Fault(error));
                true
            }
        };
        self.begin(Opened::new(listing, names, ended))
    }

    /// Takes one portion of the names, and leaves the others to other threads.
    fn begin(&self, mut opened: Opened) -> Option<NameRange> {
        let portion = opened.take();
        let mut inner = self.lock();
        inner.state.open(opened);
        self.wake_helpers(&inner);
        portion
    }

    /// Takes the looks at a portion from another scan; if there are none, returns how to look.
    pub(super) fn begin_looks(
        &self,
        portion: &NameRange,
        tools: &mut Tools<L>,
        finds: &mut Finds,
    ) -> Option<Looking<'_>> {
        let (listing, names) = (&portion.listing, &*portion.names);
        let turn = self
            .looker
            .pages()
            .map(|pages| pages.looks(&listing.path, (names, portion.range.clone())));
        let looks = match turn {
            Some(Turn::Take(Page::Looks(looks))) => looks,
            Some(Turn::Read(reading)) if reading.is_kept() => {
                let looks = Vec::with_capacity(portion.range.len());
                return Some(Looking::ForAll(reading, looks));
            }
            _ => return Some(Looking::Own),
        };
        finds.items.reserve(portion.range.len());
        for (index, look) in portion.range.clone().zip(looks.iter()) {
            let (name, kind) = names.get(index);
            let listed = Listed {
                parent: &listing.path,
                name,
                kind,
            };
            if self.looker.take_over(listed, look, finds) {
                continue;
            }
            match listing.fd(&self.directories) {
                Ok(directory) => {
                    let found = Found {
                        directory,
                        parent: &listing.path,
                        name,
                        kind,
                    };
                    self.looker.look(found, &mut tools.own, finds);
                }
                Err(error) => {
                    finds.push(ScanItem::Fault(error));
                    return None;
                }
            }
        }
        None
    }
}
