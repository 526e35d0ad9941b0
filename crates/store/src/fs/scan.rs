//! Owns the scan of a tree: looks at each name that a walk finds, and returns the names of one file together. Does not decide how the
//! entries are used.
//!
//! A scan may share its pages with scans of the same tree (`pages`). Each looks at its start. Each reads the attributes of files with several
//! names, which come last.

use super::directories::Directories;
use super::look::{Looked, choose, look, look_chosen};
use super::pages::{PagesOfScan, ScanSeat, SharedLook};
use super::parallel_scan::{Finds, Listed, Looker, ParallelScan};
use super::walk::{Found, errno_of, path_in};
use super::xattr::{Reader, Wanted};
use crate::error::{StoreError, StoreErrorKind};
use crate::extended::{Extended, Lost};
use crate::meta::{Kind, Meta, Timestamp};
use crate::path::{RelPath, TempName};
use crate::spill::SpillMerge;
use crate::storage::{
    Choice, Pick, SCAN_BATCH_EXTENDED_BYTES, SCAN_BATCH_ITEMS, Scan, ScanEntry, ScanItem,
};
use rustix::fs::FileType;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A scan in progress.
pub(super) struct FsScan {
    directories: Arc<Directories>,
    start: RelPath,
    /// The start of the scan, until it is returned.
    first: Option<ScanItem>,
    parallel: ParallelScan<Eyes>,
    links: Links,
    /// Reads the attributes of entries, if they are requested.
    reader: Option<Reader>,
}

/// Files with several names, kept until everything else was returned.
enum Links {
    Collecting,
    Giving {
        merge: Box<SpillMerge>,
        first: Option<Box<ScanEntry>>,
    },
    Returned,
}

/// How a scan looks at names.
struct Eyes {
    choice: Option<Arc<dyn Choice>>,
    wanted: Wanted,
    pages: Option<PagesOfScan>,
}

impl Looker for Eyes {
    type Tools = Option<Reader>;

    fn tools(&self) -> Self::Tools {
        (!self.wanted.is_nothing()).then(|| Reader::new(self.wanted))
    }

    fn look(&self, found: Found<'_>, reader: &mut Self::Tools, finds: &mut Finds) {
        self.see(found, reader, finds, false);
    }

    fn pages(&self) -> Option<&PagesOfScan> {
        self.pages.as_ref()
    }

    fn look_for_all(
        &self,
        found: Found<'_>,
        reader: &mut Self::Tools,
        finds: &mut Finds,
    ) -> SharedLook {
        self.see(found, reader, finds, true)
    }

    fn take_over(&self, listed: Listed<'_>, look: &SharedLook, finds: &mut Finds) -> bool {
        let Listed { parent, name, kind } = listed;
        let choice = self.choice.as_deref();
        let looked = match look {
            SharedLook::Nothing => return false,
            SharedLook::Left => {
                // This scan counts its own skipped names.
                return kind != FileType::Unknown
                    && path_in(parent, name, Vec::new()).is_ok_and(|path| {
                        let is_directory = kind == FileType::Directory;
                        choice.is_some_and(|choice| choice.pick(&path, is_directory) == Pick::Leave)
                    });
            }
            SharedLook::Seen(looked) => looked,
        };
        let memory = finds.paths.pop().unwrap_or_default();
        let chosen = path_in(parent, name, memory).and_then(|path| {
            choose(
                (path, kind),
                choice,
                |_| Ok(looked.as_ref().clone()),
                &mut finds.items,
            )
        });
        match chosen {
            Ok(None) => {}
            Ok(Some(pick)) => note_last(pick, finds),
            Err(error) => finds.push(ScanItem::Fault(error)),
        }
        true
    }
}

impl Eyes {
    /// Looks at a name; `shares` if other scans may take the result.
    fn see(
        &self,
        found: Found<'_>,
        reader: &mut Option<Reader>,
        finds: &mut Finds,
        shares: bool,
    ) -> SharedLook {
        let choice = self.choice.as_deref();
        if TempName::is_temp(found.name) {
            if let Some(item) = reserved(&found, choice) {
                finds.push(item);
            }
            return SharedLook::Nothing;
        }
        let memory = finds.paths.pop().unwrap_or_default();
        match look_chosen(found, memory, choice, reader.as_mut(), &mut finds.items) {
            Ok(None) => SharedLook::Left,
            Ok(Some(pick)) => {
                let look = match finds.items.last() {
                    Some(ScanItem::Entry(entry)) if shares => {
                        SharedLook::Seen(Box::new(Looked::of(entry)))
                    }
                    _ => SharedLook::Nothing,
                };
                note_last(pick, finds);
                look
            }
            Err(error) => {
                finds.push(ScanItem::Fault(error));
                SharedLook::Nothing
            }
        }
    }
}

/// An entry with the form of a temporary name is rarely a user's data. It is never copied, because the destination would treat it as a
/// leftover. But a user may have chosen such a name, or it may belong to an unfinished transfer. The copy is incomplete without it, so
/// the scan reports it.
fn reserved(found: &Found<'_>, choice: Option<&dyn Choice>) -> Option<ScanItem> {
    let path = match found.path() {
        Ok(path) => path,
        Err(error) => return Some(ScanItem::Fault(error)),
    };
    let is_directory = found.kind == FileType::Directory;
    let wanted = choice.is_none_or(|choice| choice.pick(&path, is_directory) != Pick::Leave);
    wanted.then(|| ScanItem::Fault(StoreError::new("copy", &path, StoreErrorKind::Reserved)))
}

/// If the last item is an entry, enters it later (a directory) or puts it aside (a file with several names).
fn note_last(pick: Pick, finds: &mut Finds) {
    let Some(item) = finds.items.last() else {
        return;
    };
    let weight = item.weight();
    if let ScanItem::Entry(entry) = item {
        if entry.meta.kind == Kind::Directory && pick == Pick::Take {
            finds.enter.push(entry.path.clone());
        } else if is_put_aside(&entry.meta) {
            let (path, record) = (entry.path.clone(), encode(entry));
            finds.put_aside(path, record);
            finds.items.pop();
            return;
        }
    }
    finds.weight += weight;
}

impl FsScan {
    pub(super) fn begin(
        directories: &Arc<Directories>,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
        (spill, spill_bytes): (&Path, usize),
        wanted: Wanted,
        seat: Option<&ScanSeat>,
    ) -> Result<Self, StoreError> {
        let pages = seat
            .zip(directories.root_id())
            .map(|(seat, root)| PagesOfScan {
                seat: seat.clone(),
                root,
                wanted,
            });
        let eyes = Eyes {
            choice,
            wanted,
            pages,
        };
        let mut reader = eyes.tools();
        let entry = directories.within("scan", start, |directory, name| {
            look(directory, name, reader.as_mut(), true)
        })?;
        let entry = entry.at(start.clone());
        let parallel = ParallelScan::new(directories, eyes, spill, spill_bytes);
        if entry.meta.kind == Kind::Directory {
            parallel.enter(start)?;
        }
        Ok(Self {
            directories: Arc::clone(directories),
            start: start.clone(),
            first: Some(ScanItem::Entry(entry)),
            parallel,
            links: Links::Collecting,
            reader,
        })
    }

    /// The next of the files with several names.
    fn next_link(&mut self) -> Option<ScanItem> {
        let links = std::mem::replace(&mut self.links, Links::Returned);
        let (mut merge, mut first) = match links {
            Links::Collecting => match self.parallel.take_aside()?.finish() {
                Ok(merge) => (Box::new(merge), None),
                Err(error) => return Some(self.links_lost(&error)),
            },
            Links::Giving { merge, first } => (merge, first),
            Links::Returned => return None,
        };
        let entry = match merge.next_record() {
            Ok(record) => decode(&record?),
            Err(error) => return Some(self.links_lost(&error)),
        };
        let Some(entry) = entry else {
            return Some(self.links_lost(&std::io::ErrorKind::InvalidData.into()));
        };
        let known = first
            .as_ref()
            .filter(|first| same_file(&first.meta, &entry.meta));
        let item = match known {
            Some(first) => ScanItem::Link {
                entry,
                first: first.path.clone(),
            },
            None => {
                first = Some(Box::new(entry.clone()));
                self.complete(entry)
            }
        };
        self.links = Links::Giving { merge, first };
        Some(item)
    }

    /// Reads the attributes of an entry that was put aside. They are read after the state of the entry, so that the reader of the
    /// contents detects a change between the two.
    fn complete(&mut self, mut entry: ScanEntry) -> ScanItem {
        let Some(reader) = &mut self.reader else {
            return ScanItem::Entry(entry);
        };
        let kind = entry.meta.kind;
        let read = self
            .directories
            .within("look at", &entry.path, |directory, name| {
                Ok(reader.read(directory, name, kind)?)
            });
        match read {
            Ok((extended, lost)) => {
                (entry.extended, entry.lost) = (extended, lost);
                ScanItem::Entry(entry)
            }
            Err(error) => ScanItem::Fault(error),
        }
    }

    fn links_lost(&self, error: &std::io::Error) -> ScanItem {
        let operation = "remember all names of the files with several names below";
        ScanItem::Fault(StoreError::from_errno(
            operation,
            &self.start,
            errno_of(error),
        ))
    }
}

impl Scan for FsScan {
    fn next_batch(&mut self, out: &mut Vec<ScanItem>) -> bool {
        let before = out.len();
        out.extend(self.first.take());
        if matches!(self.links, Links::Collecting) && self.parallel.next_batch(out) {
            return true;
        }
        let mut weight = 0;
        let end = before + SCAN_BATCH_ITEMS;
        while out.len() < end && weight < SCAN_BATCH_EXTENDED_BYTES {
            let Some(item) = self.next_link() else {
                return false;
            };
            weight += item.weight();
            out.push(item);
        }
        true
    }

    fn reuse(&mut self, paths: &mut Vec<Vec<u8>>) {
        self.parallel.reuse(paths);
    }

    fn helpers_cpu(&self) -> Duration {
        self.parallel.helpers_cpu()
    }
}

/// Whether the entry is a file with several names; such files are returned together at the end.
pub(super) fn is_put_aside(meta: &Meta) -> bool {
    meta.kind == Kind::File && meta.links > 1
}

/// Whether two entries are names of one file. The inode number alone does not suffice: if a file is replaced during the scan, its
/// number may be reused.
fn same_file(a: &Meta, b: &Meta) -> bool {
    (a.device, a.inode, a.bytes, a.mtime) == (b.device, b.inode, b.bytes, b.mtime)
}

/// A record that sorts by file, then by path: device and inode (most significant byte first), path, a zero, then the rest.
fn encode(entry: &ScanEntry) -> Vec<u8> {
    let meta = &entry.meta;
    let mut record = Vec::with_capacity(entry.path.as_bytes().len() + 17 + REST_BYTES);
    record.extend_from_slice(&meta.device.to_be_bytes());
    record.extend_from_slice(&meta.inode.to_be_bytes());
    record.extend_from_slice(entry.path.as_bytes());
    record.push(0);
    for time in [meta.mtime, meta.ctime] {
        record.extend_from_slice(&time.seconds.to_be_bytes());
        record.extend_from_slice(&time.nanoseconds.to_be_bytes());
    }
    record.extend_from_slice(&meta.bytes.to_be_bytes());
    record.extend_from_slice(&meta.links.to_be_bytes());
    let sparse = if meta.sparse { SPARSE } else { 0 };
    for number in [meta.mode | sparse, meta.uid, meta.gid] {
        record.extend_from_slice(&number.to_be_bytes());
    }
    record
}

/// Set in the mode of a record if the file has holes.
const SPARSE: u32 = 1 << 31;

/// Two times, two 8-byte and three 4-byte numbers.
const REST_BYTES: usize = 2 * 12 + 2 * 8 + 3 * 4;

fn decode(record: &[u8]) -> Option<ScanEntry> {
    let (mut head, rest) = record.split_at_checked(16)?;
    let (path, mut tail) = rest.split_at_checked(rest.len().checked_sub(REST_BYTES)?)?;
    let path = RelPath::parse(path.strip_suffix(&[0])?).ok()?;
    let device = take_u64(&mut head)?;
    let inode = take_u64(&mut head)?;
    let mtime = take_time(&mut tail)?;
    let ctime = take_time(&mut tail)?;
    let bytes = take_u64(&mut tail)?;
    let links = take_u64(&mut tail)?;
    let mode = take_u32(&mut tail)?;
    let uid = take_u32(&mut tail)?;
    let gid = take_u32(&mut tail)?;
    let meta = Meta {
        kind: Kind::File,
        mode: mode & !SPARSE,
        bytes,
        sparse: mode & SPARSE != 0,
        mtime,
        ctime,
        inode,
        device,
        links,
        uid,
        gid,
        rdev: 0,
    };
    Some(ScanEntry {
        path,
        meta,
        target: Vec::new(),
        extended: Extended::default(),
        lost: Lost::NOTHING,
    })
}

fn take_time(from: &mut &[u8]) -> Option<Timestamp> {
    Some(Timestamp {
        seconds: take_u64(from)?.cast_signed(),
        nanoseconds: take_u32(from)?,
    })
}

fn take_u64(from: &mut &[u8]) -> Option<u64> {
    from.split_off(..8)?.try_into().ok().map(u64::from_be_bytes)
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    from.split_off(..4)?.try_into().ok().map(u32::from_be_bytes)
}
