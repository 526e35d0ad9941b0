//! Shares the pages of several scans of one source: asks `hold` which scan reads, waits, and keeps what others take.
//! Decides nothing, and reads no directory.
//!
//! A page has names of a small directory, or the metadata of up to 128 names in one. Its key has all names that it is about, so a page
//! never stands for another state of a listing. Names of large directories are listed by each scan, and their metadata is shared.
//!
//! **A page serves scans, and nothing else.** Whether a file has changed since the scan is asked of the storage: when the file is opened,
//! read, and described again. A page is at most [`PAGE_AGE`] old, and was read in the present attempt of the scan that takes it.
//!
//! One lock guards the pages and the waiting threads. No thread holds it while it reads or waits.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use godwit_hold::{AskId, Destination, PageAnswer, PageBound, PageFigures, PageHold, ReadId};

use super::look::Looked;
use super::root::DirectoryId;
use super::walk::Names;
use super::xattr::Wanted;
use crate::path::RelPath;

/// Age at which a page is read again: about as old as the metadata that a network mount shows.
const PAGE_AGE: Duration = Duration::from_secs(60);

/// About how much memory a page takes beside its contents and its key.
const PAGE_BYTES: usize = 512;

/// The pages that scans of one source share.
pub struct ScanPages {
    state: Mutex<State>,
    began: Instant,
}

type KeyPages = PageHold<Arc<PageKey>, Page>;

struct State {
    hold: KeyPages,
    waiting: HashMap<AskId, Thread>,
}

/// The place of one destination's scans at the shared pages.
#[derive(Clone)]
pub struct ScanSeat {
    pages: Arc<ScanPages>,
    who: Destination,
    /// Number of the root among those of all destinations.
    root: u32,
    /// No page whose reading began earlier is taken.
    since: Duration,
}

/// A part of a scan.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct PageKey {
    /// The root of the storage, and its number. A directory may be mounted twice, with other file systems below it.
    root: (DirectoryId, u32),
    /// The attributes that the scans read.
    wanted: (bool, bool, bool),
    directory: RelPath,
    /// The names that were looked at, each before a slash; `None` for the listing.
    names: Option<Vec<u8>>,
    /// A hash of all above.
    print: u64,
}

impl Hash for PageKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print);
    }
}

impl PageKey {
    fn weight(&self) -> usize {
        let names = self.names.as_ref().map_or(0, Vec::len);
        PAGE_BYTES + self.directory.as_bytes().len() + names
    }
}

/// The contents of a page.
#[derive(Clone)]
pub(super) enum Page {
    /// All names of a directory.
    Names(Arc<Names>),
    /// One look at each name of the key.
    Looks(Arc<[SharedLook]>),
}

impl Page {
    fn weight(&self) -> usize {
        match self {
            Self::Names(names) => names.weight(),
            Self::Looks(looks) => looks.iter().map(SharedLook::weight).sum(),
        }
    }
}

/// The result of a look, for scans that may choose in another way.
#[derive(Debug)]
pub(super) enum SharedLook {
    /// The entry.
    Seen(Box<Looked>),
    /// The name was not chosen, so nothing is known about it.
    Left,
    /// Each scan has to look.
    Nothing,
}

impl SharedLook {
    fn weight(&self) -> usize {
        match self {
            Self::Seen(looked) => looked.weight(),
            Self::Left | Self::Nothing => size_of::<Self>(),
        }
    }
}

/// The next act of a scan that needs a page.
pub(super) enum Turn<'a> {
    /// Take the page.
    Take(Page),
    /// Read.
    Read(PageReading<'a>),
}

/// A page that this scan reads. If it is dropped before its end, another scan reads.
pub(super) struct PageReading<'a> {
    pages: &'a ScanPages,
    id: Option<ReadId>,
    weight: usize,
}

impl PageReading<'_> {
    /// Whether other scans may take the page.
    pub(super) const fn is_kept(&self) -> bool {
        self.id.is_some()
    }

    /// The page was read without an error.
    pub(super) fn end(mut self, page: Page) {
        if let Some(id) = self.id.take() {
            let bytes = (self.weight + page.weight()) as u64;
            self.pages
                .with(|hold, _| hold.finish(id, Some((page, bytes))));
        }
    }
}

impl Drop for PageReading<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.pages.with(|hold, _| hold.finish(id, None));
        }
    }
}

/// The pages of one scan.
pub(super) struct PagesOfScan {
    pub(super) seat: ScanSeat,
    pub(super) root: DirectoryId,
    pub(super) wanted: Wanted,
}

impl PagesOfScan {
    /// The names of a directory.
    pub(super) fn listing(&self, directory: &RelPath) -> Turn<'_> {
        self.turn(directory, None)
    }

    /// Looks at these names of a directory.
    pub(super) fn looks(
        &self,
        directory: &RelPath,
        (names, range): (&Names, Range<usize>),
    ) -> Turn<'_> {
        let mut joined = Vec::new();
        for index in range {
            joined.extend_from_slice(names.get(index).0);
            joined.push(b'/');
        }
        self.turn(directory, Some(joined))
    }

    fn turn(&self, directory: &RelPath, names: Option<Vec<u8>>) -> Turn<'_> {
        let wanted = (self.wanted.xattrs, self.wanted.acls, self.wanted.privileged);
        let mut hasher = DefaultHasher::new();
        let root = (self.root, self.seat.root);
        (root, wanted, directory, &names).hash(&mut hasher);
        let key = PageKey {
            root,
            wanted,
            directory: directory.clone(),
            names,
            print: hasher.finish(),
        };
        self.seat.turn(&Arc::new(key))
    }
}

impl ScanSeat {
    /// The place of the scans of this destination.
    #[must_use]
    pub fn new(pages: &Arc<ScanPages>, who: Destination) -> Self {
        Self {
            pages: Arc::clone(pages),
            who,
            root: 0,
            since: Duration::ZERO,
        }
    }

    /// The place for the root that has this number, counted from the root of this place. Scans of different roots share nothing.
    #[must_use]
    pub fn at_root(&self, root: u16) -> Self {
        Self {
            root: self.root.saturating_add(root.into()),
            ..self.clone()
        }
    }

    /// The place for a scan that has to find what the storage has now: it takes no page whose reading began earlier.
    #[must_use]
    pub fn from_now(&self) -> Self {
        Self {
            since: self.pages.began.elapsed(),
            ..self.clone()
        }
    }

    fn turn(&self, key: &Arc<PageKey>) -> Turn<'_> {
        let pages = &*self.pages;
        let from = (self.who, self.since);
        let mut answer = pages.ask(|hold, now| hold.ask_since(now, from, key));
        loop {
            match answer {
                PageAnswer::Take(page) => return Turn::Take(page),
                PageAnswer::Read(id) => {
                    return Turn::Read(PageReading {
                        pages,
                        id,
                        weight: key.weight(),
                    });
                }
                PageAnswer::Wait(ask, until) => {
                    std::thread::park_timeout(until.saturating_sub(pages.began.elapsed()));
                    pages.lock().waiting.remove(&ask);
                    answer = pages.ask(|hold, now| hold.again(now, ask));
                }
            }
        }
    }
}

impl ScanPages {
    /// Pages of at most this many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let bound = PageBound {
            bytes,
            age: PAGE_AGE,
        };
        Self {
            state: Mutex::new(State {
                hold: PageHold::new(bound),
                waiting: HashMap::new(),
            }),
            began: Instant::now(),
        }
    }

    /// A destination begins, perhaps again.
    pub fn join(&self, who: Destination) {
        self.with(|hold, now| hold.join(now, who));
    }

    /// A destination has ended, or begins again later.
    pub fn leave(&self, who: Destination) {
        self.with(|hold, _| hold.leave(who));
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> PageFigures {
        self.lock().hold.figures()
    }

    /// Asks, and notes the thread if it has to wait.
    fn ask(
        &self,
        ask: impl FnOnce(&mut KeyPages, Duration) -> PageAnswer<Page>,
    ) -> PageAnswer<Page> {
        let mut state = self.lock();
        let now = self.began.elapsed();
        let answer = ask(&mut state.hold, now);
        if let PageAnswer::Wait(id, _) = &answer {
            state.waiting.insert(*id, std::thread::current());
        }
        wake(state);
        answer
    }

    fn with(&self, act: impl FnOnce(&mut KeyPages, Duration)) {
        let mut state = self.lock();
        let now = self.began.elapsed();
        act(&mut state.hold, now);
        wake(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the threads whose questions are to be asked again.
fn wake(mut state: MutexGuard<'_, State>) {
    let woken = state.hold.woken();
    let threads: Vec<Thread> = woken
        .iter()
        .filter_map(|id| state.waiting.remove(id))
        .collect();
    drop(state);
    for thread in threads {
        thread.unpark();
    }
}
