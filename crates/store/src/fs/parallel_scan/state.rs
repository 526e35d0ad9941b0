//! Owns the queues between the threads of a scan: directories to list, names to look at, finds to return.
//! Starts no thread and looks at nothing.

use crate::error::StoreError;
use crate::fs::directories::Directories;
use crate::fs::walk::{Names, errno_of, recall, remember};
use crate::path::RelPath;
use crate::spill::{SpillSorter, SpillStack};
use crate::storage::{SCAN_BATCH_EXTENDED_BYTES, SCAN_BATCH_ITEMS, ScanItem};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Number of names that a thread processes at once.
pub(super) const PORTION_NAMES: usize = 128;
/// Most finds that may wait for the asking thread.
const READY_ITEMS_MAX: usize = 4 * SCAN_BATCH_ITEMS;
/// Most bytes of paths and attributes of the results that wait for the calling thread.
const READY_BYTES_MAX: usize = 4 * SCAN_BATCH_EXTENDED_BYTES;

/// Results of looking at some names.
#[derive(Debug, Default)]
pub(in crate::fs) struct Finds {
    /// Items to return.
    pub(in crate::fs) items: Vec<ScanItem>,
    /// The directories among the items that the scan enters.
    pub(in crate::fs) enter: Vec<RelPath>,
    /// Files with several names, not among the items, each with the record to remember.
    pub(super) aside: Vec<(RelPath, Vec<u8>)>,
    /// Memory of the items' paths and attributes, in bytes.
    pub(in crate::fs) weight: usize,
    /// Memory of the files in `aside`, in bytes.
    pub(super) aside_weight: usize,
    /// Memory for paths of items.
    pub(in crate::fs) paths: Vec<Vec<u8>>,
    /// How many of the items come from an earlier batch.
    pub(super) before: usize,
}

impl Finds {
    /// An empty result whose new items are appended to `items`.
    pub(super) fn behind(items: Vec<ScanItem>) -> Self {
        Self {
            before: items.len(),
            items,
            ..Self::default()
        }
    }

    /// Adds an item to return.
    pub(in crate::fs) fn push(&mut self, item: ScanItem) {
        self.weight += item.weight();
        self.items.push(item);
    }

    /// Puts a file with several names aside.
    pub(in crate::fs) fn put_aside(&mut self, path: RelPath, record: Vec<u8>) {
        self.aside_weight += path.as_bytes().len() + record.len();
        self.aside.push((path, record));
    }

    /// The number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.before
    }

    /// Whether one more portion could exceed the size of a batch.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= SCAN_BATCH_ITEMS - PORTION_NAMES || self.is_heavy()
    }

    /// Whether these results must be returned before more names are looked at.
    pub(super) fn is_heavy(&self) -> bool {
        self.weight + self.aside_weight >= SCAN_BATCH_EXTENDED_BYTES
    }
}

/// Pending tasks and finds.
pub(super) struct State {
    /// Paths of directories found and not yet listed.
    pending: SpillStack,
    /// Directories with names left, or possibly left.
    opened: Vec<Opened>,
    /// Files with several names, until they are taken.
    pub(super) aside: Option<SpillSorter>,
    ready: VecDeque<Finds>,
    ready_items: usize,
    ready_weight: usize,
    /// Memory of paths, ready for reuse.
    paths: Vec<Vec<u8>>,
    /// Tasks that were taken and are not done; they may add more tasks.
    pub(super) busy: usize,
}

/// A directory being listed. If another scan has listed it, it is opened when a name has to be looked at.
#[derive(Debug)]
pub(super) struct Listing {
    fd: OnceLock<OwnedFd>,
    pub(super) path: RelPath,
}

impl Listing {
    /// A directory that is not open.
    pub(super) const fn of(path: RelPath) -> Self {
        Self {
            fd: OnceLock::new(),
            path,
        }
    }

    /// The open directory.
    pub(super) fn fd(&self, directories: &Directories) -> Result<&OwnedFd, StoreError> {
        if let Some(fd) = self.fd.get() {
            return Ok(fd);
        }
        let opened = directories.open_listing(self.path.as_bytes());
        let opened = opened.map_err(|errno| StoreError::from_errno("list", &self.path, errno))?;
        Ok(self.fd.get_or_init(|| opened))
    }
}

/// Names of a directory that no thread has taken yet.
pub(super) struct Opened {
    listing: Arc<Listing>,
    names: Arc<Names>,
    taken: usize,
    /// Whether these are the last names of the directory.
    ended: bool,
}

/// Some names of a directory, to be looked at by one thread.
pub(super) struct NameRange {
    pub(super) listing: Arc<Listing>,
    pub(super) names: Arc<Names>,
    /// The range of the remaining names.
    pub(super) range: Range<usize>,
}

/// The next task of a thread.
pub(super) enum Task {
    /// List this directory.
    List(RelPath),
    /// Continue a listing.
    Continue(Arc<Listing>),
    /// Look at these names.
    Look(NameRange),
}

impl State {
    /// A state without tasks.
    pub(super) fn new(spill: &Path, spill_bytes: usize) -> Self {
        Self {
            pending: SpillStack::new(spill, spill_bytes),
            opened: Vec::new(),
            aside: Some(SpillSorter::new(spill, spill_bytes)),
            ready: VecDeque::new(),
            ready_items: 0,
            ready_weight: 0,
            paths: Vec::new(),
            busy: 0,
        }
    }

    /// Takes memory for paths, at most as much as waiting items can need.
    pub(super) fn keep_paths(&mut self, paths: &mut Vec<Vec<u8>>) {
        let room = READY_ITEMS_MAX.saturating_sub(self.paths.len());
        let from = paths.len().saturating_sub(room);
        self.paths.extend(paths.drain(from..));
    }

    /// Fills `paths` with memory for the paths of a portion, while there is free memory.
    pub(super) fn supply(&mut self, paths: &mut Vec<Vec<u8>>) {
        let wanted = PORTION_NAMES.saturating_sub(paths.len());
        let from = self.paths.len().saturating_sub(wanted);
        paths.extend(self.paths.drain(from..));
    }

    /// Lists this directory too.
    pub(super) fn enter(&mut self, path: &RelPath) -> Result<(), StoreError> {
        remember(&mut self.pending, path)
    }

    /// Adds names that threads may process.
    pub(super) fn open(&mut self, opened: Opened) {
        if !opened.is_done() {
            self.opened.push(opened);
        }
    }

    /// Whether the queue of results has room for more.
    pub(super) fn has_room(&self) -> bool {
        self.ready_items < READY_ITEMS_MAX && self.ready_weight < READY_BYTES_MAX
    }

    /// Whether there is a task.
    pub(super) fn has_work(&self) -> bool {
        !self.opened.is_empty() || !self.pending.is_empty()
    }

    /// The next task. The rest of a started task precedes a new one, so that few directories are open.
    pub(super) fn take(&mut self) -> Result<Option<Task>, StoreError> {
        let task = match self.opened.pop() {
            None => recall(&mut self.pending)?.map(Task::List),
            Some(mut opened) => match opened.take() {
                None => Some(Task::Continue(opened.listing)),
                Some(portion) => {
                    self.open(opened);
                    Some(Task::Look(portion))
                }
            },
        };
        self.busy += usize::from(task.is_some());
        Ok(task)
    }

    /// Keeps the directories and the files with several names; a failure to keep one becomes a fault.
    pub(super) fn keep(&mut self, finds: &mut Finds) {
        for path in std::mem::take(&mut finds.enter) {
            if let Err(error) = remember(&mut self.pending, &path) {
                finds.push(ScanItem::Fault(error));
            }
        }
        finds.aside_weight = 0;
        for (path, record) in std::mem::take(&mut finds.aside) {
            let Some(aside) = &mut self.aside else {
                continue;
            };
            if let Err(error) = aside.push(&record) {
                let error =
                    StoreError::from_errno("remember the names of", &path, errno_of(&error));
                finds.push(ScanItem::Fault(error));
            }
        }
    }

    /// Adds results that may be returned.
    pub(super) fn add_ready(&mut self, mut finds: Finds) {
        self.ready_items += finds.items.len();
        self.ready_weight += finds.weight;
        match self.ready.back_mut() {
            // Finds of directories with few names each are joined.
            Some(last) if last.items.len() + finds.items.len() <= PORTION_NAMES => {
                last.items.append(&mut finds.items);
                last.weight += finds.weight;
            }
            _ => self.ready.push_back(finds),
        }
    }

    /// Moves ready finds to `out`, as far as it has room.
    pub(super) fn give(&mut self, out: &mut Finds) {
        while !out.is_full()
            && let Some(mut finds) = self.ready.pop_front()
        {
            self.ready_items -= finds.items.len();
            self.ready_weight -= finds.weight;
            out.items.append(&mut finds.items);
            out.weight += finds.weight;
        }
    }
}

impl Opened {
    /// Names that no thread has taken; `ended` if they are the last of the directory.
    pub(super) fn new(listing: Arc<Listing>, names: Arc<Names>, ended: bool) -> Self {
        Self {
            listing,
            names,
            taken: 0,
            ended,
        }
    }

    /// The next names; `None` if there are none here.
    pub(super) fn take(&mut self) -> Option<NameRange> {
        let end = self.names.len().min(self.taken + PORTION_NAMES);
        let range = std::mem::replace(&mut self.taken, end)..end;
        (!range.is_empty()).then(|| NameRange {
            listing: Arc::clone(&self.listing),
            names: Arc::clone(&self.names),
            range,
        })
    }

    fn is_done(&self) -> bool {
        self.ended && self.taken == self.names.len()
    }
}
