//! Makes offers of what is found below a root: what is meant of it, with what goes with it.
//! Does not look for it: scans do, and lists.

use std::sync::Arc;

use godwit_engine::{Offers, Unoffered, entry};
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, RecordFlags, Side};
use godwit_store::{Extended, Kind, Lost, Meta, ScanEntry, ScanItem};

use super::choice::Selecting;
use super::keeper::Keeper;
use super::own_files::OwnFiles;
use super::source::TreeRoot;

/// What is meant of the entries of a transfer and kept of them, and where the rest is counted.
pub(super) struct Offering {
    pub(super) selecting: Selecting,
    pub(super) keeper: Arc<Keeper>,
    /// Left out.
    pub(super) own: Arc<OwnFiles>,
}

impl Offering {
    pub(super) fn new(selecting: Selecting) -> Self {
        Self {
            selecting,
            keeper: Arc::default(),
            own: Arc::default(),
        }
    }

    /// Offers what was found below `place`, which is root number `root`, if it is meant.
    pub(super) fn offer(&self, place: &TreeRoot, root: u16, item: ScanItem, out: &mut Offers) {
        match item {
            // Where it goes it is not missed either.
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
            ScanItem::Entry(found) => self.offer_entry(place, root, found, out),
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

    /// What goes with an entry beside its state, where it was not found by a scan that tells it.
    pub(super) fn extended(
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
        out.entries.push(record);
    }

    /// What is passed over is nothing to fail about, and what goes with it does not matter.
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
            format!("it is {what}, which is copied only with --specials"),
        ),
    }
}

pub(super) fn source_fault(entry: EntryId, code: FaultCode, message: String) -> Fault {
    Fault {
        entry,
        side: Side::SOURCE,
        code,
        errno: None,
        message,
    }
}
