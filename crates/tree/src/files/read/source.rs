//! Scans and reads files of one or several roots.
//! Does not decide which of them are sent.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use godwit_engine::{Offers, ReadError, Source, SourceFile, Unoffered, Work, entry, limits};
use godwit_proto::{EntryId, Fault, FaultCode, Generation, Record, RecordFlags, Side};
use godwit_store::{
    Kind, Known, Meta, ReadFile, RelPath, Scan, ScanEntry, ScanItem, ScanSeat, Storage, StoreError,
    StoreErrorKind,
};

use crate::files::plan::choice::Selecting;
use crate::files::read::buffered::{BufferedTree, Buffering};
use crate::files::read::keeper::Keeper;
use crate::files::read::offer::{OfferMaker, source_fault};
use crate::files::read::own_files::OwnFiles;

/// One source argument of a transfer: a path in a storage, and everything below it.
#[derive(Clone)]
pub struct TreeRoot {
    /// The storage.
    pub storage: Arc<dyn Storage>,
    /// The entry, relative to the storage; empty for the whole storage.
    pub start: RelPath,
}

impl TreeRoot {
    /// The storage path of `below` the root; `None` if it is not a valid path.
    pub(crate) fn path(&self, below: &[u8]) -> Option<RelPath> {
        if below.is_empty() {
            Some(self.start.clone())
        } else {
            self.start.join(below).ok()
        }
    }

    /// The rest of a storage path below the root.
    pub(crate) fn below<'a>(&self, path: &'a RelPath) -> &'a [u8] {
        let start = self.start.as_bytes();
        let rest = path
            .as_bytes()
            .strip_prefix(start)
            .unwrap_or_else(|| path.as_bytes());
        rest.strip_prefix(b"/").unwrap_or(rest)
    }

    /// The rest of a storage path below the root, in the memory of `path`.
    pub(crate) fn owned_below(&self, path: RelPath) -> Vec<u8> {
        let above = path.as_bytes().len() - self.below(&path).len();
        let mut bytes = path.into_bytes();
        bytes.drain(..above);
        bytes
    }
}

/// A root; or, if the argument cannot be read, the fault with which the argument's entry fails.
pub type FoundRoot = Result<TreeRoot, Fault>;

/// The fault of a root at which the storage failed.
pub fn root_fault(error: &StoreError) -> Fault {
    entry::fault(EntryId(0), Side::SOURCE, error)
}

/// Reads the files of some roots.
pub struct TreeSource {
    /// `None` for a root that cannot be read.
    roots: Vec<Option<TreeRoot>>,
    keeper: Arc<Keeper>,
}

impl TreeSource {
    /// Roots in the order of their numbers in records.
    pub fn new(roots: Vec<TreeRoot>) -> Self {
        Self::found(roots.into_iter().map(Ok).collect())
    }

    /// Like [`TreeSource::new`], but some roots may not have been found.
    pub fn found(roots: Vec<FoundRoot>) -> Self {
        Self {
            roots: roots.into_iter().map(Result::ok).collect(),
            keeper: Arc::default(),
        }
    }

    /// Reports attributes of changed entries, as far as the keeper keeps them. Pass the same keeper to the work.
    #[must_use]
    pub fn keeping(self, keeper: Arc<Keeper>) -> Self {
        Self { keeper, ..self }
    }

    pub(crate) fn locate(&self, record: &Record) -> Result<(&TreeRoot, RelPath), Fault> {
        let root = self.roots.get(usize::from(record.root));
        root.and_then(Option::as_ref)
            .and_then(|root| Some((root, root.path(&record.path)?)))
            .ok_or_else(|| {
                source_fault(
                    record.id,
                    FaultCode::NAME,
                    "the name cannot be opened".to_owned(),
                )
            })
    }
}

impl TreeSource {
    /// The open file of a record.
    pub(crate) fn open_file(&self, record: &Record) -> Result<TreeFile, Fault> {
        let (root, path) = self.locate(record)?;
        let file = root
            .storage
            .open(&path)
            .map_err(|error| entry::fault(record.id, Side::SOURCE, &error))?;
        Ok(TreeFile {
            id: record.id,
            file,
        })
    }

    /// The same files, read through a buffer.
    #[must_use]
    pub fn buffered(self, buffering: Buffering) -> Arc<dyn Source> {
        Arc::new(BufferedTree::new(self, buffering))
    }
}

impl Source for TreeSource {
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        Ok(Arc::new(self.open_file(record)?))
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let (root, path) = self.locate(record).map_err(ReadError::Failed)?;
        let known = Known {
            bytes: record.bytes,
            generation: record.generation.0,
        };
        root.storage
            .read_known(&path, known, buffer)
            .map_err(|error| read_error(record.id, &error))
    }

    fn reads_apart(&self) -> bool {
        let mut roots = self.roots.iter().flatten();
        roots.all(|root| root.storage.reads_apart(&root.start))
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        let (root, path) = self.locate(record)?;
        let meta = root
            .storage
            .stat(&path)
            .map_err(|error| entry::fault(record.id, Side::SOURCE, &error))?;
        match meta {
            Some(meta) if meta.kind == Kind::File => {
                let mut fresh = record.clone();
                fresh.generation = Generation(meta.generation());
                fresh.bytes = meta.bytes;
                fresh.flags &= !RecordFlags::SPARSE;
                fresh.flags |= entry::sparse_flag(&meta);
                fresh.mtime_seconds = meta.mtime.seconds;
                fresh.mtime_nanoseconds = meta.mtime.nanoseconds;
                fresh.mode = meta.mode;
                fresh.uid = meta.uid;
                fresh.gid = meta.gid;
                let (extended, unread) = if self.keeper.reads_extended() {
                    let read = root.storage.extended(&path);
                    read.map_err(|error| entry::fault(record.id, Side::SOURCE, &error))?
                } else {
                    Default::default()
                };
                let (extensions, unsent) = self.keeper.extensions(&meta, &extended);
                fresh.extensions = extensions;
                match self.keeper.lost_at_source(unread | unsent) {
                    None => Ok(fresh),
                    Some(message) => Err(source_fault(record.id, FaultCode::UNSUPPORTED, message)),
                }
            }
            Some(_) => Err(source_fault(
                record.id,
                FaultCode::NOT_REGULAR,
                "the entry is no longer a regular file".to_owned(),
            )),
            None => Err(source_fault(
                record.id,
                FaultCode::NOT_FOUND,
                "the file vanished during the transfer".to_owned(),
            )),
        }
    }
}

/// An open file of a source.
pub(crate) struct TreeFile {
    id: EntryId,
    file: Box<dyn ReadFile>,
}

impl TreeFile {
    /// The current state of the file.
    pub(crate) fn meta(&self) -> Result<Meta, ReadError> {
        let meta = self.file.meta();
        meta.map_err(|error| read_error(self.id, &error))
    }
}

impl SourceFile for TreeFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = self
                .file
                .read_at(offset + filled as u64, &mut buffer[filled..])
                .map_err(|error| read_error(self.id, &error))?;
            if read == 0 {
                return Err(ReadError::Changed);
            }
            filled += read;
        }
        Ok(())
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        self.file
            .next_data(offset)
            .map_err(|error| read_error(self.id, &error))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        self.meta().map(|meta| meta.generation())
    }
}

/// Most files with names in other roots that are remembered; more files are not reported.
const SEVERAL_MAX: usize = 64 << 10;

/// Scans some roots, one after the other.
pub struct TreeWork {
    roots: Vec<FoundRoot>,
    offering: OfferMaker,
    next: usize,
    scan: Option<(u16, Box<dyn Scan>)>,
    /// Files with several names, by device and inode: the root in which each was found first. Only used with several roots.
    several: HashMap<(u64, u64), u16>,
    items: Vec<ScanItem>,
    /// Processor time of the finished scans.
    helpers_cpu: Duration,
    seat: Option<ScanSeat>,
}

impl TreeWork {
    /// Everything below some roots, in the order of their numbers in records.
    pub fn new(roots: Vec<TreeRoot>) -> Self {
        Self::choosing(roots, Selecting::all())
    }

    /// Like [`TreeWork::new`], but entries that `selecting` excludes are not looked at.
    pub fn choosing(roots: Vec<TreeRoot>, selecting: Selecting) -> Self {
        Self::found(roots.into_iter().map(Ok).collect(), selecting)
    }

    /// Like [`TreeWork::choosing`], but some roots may not have been found; those fail, and keep their numbers.
    pub fn found(roots: Vec<FoundRoot>, selecting: Selecting) -> Self {
        Self {
            roots,
            offering: OfferMaker::new(selecting),
            next: 0,
            scan: None,
            several: HashMap::new(),
            items: Vec::with_capacity(limits::MANIFEST_RECORDS),
            helpers_cpu: Duration::ZERO,
            seat: None,
        }
    }

    /// Shares its scans with other transfers of the same roots.
    #[must_use]
    pub fn sharing(self, seat: Option<ScanSeat>) -> Self {
        Self { seat, ..self }
    }

    /// Leaves out files that this run itself writes.
    #[must_use]
    pub fn without(mut self, own: Arc<OwnFiles>) -> Self {
        self.offering.own = own;
        self
    }

    /// Reports extended attributes of entries, as far as the keeper keeps them. Attributes that cannot be read are counted in the
    /// counters of the selection.
    #[must_use]
    pub fn keeping(mut self, keeper: Arc<Keeper>) -> Self {
        self.offering.keeper = keeper;
        self
    }
}

/// Whether the file has a name in an earlier root too, so that it becomes two files.
fn is_split(
    several: &mut HashMap<(u64, u64), u16>,
    roots: usize,
    root: u16,
    found: &ScanEntry,
) -> bool {
    let meta = &found.meta;
    if roots < 2 || meta.kind == Kind::Directory || meta.links < 2 {
        return false;
    }
    let key = (meta.device, meta.inode);
    match several.get(&key) {
        Some(first) => *first != root,
        None => {
            if several.len() < SEVERAL_MAX {
                several.insert(key, root);
            }
            false
        }
    }
}

impl Work for TreeWork {
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        if self.scan.is_none() {
            let Some(found) = self.roots.get(self.next) else {
                return false;
            };
            let root = u16::try_from(self.next).unwrap_or(u16::MAX);
            self.next += 1;
            let place = match found {
                Ok(place) => place,
                Err(fault) => {
                    out.faults.push(Unoffered {
                        root,
                        path: Vec::new(),
                        fault: fault.clone(),
                    });
                    return self.next < self.roots.len();
                }
            };
            let choice = self.offering.selecting.choice(place);
            let seat = self.seat.as_ref().map(|seat| seat.at_root(root));
            let scan = place
                .storage
                .scan_shared(&place.start, choice, seat.as_ref());
            match scan {
                Ok(scan) => self.scan = Some((root, scan)),
                Err(error) => {
                    let fault = ScanItem::Fault(error);
                    self.offering.offer(place, root, fault, out);
                    return self.next < self.roots.len();
                }
            }
        }
        let Some((root, scan)) = &mut self.scan else {
            return false;
        };
        let Some(Ok(place)) = self.roots.get(usize::from(*root)) else {
            return false;
        };
        scan.reuse(&mut out.used_paths);
        let more = scan.next_batch(&mut self.items);
        out.entries.reserve(self.items.len());
        for item in self.items.drain(..) {
            if let ScanItem::Entry(found) = &item {
                if found.path == place.start
                    && found.meta.kind != Kind::Directory
                    && !self.offering.selecting.takes_root(&found.path)
                {
                    continue;
                }
                let selecting = &self.offering.selecting;
                if !selecting.select.passes_over(&found.meta)
                    && is_split(&mut self.several, self.roots.len(), *root, found)
                {
                    selecting.counters.links_split.add(1);
                }
            }
            self.offering.offer(place, *root, item, out);
        }
        if !more && let Some((_, scan)) = self.scan.take() {
            self.helpers_cpu += scan.helpers_cpu();
        }
        more || self.next < self.roots.len()
    }

    fn helpers_cpu(&self) -> Duration {
        let now = self.scan.as_ref().map(|(_, scan)| scan.helpers_cpu());
        self.helpers_cpu + now.unwrap_or_default()
    }
}

fn read_error(entry: EntryId, error: &StoreError) -> ReadError {
    if error.kind == StoreErrorKind::Changed {
        ReadError::Changed
    } else {
        ReadError::Failed(entry::fault(entry, Side::SOURCE, error))
    }
}
