//! Owns the open files and listings of a storage in memory.
//! Does not make, rename or remove anything.

use super::tree::{Shared, Tree, lock};
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::extended::{Extended, Lost};
use godwit_store::meta::{FinalMeta, Kind, Meta};
use godwit_store::path::{RelPath, TempName};
use godwit_store::storage::{
    Choice, Pick, ReadFile, SCAN_BATCH_ITEMS, Scan, ScanEntry, ScanItem, WriteFile,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// An open file, for reading or writing.
#[derive(Debug)]
pub(super) struct MemoryFile {
    pub(super) node: Shared,
    pub(super) path: RelPath,
}

impl ReadFile for MemoryFile {
    fn meta(&self) -> Result<Meta, StoreError> {
        Ok(lock(&self.node).meta)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        Ok(lock(&self.node).content.read_at(offset, buffer))
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, StoreError> {
        Ok(lock(&self.node).content.next_data(offset))
    }

    fn drop_cache(&self) {}
}

impl WriteFile for MemoryFile {
    fn preallocate(&self, _range: Range<u64>) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if offset.checked_add(data.len() as u64).is_none() {
            return Err(StoreError::new(
                "write",
                &self.path,
                StoreErrorKind::Unsupported,
            ));
        }
        let mut node = lock(&self.node);
        node.content.write_at(offset, data);
        node.changed();
        Ok(())
    }

    fn write_out(&self, _range: Range<u64>) {
        // There is no device to write to.
    }

    fn finish(&self, bytes: u64, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let mut node = lock(&self.node);
        node.content.set_bytes(bytes);
        node.apply(meta);
        Ok(Lost::NOTHING)
    }
}

/// A listing; changes meanwhile may or may not be seen. Contains the names of files with several
/// names.
pub(super) struct MemoryScan {
    tree: Arc<Mutex<Tree>>,
    start: RelPath,
    choice: Option<Arc<dyn Choice>>,
    /// Directories that the scan does not enter.
    left: Vec<RelPath>,
    last: Option<RelPath>,
    links: BTreeMap<(u64, RelPath), Meta>,
    first: Option<(u64, RelPath)>,
}

impl MemoryScan {
    pub(super) fn begin(
        tree: &Arc<Mutex<Tree>>,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
    ) -> Self {
        Self {
            tree: Arc::clone(tree),
            start: start.clone(),
            choice,
            left: Vec::new(),
            last: None,
            links: BTreeMap::new(),
            first: None,
        }
    }

    fn chooses(&mut self, path: &RelPath, meta: &Meta) -> bool {
        let Some(choice) = &self.choice else {
            return true;
        };
        if self
            .left
            .iter()
            .any(|directory| path.starts_with(directory))
        {
            return false;
        }
        let is_directory = meta.kind == Kind::Directory;
        let pick = choice.pick(path, is_directory);
        if is_directory && pick != Pick::Take {
            self.left.push(path.clone());
        }
        pick != Pick::Leave
    }

    fn next_item(&mut self) -> Option<ScanItem> {
        let tree = Arc::clone(&self.tree);
        let tree = lock(&tree);
        while let Some((path, node)) = tree.next_below(&self.start, self.last.as_ref()) {
            self.last = Some(path.clone());
            let node = lock(&node);
            if path != self.start {
                if !self.chooses(&path, &node.meta) {
                    continue;
                }
                if path.file_name().is_some_and(TempName::is_temp) {
                    let reserved = StoreErrorKind::Reserved;
                    return Some(ScanItem::Fault(StoreError::new("copy", &path, reserved)));
                }
                if node.meta.kind == Kind::File && node.meta.links > 1 {
                    self.links.insert((node.meta.inode, path), node.meta);
                    continue;
                }
            }
            return Some(ScanItem::Entry(ScanEntry {
                path,
                meta: node.meta,
                target: node.target.clone(),
                extended: node.extended.clone(),
                lost: Lost::NOTHING,
            }));
        }
        let ((inode, path), meta) = self.links.pop_first()?;
        let entry = ScanEntry {
            path: path.clone(),
            meta,
            target: Vec::new(),
            extended: Extended::default(),
            lost: Lost::NOTHING,
        };
        if let Some((known, first)) = &self.first
            && *known == inode
        {
            return Some(ScanItem::Link {
                entry,
                first: first.clone(),
            });
        }
        self.first = Some((inode, path));
        Some(ScanItem::Entry(entry))
    }
}

impl Scan for MemoryScan {
    fn next_batch(&mut self, out: &mut Vec<ScanItem>) -> bool {
        for _ in 0..SCAN_BATCH_ITEMS {
            match self.next_item() {
                Some(item) => out.push(item),
                None => return false,
            }
        }
        true
    }
}
