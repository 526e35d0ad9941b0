//! Finds entries of a tree that the input does not name, for any number of names: they are sorted on disk. Reads no contents.

use std::io;
use std::path::Path;
use std::sync::Arc;

use godwit_store::spill::SpillSorter;
use godwit_store::{RelPath, ScanItem, StoreError};

use crate::{OwnFiles, TreeRoot};

/// Memory for names before they are sorted on disk, in bytes.
const SORT_BYTES: usize = 16 << 20;

/// Names between two checks for a stop.
const LOOK_EACH: u64 = 1_024;

/// Byte after an expected name; less than the byte of a found name.
const EXPECTED: u8 = 0;
/// Byte after a found name.
const FOUND: u8 = 1;

/// Remembers which names are expected.
pub struct Expected {
    names: SpillSorter,
    own: Arc<OwnFiles>,
}

/// Reason why the tree could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum ExtraError {
    /// Names beyond the memory bound could not be written to disk.
    #[error("names cannot be sorted on disk: {0}")]
    Spill(#[from] io::Error),
    /// The tree could not be listed completely, so missing entries are unknown.
    #[error("{0}")]
    Scan(#[from] StoreError),
    /// The caller stopped the search.
    #[error("the search for further names was given up before its end")]
    GivenUp,
}

impl Expected {
    /// A set without expected names; names that exceed the memory bound go to `spill`.
    pub fn new(spill: &Path) -> Self {
        Self {
            names: SpillSorter::new(spill, SORT_BYTES),
            own: Arc::default(),
        }
    }

    /// Leaves out these files, for example the manifest with the expectations.
    #[must_use]
    pub fn without(self, own: Arc<OwnFiles>) -> Self {
        Self { own, ..self }
    }

    /// Adds an expected name below the root.
    ///
    /// # Errors
    /// The name cannot be stored.
    pub fn add(&mut self, path: &[u8]) -> io::Result<()> {
        self.names.push(&item(path, EXPECTED))
    }

    /// Calls `each` with every name below `root` that was not expected, in order, until `each` returns false. `goes_on` is
    /// called regularly, even while no such name is found.
    ///
    /// # Errors
    /// After an error, not all names were reported.
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
            // Each name ends with a zero byte, which no name contains, so that a name sorts before longer names with the same
            // beginning.
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
