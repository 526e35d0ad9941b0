//! Finds entries of a tree that nobody named, whatever the number of either: names are sorted on disk.
//! Reads no contents.

use std::io;
use std::path::Path;
use std::sync::Arc;

use godwit_store::spill::SpillSorter;
use godwit_store::{RelPath, ScanItem, StoreError};

use crate::{OwnFiles, TreeRoot};

/// Names in memory before they are sorted on disk.
const SORT_BYTES: usize = 16 << 20;

/// Behind a name that is expected; less than that of one that was found.
const EXPECTED: u8 = 0;
/// Behind a name that was found.
const FOUND: u8 = 1;

/// Remembers which names are expected.
pub struct Expected {
    names: SpillSorter,
    own: Arc<OwnFiles>,
}

/// Why the tree could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum ExtraError {
    /// What memory shall not hold could not be kept.
    #[error("names cannot be sorted on disk: {0}")]
    Spill(#[from] io::Error),
    /// The tree could not be listed in full, so nothing can be said of what is not in it.
    #[error("{0}")]
    Scan(#[from] StoreError),
}

impl Expected {
    /// Nothing is expected yet; what memory shall not hold goes to `spill`.
    pub fn new(spill: &Path) -> Self {
        Self {
            names: SpillSorter::new(spill, SORT_BYTES),
            own: Arc::default(),
        }
    }

    /// These files are nobody's business, as the manifest that says what is expected.
    #[must_use]
    pub fn without(self, own: Arc<OwnFiles>) -> Self {
        Self { own, ..self }
    }

    /// The name below the root is expected.
    ///
    /// # Errors
    /// It cannot be kept.
    pub fn add(&mut self, path: &[u8]) -> io::Result<()> {
        self.names.push(&item(path, EXPECTED))
    }

    /// Calls `each` with every name below `root` that is there and was not expected, in order.
    ///
    /// # Errors
    /// Then not all of them were named.
    pub fn find_extra(
        mut self,
        root: &TreeRoot,
        each: &mut dyn FnMut(&RelPath),
    ) -> Result<(), ExtraError> {
        let mut scan = root.storage.scan(&root.start)?;
        let mut items = Vec::new();
        loop {
            let more = scan.next_batch(&mut items);
            for found in items.drain(..) {
                match found {
                    ScanItem::Entry(entry) | ScanItem::Link { entry, .. }
                        if self.own.has(&entry.meta) => {}
                    ScanItem::Entry(entry) | ScanItem::Link { entry, .. } => {
                        self.names.push(&item(root.below(&entry.path), FOUND))?;
                    }
                    ScanItem::Fault(error) => return Err(error.into()),
                }
            }
            if !more {
                break;
            }
        }
        let mut merge = self.names.finish()?;
        let mut expected: Vec<u8> = Vec::new();
        let mut any = false;
        while let Some(item) = merge.next_record()? {
            let Some((kind, name)) = item.split_last() else {
                continue;
            };
            // A zero byte, which no name has, ends it: so a name sorts before all that it begins.
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            if *kind == EXPECTED {
                expected = name.to_vec();
                any = true;
            } else if (!any || expected != name)
                && let Ok(path) = RelPath::parse(name)
            {
                each(&path);
            }
        }
        Ok(())
    }
}

fn item(path: &[u8], kind: u8) -> Vec<u8> {
    let mut item = Vec::with_capacity(path.len() + 2);
    item.extend_from_slice(path);
    item.extend([0, kind]);
    item
}
