//! Owns a complete storage in memory, which all its handles share and which ends with the last handle. Ignores
//! permissions and makes nothing durable; it serves tests, and transfers that end in a program.

mod beside;
mod content;
mod open;
mod tree;

use beside::{absent_is_fine, create, named, new_file, put_at_once, temp_path};
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::extended::{Extended, Lost};
use godwit_store::meta::{FinalMeta, Kind, Meta};
use godwit_store::path::{RelPath, TempName};
use godwit_store::storage::{
    Capabilities, Choice, Create, ReadFile, Replace, Scan, Storage, SurveyItem, WriteFile,
};
use open::{MemoryFile, MemoryScan};
use std::sync::{Arc, Mutex};
use tree::{Tree, lock};

/// A tree in memory. Clones are handles to the same tree.
#[derive(Debug, Clone)]
pub struct MemoryStorage {
    tree: Arc<Mutex<Tree>>,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStorage {
    /// An empty tree: only its root.
    pub fn new() -> Self {
        Self {
            tree: Arc::new(Mutex::new(Tree::new(false))),
        }
    }

    /// An empty tree in which names that differ only in letter case, or in the encoding of é, are equal.
    pub fn folding() -> Self {
        Self {
            tree: Arc::new(Mutex::new(Tree::new(true))),
        }
    }

    /// Puts a complete file at `path`, with the directories above it, in place of any entry there.
    pub fn put(&self, path: &RelPath, meta: &FinalMeta, content: &[u8]) -> Result<(), StoreError> {
        if let Some(parent) = path.parent() {
            self.make_directory(&parent, 0o755)?;
        }
        let temp = TempName::new(0, path);
        self.write_whole(path, &temp, meta, content)?;
        self.commit(path, &temp, Replace::Atomically)
    }

    /// The contents of the file at `path`, if it exists.
    pub fn content(&self, path: &RelPath) -> Option<Vec<u8>> {
        let node = lock(&self.tree).find("read", path).ok()??;
        let node = lock(&node);
        let mut content = vec![0; usize::try_from(node.content.bytes()).ok()?];
        node.content.read_at(0, &mut content);
        (node.meta.kind == Kind::File).then_some(content)
    }

    /// Removes the entries at and below `path`.
    pub fn remove(&self, path: &RelPath) {
        let mut tree = lock(&self.tree);
        while let Some((found, _)) = tree.next_below(path, None) {
            if let Some(node) = tree.take(&found) {
                lock(&node).unlinked();
            }
        }
    }

    /// All paths in order, including temporary names; the root is first.
    pub fn paths(&self) -> Vec<RelPath> {
        let tree = lock(&self.tree);
        let next = |after: Option<&RelPath>| {
            tree.next_below(&RelPath::root(), after)
                .map(|(path, _)| path)
        };
        std::iter::successors(next(None), |path| next(Some(path))).collect()
    }

    fn file(&self, operation: &'static str, path: &RelPath) -> Result<MemoryFile, StoreError> {
        let node = lock(&self.tree).get(operation, path)?;
        let trouble = match lock(&node).meta.kind {
            Kind::File => None,
            Kind::Symlink => Some(StoreErrorKind::Escape),
            _ => Some(StoreErrorKind::NotRegular),
        };
        match trouble {
            None => Ok(MemoryFile {
                node,
                path: path.clone(),
            }),
            Some(kind) => Err(StoreError::new(operation, path, kind)),
        }
    }
}

impl Storage for MemoryStorage {
    fn scan_chosen(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        lock(&self.tree).get("scan", start)?;
        Ok(Box::new(MemoryScan::begin(&self.tree, start, choice)))
    }

    fn stat(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let found = absent_is_fine(lock(&self.tree).find("look at", path))?;
        Ok(found.map(|node| lock(&node).meta))
    }

    fn extended(&self, path: &RelPath) -> Result<(Extended, Lost), StoreError> {
        let node = lock(&self.tree).get("read the attributes of", path)?;
        let extended = lock(&node).extended.clone();
        Ok((extended, Lost::NOTHING))
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>, StoreError> {
        let node = lock(&self.tree).get("read the link", path)?;
        let node = lock(&node);
        if node.meta.kind != Kind::Symlink {
            return Err(StoreError::new(
                "read the link",
                path,
                StoreErrorKind::TypeConflict,
            ));
        }
        Ok(node.target.clone())
    }

    fn reads_apart(&self, _: &RelPath) -> bool {
        true
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn ReadFile>, StoreError> {
        Ok(Box::new(self.file("open", path)?))
    }

    fn read_whole(&self, path: &RelPath, buffer: &mut [u8]) -> Result<(Meta, usize), StoreError> {
        let file = self.file("read", path)?;
        let node = lock(&file.node);
        if node.content.bytes() > buffer.len() as u64 {
            return Err(StoreError::new("read", path, StoreErrorKind::Changed));
        }
        let bytes = node.content.read_at(0, buffer);
        Ok((node.meta, bytes))
    }

    fn make_directory(&self, path: &RelPath, mode_now: u32) -> Result<bool, StoreError> {
        let operation = "make the directory";
        let mut tree = lock(&self.tree);
        let mut at = RelPath::root();
        let mut made = false;
        for name in path.components() {
            at = at
                .join(name)
                .map_err(|error| StoreError::from_path(operation, path, error))?;
            match tree.find(operation, &at)? {
                Some(node) if lock(&node).meta.kind == Kind::Directory => made = false,
                // Only the last entry is the obstacle; an earlier link would have to be followed.
                Some(node) if at == *path || lock(&node).meta.kind != Kind::Symlink => {
                    return Err(StoreError::new(
                        operation,
                        path,
                        StoreErrorKind::TypeConflict,
                    ));
                }
                Some(_) => return Err(StoreError::new(operation, path, StoreErrorKind::Escape)),
                None => {
                    let node = tree.new_node(Kind::Directory, mode_now);
                    tree.put(operation, &at, node)?;
                    made = true;
                }
            }
        }
        Ok(made)
    }

    fn open_directory(&self, path: &RelPath) -> Result<(), StoreError> {
        lock(&self.tree).get("open", path).map(drop)
    }

    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        let operation = "make the link";
        let mut tree = lock(&self.tree);
        if let Some(there) = tree.find(operation, path)? {
            let mut there = lock(&there);
            let same = there.meta.kind == Kind::Symlink && there.target == target;
            if same && replace == Replace::Atomically {
                there.meta.mtime = meta.mtime;
                there.changed();
                return Ok(Lost::NOTHING);
            }
        }
        let node = tree.new_node(Kind::Symlink, 0o777);
        lock(&node).target = target.to_vec();
        lock(&node).apply(&FinalMeta {
            mode: 0o777,
            ..meta.clone()
        });
        put_at_once(&mut tree, operation, path, node, temp, replace)
    }

    fn make_special(
        &self,
        path: &RelPath,
        kind: Kind,
        rdev: u64,
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        let mut tree = lock(&self.tree);
        let node = tree.new_node(kind, 0o600);
        lock(&node).meta.rdev = rdev;
        lock(&node).apply(meta);
        put_at_once(&mut tree, "make the node", path, node, temp, replace)
    }

    fn make_link(
        &self,
        path: &RelPath,
        first: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        let mut tree = lock(&self.tree);
        let node = tree.find("link", first)?;
        let there = tree.find("link", path)?;
        let node = node.ok_or_else(|| StoreError::new("link", path, StoreErrorKind::NotFound))?;
        if lock(&node).meta.kind == Kind::Directory {
            return Err(StoreError::new("link", first, StoreErrorKind::Permission));
        }
        if let Some(there) = there {
            if Arc::ptr_eq(&there, &node) {
                return Ok(());
            }
            if replace == Replace::Never {
                return Err(StoreError::new("link", path, StoreErrorKind::Exists));
            }
            tree.take(&temp_path("link", path, temp)?);
            if lock(&there).meta.kind == Kind::Directory {
                return Err(StoreError::new("link", path, StoreErrorKind::TypeConflict));
            }
        }
        tree.put("link", path, Arc::clone(&node))?;
        let mut node = lock(&node);
        node.meta.links += 1;
        node.changed();
        Ok(())
    }

    fn create(
        &self,
        path: &RelPath,
        temp: &TempName,
        how: Create,
        bytes: Option<u64>,
    ) -> Result<Box<dyn WriteFile>, StoreError> {
        let mut tree = lock(&self.tree);
        let node = create(&mut tree, path, temp, how).map_err(named(path))?;
        if let (Create::Shared, Some(bytes)) = (how, bytes) {
            let mut node = lock(&node);
            if node.content.bytes() < bytes {
                node.content.set_bytes(bytes);
                node.changed();
            }
        }
        Ok(Box::new(MemoryFile {
            node,
            path: path.clone(),
        }))
    }

    fn write_whole(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
    ) -> Result<Lost, StoreError> {
        let node = new_file(&mut lock(&self.tree), "write", path, temp).map_err(named(path))?;
        let mut node = lock(&node);
        node.content.write_at(0, content);
        node.apply(meta);
        Ok(Lost::NOTHING)
    }

    fn sync_batch(&self, files: &[(&RelPath, TempName)], _bytes: u64) -> Result<(), StoreError> {
        files
            .iter()
            .try_for_each(|(path, temp)| self.open_temp(path, temp).map(drop))
    }

    fn commit(&self, path: &RelPath, temp: &TempName, replace: Replace) -> Result<(), StoreError> {
        let mut tree = lock(&self.tree);
        let temp = temp_path("rename", path, temp)?;
        let node = tree.get("rename", &temp).map_err(named(path))?;
        if let Some(there) = tree.find("rename", path)? {
            if replace == Replace::Never {
                return Err(StoreError::new("rename", path, StoreErrorKind::Exists));
            }
            if lock(&there).meta.kind == Kind::Directory {
                return Err(StoreError::new(
                    "rename",
                    path,
                    StoreErrorKind::TypeConflict,
                ));
            }
        }
        tree.take(&temp);
        tree.put("rename", path, node)
    }

    fn sync_directories(&self, directories: &[RelPath]) -> Result<(), StoreError> {
        let tree = lock(&self.tree);
        directories.iter().try_for_each(|path| {
            let node = tree.get("sync the directory", path)?;
            let kind = match lock(&node).meta.kind {
                Kind::Directory => return Ok(()),
                Kind::Symlink => StoreErrorKind::Escape,
                _ => StoreErrorKind::TypeConflict,
            };
            Err(StoreError::new("sync the directory", path, kind))
        })
    }

    fn open_temp(&self, path: &RelPath, temp: &TempName) -> Result<Box<dyn ReadFile>, StoreError> {
        let file = self
            .file("open", &temp_path("open", path, temp)?)
            .map_err(named(path))?;
        Ok(Box::new(MemoryFile {
            path: path.clone(),
            ..file
        }))
    }

    fn discard(&self, path: &RelPath, temp: &TempName) -> Result<(), StoreError> {
        let mut tree = lock(&self.tree);
        absent_is_fine(tree.find("remove", path))?;
        if let Some(node) = tree.take(&temp_path("remove", path, temp)?) {
            lock(&node).unlinked();
        }
        Ok(())
    }

    fn set_directory_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let node = lock(&self.tree).get("set the attributes of", path)?;
        let mut node = lock(&node);
        if node.meta.kind != Kind::Directory {
            return Err(StoreError::new(
                "set the attributes of",
                path,
                StoreErrorKind::TypeConflict,
            ));
        }
        node.apply(meta);
        Ok(Lost::NOTHING)
    }

    fn sweep(
        &self,
        start: &RelPath,
        tag: u64,
        keep: &dyn Fn(&RelPath) -> bool,
    ) -> Result<u64, StoreError> {
        let mut tree = lock(&self.tree);
        absent_is_fine(tree.find("sweep", start))?;
        let beside = temp_path("sweep", start, &TempName::new(tag, start)).ok();
        let mut removed =
            u64::from(beside.is_some_and(|beside| !keep(&beside) && tree.take(&beside).is_some()));
        let mut last = None;
        while let Some((path, _)) = tree.next_below(start, last.as_ref()) {
            if path
                .file_name()
                .is_some_and(|name| TempName::is_ours(name, tag))
                && !keep(&path)
            {
                tree.take(&path);
                removed += 1;
            }
            last = Some(path);
        }
        Ok(removed)
    }

    fn survey(
        &self,
        start: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError> {
        absent_is_fine(lock(&self.tree).find("list", start))?;
        let mut last = start.clone();
        loop {
            let next = lock(&self.tree).next_below(start, Some(&last));
            let Some((path, node)) = next else {
                return Ok(());
            };
            let kind = lock(&node).meta.kind;
            last = path.clone();
            if !each(SurveyItem::Entry {
                path,
                kind,
                is_mount: false,
            }) {
                return Ok(());
            }
        }
    }

    fn names_in(&self, path: &RelPath, each: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        let names = lock(&self.tree).names_in("list", path)?;
        names.iter().for_each(|name| each(name));
        Ok(())
    }

    fn agrees(&self, path: &RelPath, there: &Meta, wanted: &FinalMeta) -> bool {
        let owner = wanted.uid.is_none_or(|uid| uid == there.uid)
            && wanted.gid.is_none_or(|gid| gid == there.gid);
        let mode = there.kind == Kind::Symlink || there.mode == wanted.mode & 0o7777;
        let found = self.extended(path).map(|(found, _)| found);
        let extended = found.is_ok_and(|found| {
            let Extended { xattrs, acls } = &wanted.extended;
            (xattrs.is_none() || *xattrs == found.xattrs) && (acls.is_none() || *acls == found.acls)
        });
        owner && mode && extended && there.mtime == wanted.mtime
    }

    fn set_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let operation = "set the attributes of";
        let node = lock(&self.tree).get(operation, path)?;
        let mut node = lock(&node);
        if node.meta.kind == Kind::Directory {
            let kind = StoreErrorKind::TypeConflict;
            return Err(StoreError::new(operation, path, kind));
        }
        node.apply(meta);
        Ok(Lost::NOTHING)
    }

    fn sync_attributes(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn remove_entry(&self, path: &RelPath, is_directory: bool) -> Result<(), StoreError> {
        let mut tree = lock(&self.tree);
        let Some(node) = absent_is_fine(tree.find("remove", path))? else {
            return Ok(());
        };
        let trouble = if is_directory != (lock(&node).meta.kind == Kind::Directory) {
            Some(StoreErrorKind::TypeConflict)
        } else {
            let below = tree.next_below(path, Some(path));
            below.map(|_| StoreErrorKind::Exists)
        };
        if let Some(kind) = trouble {
            return Err(StoreError::new("remove", path, kind));
        }
        tree.take(path);
        lock(&node).unlinked();
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            holes: true,
            symlinks: true,
            hard_links: true,
            durable: false,
        }
    }
}
