//! Finds entries of a tree that the input does not name, whatever the number of either: names are sorted on disk.
//! Reads no contents.

use std::io;
use std::path::Path;
use std::sync::Arc;

use godwit_store::spill::SpillSorter;
use godwit_store::{RelPath, ScanItem, StoreError};

use crate::{OwnFiles, TreeRoot};

/// Names in memory before they are sorted on disk.
const SORT_BYTES: usize = 16 << 20;

/// Names between two checks for a stop.
const LOOK_EACH: u64 = 1_024;

/// Byte behind an expected name; less than the byte of a found name.
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
    /// Names beyond the memory bound could not be written to disk.
    #[error("names cannot be sorted on disk: {0}")]
    Spill(#[from] io::Error),
    /// The tree could not be listed in full, so missing entries are unknown.
    #[error("{0}")]
    Scan(#[from] StoreError),
    /// The caller gave it up.
    #[error("the search for further names was given up before its end")]
    GivenUp,
}

impl Expected {
    /// Starts without expectations; names that exceed the memory bound go to `spill`.
    pub fn new(spill: &Path) -> Self {
        Self {
            names: SpillSorter::new(spill, SORT_BYTES),
            own: Arc::default(),
        }
    }

    /// These files are left out, as is the manifest with the expectations.
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

    /// Calls `each` with every name below `root` that was not expected, in order, until `each` returns false. `goes_on` is asked
    /// throughout, even while no such name is found.
    ///
    /// # Errors
    /// Then not all of them were named.
    pub fn find_extra(
        mut self,
        root: &TreeRoot,
        goes_on: &mut dyn FnMut() -> bool,
        each: &mut dyn FnMut(&RelPath) -> bool,
    ) -> Result<(), ExtraError> {
        let mut scan = root.storage.scan(&root.start)?;
        let mut items = Vec::new();
        loop {
            if !goes_on() {
                return Err(ExtraError::GivenUp);
            }
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
        let mut seen = 0_u64;
        while let Some(item) = merge.next_record()? {
            seen += 1;
            if seen.is_multiple_of(LOOK_EACH) && !goes_on() {
                return Err(ExtraError::GivenUp);
            }
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
                && !each(&path)
            {
                return Err(ExtraError::GivenUp);
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

#[cfg(test)]
mod tests {
    use godwit_store::FinalMeta;
    use godwit_testkit::MemoryStorage;

    use super::*;

    #[test]
    fn the_search_ends_when_it_is_given_up_also_where_nothing_is_found() {
        let storage = MemoryStorage::new();
        let spill = tempfile::tempdir().expect("a directory");
        for name in ["known", "new"] {
            let path = RelPath::parse(name.as_bytes()).expect("a path");
            let meta = FinalMeta::default();
            storage.put(&path, &meta, b"x").expect("put");
        }
        let root = TreeRoot {
            storage: Arc::new(storage),
            start: RelPath::root(),
        };
        let search = |looks: u32, wanted: bool| {
            let mut expected = Expected::new(spill.path());
            for name in [b"".as_slice(), b"known"] {
                expected.add(name).expect("kept");
            }
            let (mut looked, mut found) = (0, Vec::new());
            let mut goes_on = || {
                looked += 1;
                looked <= looks
            };
            let searched = expected.find_extra(&root, &mut goes_on, &mut |path| {
                found.push(path.to_string());
                wanted
            });
            (searched.is_ok(), found)
        };
        assert_eq!(search(u32::MAX, true), (true, vec!["new".to_owned()]));
        assert_eq!(search(0, true), (false, Vec::new()));
        assert_eq!(search(u32::MAX, false), (false, vec!["new".to_owned()]));
    }
}
