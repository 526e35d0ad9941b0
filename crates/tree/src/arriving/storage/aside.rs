//! Owns how a scan shows the files that were put aside: as faults, so that no reader takes the listing for complete. Drains nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use godwit_store::{
    Choice, Pick, RelPath, SCAN_BATCH_ITEMS, Scan, ScanItem, StoreError, StoreErrorKind,
};

use super::super::Arrivals;
use super::ArrivingStorage;

/// A scan whose first items are faults about files that were put aside.
pub(super) struct WithAside {
    pub(super) aside: Vec<StoreError>,
    pub(super) below: Box<dyn Scan>,
}

impl Scan for WithAside {
    fn next_batch(&mut self, out: &mut Vec<ScanItem>) -> bool {
        if self.aside.is_empty() {
            return self.below.next_batch(out);
        }
        let some = self.aside.len().min(SCAN_BATCH_ITEMS);
        out.extend(self.aside.drain(..some).map(ScanItem::Fault));
        true
    }

    fn reuse(&mut self, paths: &mut Vec<Vec<u8>>) {
        self.below.reuse(paths);
    }

    fn helpers_cpu(&self) -> Duration {
        self.below.helpers_cpu()
    }
}

impl ArrivingStorage {
    /// Faults about the files at and below a path that were put aside, and of whose names the export has nothing.
    pub(super) fn aside(&self, start: &RelPath, choice: Option<&dyn Choice>) -> Vec<StoreError> {
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        let mut faults = Vec::new();
        let mut left: BTreeSet<RelPath> = BTreeSet::new();
        for file in arrivals.below(*source, start.as_bytes()) {
            let Ok(path) = RelPath::parse(&file.path) else {
                continue;
            };
            if !arrivals.is_aside(&file) || matches!(self.below.stat(&path), Ok(Some(_))) {
                continue;
            }
            if choice.is_none_or(|choice| is_chosen(start, &path, choice, &mut left)) {
                faults.push(StoreError::new(
                    "list (it is in the transfer buffer, and could not be written to its place: see `godwit buffer list --waiting`)",
                    &path,
                    StoreErrorKind::Io,
                ));
            }
        }
        faults
    }
}

/// Whether a scan from `start` would come to this path.
fn is_chosen(
    start: &RelPath,
    path: &RelPath,
    choice: &dyn Choice,
    left: &mut BTreeSet<RelPath>,
) -> bool {
    for directory in path.above_from_root() {
        let is_below = directory.as_bytes().len() > start.as_bytes().len();
        if !is_below {
            continue;
        }
        if left.contains(&directory) {
            return false;
        }
        if choice.pick(&directory, true) != Pick::Take {
            left.insert(directory);
            return false;
        }
    }
    path == start || choice.pick(path, false) != Pick::Leave
}
