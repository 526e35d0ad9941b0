//! Makes offers of the selected entries below a root, with their attributes. Does not search for entries;
//! scans and lists do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use godwit_engine::{Offers, Unoffered, entry, lock};
use godwit_proto::limits::EXTENSIONS_BYTES_MAX;
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Record, RecordFlags, Side, extension};
use godwit_store::{Extended, Kind, Lost, Meta, ScanEntry, ScanItem};

use crate::files::plan::choice::Selecting;
use crate::files::read::keeper::Keeper;
use crate::files::read::own_files::OwnFiles;
use crate::files::read::source::TreeRoot;

/// The selection rules, the metadata to keep, and the files that are left out.
pub(crate) struct OfferMaker {
    pub(crate) selecting: Selecting,
    pub(crate) keeper: Arc<Keeper>,
    /// The files that are left out.
    pub(crate) own: Arc<OwnFiles>,
    first_names: Mutex<FirstNames>,
}

/// The first names of links and special files with several names, by root, device and inode.
#[derive(Default)]
struct FirstNames {
    names: HashMap<(u16, u64, u64), Vec<u8>>,
    bytes: usize,
}

/// Most first names that are remembered, and their bytes. Beyond them, additional names become separate entries, and are
/// counted.
const FIRST_NAMES_MAX: usize = 64 << 10;
const FIRST_NAMES_BYTES_MAX: usize = FIRST_NAMES_MAX * 256;

impl FirstNames {
    /// Remembers a first name; returns false if there is no room for it.
    fn add(&mut self, key: (u16, u64, u64), name: &[u8]) -> bool {
        let bytes = self.bytes + name.len();
        let room = self.names.len() < FIRST_NAMES_MAX && bytes <= FIRST_NAMES_BYTES_MAX;
        if room {
            self.names.insert(key, name.to_vec());
            self.bytes = bytes;
        }
        room
    }
}

impl OfferMaker {
    pub(crate) fn new(selecting: Selecting) -> Self {
        Self {
            selecting,
            keeper: Arc::default(),
            own: Arc::default(),
            first_names: Mutex::default(),
        }
    }

    /// Offers an entry found below `place`, which is root number `root`, if it is selected.
    pub(crate) fn offer(&self, place: &TreeRoot, root: u16, item: ScanItem, out: &mut Offers) {
        match item {
            // The destination leaves out such an entry, too.
            ScanItem::Entry(found) | ScanItem::Link { entry: found, .. }
                if self.own.has(&found.meta) =>
            {
                self.pass_over(place, root, found, out);
            }
            ScanItem::Entry(found) if self.selecting.passes_over(&found.meta) => {
                self.pass_over(place, root, found, out);
            }
            ScanItem::Link { entry: found, .. } if self.selecting.passes_over(&found.meta) => {
                self.pass_over(place, root, found, out);
            }
            ScanItem::Entry(found) => {
                if found.meta.kind == Kind::Directory && self.selecting.ends_at(place, &found.path)
                {
                    // The receiver must not delete the contents of the directory's counterpart.
                    self.pass_over(place, root, found.clone(), out);
                }
                self.offer_entry(place, root, found, out);
            }
            ScanItem::Link {
                entry: found,
                first,
            } => {
                let target = place.below(&first).to_vec();
                let mut record = entry::record(root, &found.meta, target);
                record.kind = EntryKind::HARD_LINK;
                record.path = place.owned_below(found.path);
                record.bytes = 0;
                out.entries.push(record);
            }
            ScanItem::Fault(error) => out.faults.push(Unoffered {
                root,
                fault: entry::fault(EntryId(0), Side::SOURCE, &error),
                path: place.owned_below(error.path),
            }),
        }
    }

    /// The extended attributes of an entry, if the scan did not read them.
    pub(crate) fn extended(
        &self,
        place: &TreeRoot,
        found: &ScanEntry,
    ) -> Result<(Extended, Lost), Fault> {
        if !self.keeper.reads_extended() || self.selecting.select.passes_over(&found.meta) {
            return Ok(Default::default());
        }
        let read = place.storage.extended(&found.path);
        read.map_err(|error| entry::fault(EntryId(0), Side::SOURCE, &error))
    }

    fn offer_entry(&self, place: &TreeRoot, root: u16, found: ScanEntry, out: &mut Offers) {
        let path = place.owned_below(found.path);
        let mut record = entry::record(root, &found.meta, found.target);
        if record.kind.is_special() && !self.keeper.preserve().specials {
            out.faults.push(unsendable(root, path, &found.meta));
            return;
        }
        record.path = path;
        let (extensions, unsent) = self.keeper.extensions(&found.meta, &found.extended);
        record.extensions = extensions;
        let lost = found.lost | unsent;
        if let Some(message) = self.keeper.lost_at_source(lost) {
            out.faults.push(Unoffered {
                root,
                path: record.path,
                fault: source_fault(EntryId(0), FaultCode::UNSUPPORTED, message),
            });
            return;
        }
        self.selecting.counters.count_lost(lost);
        self.name_first(root, &found.meta, &mut record);
        out.entries.push(record);
    }

    /// Records in the record of a link or special file whether it already has a name.
    fn name_first(&self, root: u16, meta: &Meta, record: &mut Record) {
        if matches!(meta.kind, Kind::File | Kind::Directory) || meta.links < 2 {
            return;
        }
        let key = (root, meta.device, meta.inode);
        let mut first_names = lock(&self.first_names);
        let is_split = match first_names.names.get(&key) {
            Some(first) => {
                let mut extensions = record.extensions.clone();
                let pushed = extension::push(&mut extensions, extension::FIRST_NAME, first);
                let fits = pushed.is_ok() && extensions.len() <= EXTENSIONS_BYTES_MAX;
                if fits {
                    record.extensions = extensions;
                }
                !fits
            }
            None => !first_names.add(key, &record.path),
        };
        if is_split {
            self.selecting.counters.links_split.add(1);
        }
    }

    /// Makes the receiver keep the contents of a directory whose contents are not announced.
    pub(crate) fn spare(&self, place: &TreeRoot, found: ScanEntry, out: &mut Offers) {
        self.pass_over(place, 0, found, out);
    }

    /// Announces a skipped entry: it cannot fail, and its attributes do not matter.
    fn pass_over(&self, place: &TreeRoot, root: u16, found: ScanEntry, out: &mut Offers) {
        if self.selecting.announces_passed {
            let mut record = entry::record(root, &found.meta, found.target);
            record.path = place.owned_below(found.path);
            record.flags |= RecordFlags::PASSED_OVER;
            out.entries.push(record);
        }
    }
}

fn unsendable(root: u16, path: Vec<u8>, meta: &Meta) -> Unoffered {
    let what = match meta.kind {
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::CharDevice => "a character device",
        _ => "a block device",
    };
    Unoffered {
        root,
        path,
        fault: source_fault(
            EntryId(0),
            FaultCode::NOT_REGULAR,
            format!("the entry is {what}, which is copied only with --specials"),
        ),
    }
}

pub(crate) fn source_fault(entry: EntryId, code: FaultCode, message: String) -> Fault {
    Fault {
        entry,
        side: Side::SOURCE,
        code,
        errno: None,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_names_are_bounded_in_number_and_in_bytes() {
        let long = vec![b'x'; 64 << 10];
        for (name, most) in [(b"x".as_slice(), FIRST_NAMES_MAX), (long.as_slice(), 256)] {
            let mut first = FirstNames::default();
            let added = (0..FIRST_NAMES_MAX as u64 + 10)
                .filter(|inode| first.add((0, 0, *inode), name))
                .count();
            assert_eq!(added, most);
        }
    }
}
