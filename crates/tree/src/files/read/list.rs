//! Walks a list of names below one root: the named entries, the directories above them, and the contents if the name ends in a
//! slash. Does not read the list (`names`) and does not select entries (`select`).
//!
//! Like a scan, a list is a `Work`. Entries that were already announced are skipped (`store::seen`).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use godwit_engine::names::{NAMES_WAIT, Names, Supply};
use godwit_engine::{Offers, Unoffered, Work, entry, limits};
use godwit_proto::{EntryId, Fault, FaultCode, Side, names};
use godwit_store::seen::SeenSet;
use godwit_store::spill::{SpillMerge, SpillSorter};
use godwit_store::{
    Extended, Kind, Lost, Meta, RelPath, Scan, ScanEntry, ScanItem, ScanSeat, StoreError,
};

use crate::files::plan::choice::Selecting;
use crate::files::read::items::WorkItem;
use crate::files::read::keeper::Keeper;
use crate::files::read::offer::{OfferMaker, source_fault};
use crate::files::read::own_files::OwnFiles;
use crate::files::read::source::TreeRoot;
use crate::files::read::wanted::{Filled, Wanted, clean, refused};

/// Memory for the names of files with several names, before they are written to disk.
const LINKS_BYTES: usize = 1 << 20;

/// Offers each entry of a list once, at most a batch at a time.
pub struct ListWork {
    pub(crate) root: TreeRoot,
    pub(crate) offering: OfferMaker,
    /// Parts of files, and files to assemble, which are offered before the names.
    pub(crate) portions: VecDeque<WorkItem>,
    recursive: bool,
    names: Box<dyn Names>,
    ended: bool,
    /// Names read from the list, each followed by a zero byte, and how many bytes of them are processed.
    waiting: Vec<u8>,
    done: usize,
    /// A scan of the directory whose contents are being offered.
    scan: Option<Box<dyn Scan>>,
    /// Processor time of the finished scans.
    helpers_cpu: Duration,
    items: Vec<ScanItem>,
    seen: SeenSet,
    /// The directory of the last name, which was already offered.
    parent: Option<Vec<u8>>,
    /// Length of the directory above the next name from which on the directories are to be offered; 0 for all of them.
    begun: usize,
    pub(crate) filled: Filled,
    links: Links,
    seat: Option<ScanSeat>,
}

/// Files with several names; they are grouped when all names are known.
enum Links {
    Collecting(SpillSorter),
    Giving {
        merge: SpillMerge,
        first: Option<(Vec<u8>, RelPath)>,
    },
    Returned,
}

impl ListWork {
    /// Walks the names of `names` below `root`, a directory. Data that does not fit in memory is written to nameless files in
    /// `spill`.
    pub fn new(root: TreeRoot, names: Box<dyn Names>, selecting: Selecting, spill: &Path) -> Self {
        Self {
            root,
            portions: VecDeque::new(),
            recursive: selecting.select.is_recursive(),
            offering: OfferMaker::new(selecting),
            names,
            ended: false,
            waiting: Vec::new(),
            done: 0,
            scan: None,
            helpers_cpu: Duration::ZERO,
            items: Vec::new(),
            seen: SeenSet::new(spill),
            parent: None,
            begun: 0,
            filled: Filled::default(),
            links: Links::Collecting(SpillSorter::new(spill, LINKS_BYTES)),
            seat: None,
        }
    }

    /// Like [`TreeWork::sharing`](crate::files::TreeWork::sharing). The named entries themselves are looked up by each transfer.
    #[must_use]
    pub fn sharing(mut self, seat: Option<ScanSeat>) -> Self {
        self.seat = seat;
        self
    }

    /// Like [`TreeWork::keeping`](crate::files::TreeWork::keeping).
    #[must_use]
    pub fn keeping(mut self, keeper: Arc<Keeper>) -> Self {
        self.offering.keeper = keeper;
        self
    }

    /// Like [`TreeWork::without`](crate::files::TreeWork::without).
    #[must_use]
    pub fn without(mut self, own: Arc<OwnFiles>) -> Self {
        self.offering.own = own;
        self
    }

    /// Looks a name up, and offers it with the directories above it. False if the batch is full before that.
    fn walk(&mut self, name: &[u8], out: &mut Offers) -> bool {
        let wanted = match clean(name) {
            Ok(wanted) => wanted,
            Err(why) => {
                out.faults.push(refused(name, why));
                return true;
            }
        };
        self.offer_wanted(&wanted, out).unwrap_or_else(|fault| {
            out.faults.push(Unoffered {
                root: 0,
                path: wanted.path.as_bytes().to_vec(),
                fault,
            });
            true
        })
    }

    /// False if the batch is full before the name.
    fn offer_wanted(&mut self, wanted: &Wanted, out: &mut Offers) -> Result<bool, Fault> {
        let below = wanted.path.as_bytes();
        let deeper = wanted.contents || self.recursive;
        let fresh = !self
            .seen
            .contains(below)
            .map_err(|error| forgotten(&error))?;
        if !fresh && !deeper {
            return Ok(true);
        }
        if !self.offer_parents(below, out)? {
            return Ok(false);
        }
        let Some((path, meta)) = self.look(below)? else {
            return Err(missing());
        };
        let is_directory = meta.kind == Kind::Directory;
        if wanted.contents && !is_directory {
            let message = format!(
                "the list names a directory, but this entry is a {}",
                meta.kind.name()
            );
            return Err(source_fault(EntryId(0), FaultCode::NOT_FOUND, message));
        }
        // The directories of the name were needed for other names; the name itself may still be excluded.
        if !self.offering.selecting.takes_name(below, is_directory) {
            return Ok(true);
        }
        if self.see(below)? {
            self.offer(&path, &meta, out)?;
        }
        if is_directory && deeper {
            // A name with a slash has another key than the same name without it.
            let contents = [below, b"/"].concat();
            if self.see(&contents)? {
                let selecting = &self.offering.selecting;
                let choice = selecting.choice_in(&self.root, !self.recursive);
                let storage = &self.root.storage;
                let scan = storage.scan_shared(&path, Some(choice), self.seat.as_ref());
                self.scan = Some(scan.map_err(|error| fault_of(&error))?);
            }
        }
        Ok(true)
    }

    /// Offers the directories above a name that are not offered yet, even if rules exclude them. False if the batch is full before the
    /// last one; the next call continues there.
    pub(crate) fn offer_parents(&mut self, below: &[u8], out: &mut Offers) -> Result<bool, Fault> {
        let Some(end) = below.iter().rposition(|byte| *byte == b'/') else {
            return Ok(true);
        };
        if self.parent.as_deref() == Some(&below[..end]) {
            return Ok(true);
        }
        let from = std::mem::take(&mut self.begun);
        let slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for at in slashes.map(|(at, _)| at).filter(|at| *at >= from) {
            if self.filled.is_full(out) {
                self.begun = at;
                return Ok(false);
            }
            let directory = &below[..at];
            let Some((path, meta)) = self.look(directory)? else {
                return Err(missing());
            };
            if meta.kind != Kind::Directory {
                let shown = RelPath::parse(directory).unwrap_or_default();
                let message = format!("{shown}, which leads there, is a {}", meta.kind.name());
                return Err(source_fault(EntryId(0), FaultCode::NOT_FOUND, message));
            }
            if self.see(directory)? {
                self.offer(&path, &meta, out)?;
            }
        }
        self.parent = Some(below[..end].to_vec());
        Ok(true)
    }

    pub(crate) fn look(&self, below: &[u8]) -> Result<Option<(RelPath, Meta)>, Fault> {
        let Some(path) = self.root.path(below) else {
            let message = "its path is too long".to_owned();
            return Err(source_fault(EntryId(0), FaultCode::NAME, message));
        };
        let meta = self.root.storage.stat(&path);
        Ok(meta
            .map_err(|error| fault_of(&error))?
            .map(|meta| (path, meta)))
    }

    /// Whether a key occurs for the first time.
    fn see(&mut self, key: &[u8]) -> Result<bool, Fault> {
        self.seen.insert(key).map_err(|error| forgotten(&error))
    }

    fn offer(&mut self, path: &RelPath, meta: &Meta, out: &mut Offers) -> Result<(), Fault> {
        if meta.kind == Kind::File
            && meta.links > 1
            && let Links::Collecting(sorter) = &mut self.links
        {
            let mut record = file_key(meta);
            record.extend_from_slice(path.as_bytes());
            return sorter.push(&record).map_err(|error| {
                let message =
                    format!("the file has several names, which cannot be recorded: {error}");
                source_fault(EntryId(0), FaultCode::IO, message)
            });
        }
        let target = match meta.kind {
            Kind::Symlink => {
                let target = self.root.storage.read_link(path);
                target.map_err(|error| fault_of(&error))?
            }
            _ => Vec::new(),
        };
        let mut found = bare(path, *meta);
        found.target = target;
        (found.extended, found.lost) = self.offering.extended(&self.root, &found)?;
        self.offering
            .offer(&self.root, 0, ScanItem::Entry(found), out);
        Ok(())
    }

    /// Offers a batch of the contents of a directory.
    fn go_on_scanning(&mut self, scan: &mut dyn Scan, out: &mut Offers) -> bool {
        let mut items = std::mem::take(&mut self.items);
        let more = scan.next_batch(&mut items);
        for item in items.drain(..) {
            let found = match &item {
                // Names of one file that the scan returns together are also grouped with those of the list.
                ScanItem::Entry(found) | ScanItem::Link { entry: found, .. } => found,
                ScanItem::Fault(_) => {
                    self.offering.offer(&self.root, 0, item, out);
                    continue;
                }
            };
            let (path, meta) = (found.path.clone(), found.meta);
            let below = self.root.below(&path).to_vec();
            let offered = match self.see(&below) {
                Ok(false) => Ok(()),
                Ok(true) if meta.kind == Kind::File && meta.links > 1 => {
                    self.offer(&path, &meta, out)
                }
                Ok(true) => {
                    if !self.recursive && meta.kind == Kind::Directory {
                        self.offering.spare(&self.root, found.clone(), out);
                    }
                    self.offering.offer(&self.root, 0, item, out);
                    Ok(())
                }
                Err(fault) => Err(fault),
            };
            if let Err(fault) = offered {
                out.faults.push(Unoffered {
                    root: 0,
                    path: below,
                    fault,
                });
            }
        }
        self.items = items;
        more
    }

    /// Offers some of the files with several names; false once there are none.
    fn give_links(&mut self, out: &mut Offers) -> bool {
        let links = std::mem::replace(&mut self.links, Links::Returned);
        let (mut merge, mut first) = match links {
            Links::Returned => return false,
            Links::Giving { merge, first } => (merge, first),
            Links::Collecting(sorter) => match sorter.finish() {
                Ok(merge) => (merge, None),
                Err(error) => {
                    out.faults.push(links_lost(&error));
                    return false;
                }
            },
        };
        for _ in 0..limits::MANIFEST_RECORDS {
            if self.filled.is_full(out) {
                break;
            }
            let record = match merge.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return false,
                Err(error) => {
                    out.faults.push(links_lost(&error));
                    return false;
                }
            };
            let (key, path) = record.split_at(FILE_KEY_BYTES.min(record.len()));
            if let Ok(path) = RelPath::parse(path) {
                self.give_link(key, path, &mut first, out);
            }
        }
        self.links = Links::Giving { merge, first };
        true
    }

    fn give_link(
        &self,
        key: &[u8],
        path: RelPath,
        first: &mut Option<(Vec<u8>, RelPath)>,
        out: &mut Offers,
    ) {
        let fault = |fault| Unoffered {
            root: 0,
            path: self.root.below(&path).to_vec(),
            fault,
        };
        let meta = match self.root.storage.stat(&path) {
            Ok(Some(meta)) => meta,
            Ok(None) => return out.faults.push(fault(missing())),
            Err(error) => return out.faults.push(fault(fault_of(&error))),
        };
        let mut found = bare(&path, meta);
        let same = file_key(&meta) == key;
        let item = match first {
            Some((known, first)) if same && known == key => ScanItem::Link {
                entry: found,
                first: first.clone(),
            },
            _ => {
                match self.offering.extended(&self.root, &found) {
                    Ok((extended, lost)) => (found.extended, found.lost) = (extended, lost),
                    Err(error) => return out.faults.push(fault(error)),
                }
                // A skipped file cannot be the target of a hard link, even if the file changes between two looks.
                if same && !self.offering.selecting.select.passes_over(&meta) {
                    *first = Some((key.to_vec(), path));
                }
                ScanItem::Entry(found)
            }
        };
        self.offering.offer(&self.root, 0, item, out);
    }
}

impl Work for ListWork {
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        self.filled = Filled::default();
        if let Some(mut scan) = self.scan.take() {
            if self.go_on_scanning(scan.as_mut(), out) {
                self.scan = Some(scan);
            } else {
                self.helpers_cpu += scan.helpers_cpu();
            }
            return true;
        }
        if self.give_items(out) {
            return true;
        }
        if self.done == self.waiting.len() {
            self.waiting.clear();
            self.done = 0;
            if self.ended {
                return self.give_links(out);
            }
            match self.names.next(&mut self.waiting, NAMES_WAIT) {
                Supply::Some | Supply::NotYet => {}
                Supply::End => self.ended = true,
                Supply::Failed(why) => {
                    self.ended = true;
                    out.faults.push(list_lost(&why));
                }
            }
        }
        // No names are appended while they are walked.
        let waiting = std::mem::take(&mut self.waiting);
        for name in names::split(&waiting[self.done..]) {
            if self.scan.is_some() || self.filled.is_full(out) || !self.walk(name, out) {
                break;
            }
            self.done += name.len() + 1;
        }
        self.waiting = waiting;
        true
    }

    fn helpers_cpu(&self) -> Duration {
        let now = self.scan.as_ref().map(|scan| scan.helpers_cpu());
        self.helpers_cpu + now.unwrap_or_default()
    }
}

fn forgotten(error: &std::io::Error) -> Fault {
    let message = format!("names already seen cannot be recorded: {error}");
    source_fault(EntryId(0), FaultCode::IO, message)
}

fn missing() -> Fault {
    let message = "the list names this entry, but it does not exist".to_owned();
    source_fault(EntryId(0), FaultCode::NOT_FOUND, message)
}

fn list_lost(why: &str) -> Unoffered {
    let message = format!("reading of the list stopped: {why}; the remaining names are not copied");
    Unoffered {
        root: 0,
        path: Vec::new(),
        fault: source_fault(EntryId(0), FaultCode::IO, message),
    }
}

fn links_lost(error: &std::io::Error) -> Unoffered {
    let message = format!("the names of files with several names cannot be read back: {error}");
    Unoffered {
        root: 0,
        path: Vec::new(),
        fault: source_fault(EntryId(0), FaultCode::IO, message),
    }
}

fn fault_of(error: &StoreError) -> Fault {
    entry::fault(EntryId(0), Side::SOURCE, error)
}

/// An entry of which only the metadata is known.
pub(crate) fn bare(path: &RelPath, meta: Meta) -> ScanEntry {
    ScanEntry {
        path: path.clone(),
        meta,
        target: Vec::new(),
        extended: Extended::default(),
        lost: Lost::NOTHING,
    }
}

/// The key that two names of one file share.
fn file_key(meta: &Meta) -> Vec<u8> {
    [meta.device.to_be_bytes(), meta.inode.to_be_bytes()].concat()
}

const FILE_KEY_BYTES: usize = 16;

#[cfg(test)]
mod tests;
