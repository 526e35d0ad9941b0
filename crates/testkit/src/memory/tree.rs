//! Owns the names in memory: the node at each path, and the allowed kinds of entries. Does not know
//! temporary names, or when entries are complete.

use super::beside::absent_is_fine;
use super::content::Content;
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::extended::Extended;
use godwit_store::meta::{FinalMeta, Kind, Meta, Timestamp};
use godwit_store::path::RelPath;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The entry of a name.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) meta: Meta,
    pub(super) target: Vec<u8>,
    pub(super) content: Content,
    pub(super) extended: Extended,
}

/// A node, shared between its names and its open files.
pub(super) type Shared = Arc<Mutex<Node>>;

/// All names.
#[derive(Debug)]
pub(super) struct Tree {
    /// A directory sorts before its contents.
    names: BTreeMap<RelPath, Shared>,
    inodes: u64,
    /// A name is also found in other spellings.
    folds: bool,
}

impl Tree {
    pub(super) fn new(folds: bool) -> Self {
        let mut tree = Self {
            names: BTreeMap::new(),
            inodes: 0,
            folds,
        };
        let root = tree.new_node(Kind::Directory, 0o755);
        tree.names.insert(RelPath::root(), root);
        tree
    }

    /// A node that has no name yet.
    pub(super) fn new_node(&mut self, kind: Kind, mode: u32) -> Shared {
        self.inodes += 1;
        let time = Timestamp::default();
        let meta = Meta {
            kind,
            mode: mode & 0o7777,
            bytes: 0,
            sparse: false,
            mtime: time,
            ctime: time,
            inode: self.inodes,
            device: 1,
            links: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
        };
        let mut node = Node {
            meta,
            target: Vec::new(),
            content: Content::default(),
            extended: Extended::default(),
        };
        node.changed();
        Arc::new(Mutex::new(node))
    }

    /// The entry at `path`, if its parent is a directory.
    pub(super) fn find(
        &self,
        operation: &'static str,
        path: &RelPath,
    ) -> Result<Option<Shared>, StoreError> {
        let Some(node) = self.names.get(&*self.spelled(path)) else {
            self.check_parent(operation, path)?;
            return Ok(None);
        };
        Ok(Some(Arc::clone(node)))
    }

    /// The entry at `path`; the error is `NotFound` if it does not exist.
    pub(super) fn get(
        &self,
        operation: &'static str,
        path: &RelPath,
    ) -> Result<Shared, StoreError> {
        self.find(operation, path)?
            .ok_or_else(|| StoreError::new(operation, path, StoreErrorKind::NotFound))
    }

    /// Makes `path` the name of `node` instead of its old node.
    pub(super) fn put(
        &mut self,
        operation: &'static str,
        path: &RelPath,
        node: Shared,
    ) -> Result<(), StoreError> {
        self.check_parent(operation, path)?;
        let path = self.spelled(path).into_owned();
        if let Some(old) = self.names.insert(path, node) {
            lock(&old).unlinked();
        }
        Ok(())
    }

    /// Removes the name; returns its node.
    pub(super) fn take(&mut self, path: &RelPath) -> Option<Shared> {
        let path = self.spelled(path).into_owned();
        self.names.remove(&path)
    }

    /// The names in a directory; none if it does not exist.
    pub(super) fn names_in(
        &self,
        operation: &'static str,
        path: &RelPath,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let kind = match absent_is_fine(self.find(operation, path))? {
            Some(node) => lock(&node).meta.kind,
            None => return Ok(Vec::new()),
        };
        let trouble = match kind {
            Kind::Directory => {
                let path = self.spelled(path);
                return Ok(self.names_in_stored(&path).map(<[u8]>::to_vec).collect());
            }
            Kind::Symlink => StoreErrorKind::Escape,
            _ => StoreErrorKind::TypeConflict,
        };
        Err(StoreError::new(operation, path, trouble))
    }

    fn names_in_stored(&self, path: &RelPath) -> impl Iterator<Item = &[u8]> {
        let inside = self.names.keys().filter_map(RelPath::split);
        inside.filter_map(move |(parent, name)| (parent == path.as_bytes()).then_some(name))
    }

    /// The path as it is stored; for a missing entry, its name after the stored path of its directory.
    fn spelled<'a>(&self, path: &'a RelPath) -> Cow<'a, RelPath> {
        if !self.folds || self.names.contains_key(path) {
            return Cow::Borrowed(path);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Cow::Borrowed(path);
        };
        let parent = self.spelled(&parent).into_owned();
        let stored = self
            .names_in_stored(&parent)
            .find(|stored| fold(stored) == fold(name));
        let joined = parent.join(stored.unwrap_or(name));
        joined.map_or(Cow::Borrowed(path), Cow::Owned)
    }

    /// The next path after `after` (or from `start` on) that is at or below `start`.
    pub(super) fn next_below(
        &self,
        start: &RelPath,
        after: Option<&RelPath>,
    ) -> Option<(RelPath, Shared)> {
        let start = &*self.spelled(start);
        let from = after.map_or(Bound::Included(start), Bound::Excluded);
        // Siblings such as "a-b" sort between "a" and "a/c".
        let mut rest = self.names.range((from, Bound::Unbounded));
        rest.by_ref()
            .take_while(|(path, _)| path.as_bytes().starts_with(start.as_bytes()))
            .find(|(path, _)| path.starts_with(start))
            .map(|(path, node)| (path.clone(), Arc::clone(node)))
    }

    fn check_parent(&self, operation: &'static str, path: &RelPath) -> Result<(), StoreError> {
        let mut missing = false;
        let mut at = path.parent();
        while let Some(parent) = at {
            let kind = self
                .names
                .get(&*self.spelled(&parent))
                .map(|node| lock(node).meta.kind);
            let trouble = match kind {
                Some(Kind::Directory) if missing => StoreErrorKind::NotFound,
                Some(Kind::Directory) => return Ok(()),
                Some(Kind::Symlink) => StoreErrorKind::Escape,
                Some(_) => StoreErrorKind::TypeConflict,
                None => {
                    missing = true;
                    at = parent.parent();
                    continue;
                }
            };
            return Err(StoreError::new(operation, path, trouble));
        }
        Ok(())
    }
}

impl Node {
    /// Records that any property of the node changed: no two states of any node have the same ctime.
    pub(super) fn changed(&mut self) {
        use std::sync::atomic::{AtomicU32, Ordering};
        static CLOCK: AtomicU32 = AtomicU32::new(1);
        let now = CLOCK.fetch_add(1, Ordering::Relaxed);
        self.meta.ctime = Timestamp {
            seconds: i64::from(now),
            nanoseconds: 0,
        };
        self.meta.bytes = match self.meta.kind {
            Kind::Symlink => self.target.len() as u64,
            _ => self.content.bytes(),
        };
        self.meta.sparse = self.content.is_sparse();
    }

    /// Sets mode, mtime, owner, and the other attributes in `meta`.
    pub(super) fn apply(&mut self, meta: &FinalMeta) {
        self.meta.mode = meta.mode & 0o7777;
        self.meta.mtime = meta.mtime;
        self.meta.uid = meta.uid.unwrap_or(self.meta.uid);
        self.meta.gid = meta.gid.unwrap_or(self.meta.gid);
        let given = &meta.extended;
        if given.xattrs.is_some() {
            self.extended.xattrs.clone_from(&given.xattrs);
        }
        if given.acls.is_some() {
            self.extended.acls.clone_from(&given.acls);
        }
        self.changed();
    }

    /// Records that the node has one name less.
    pub(super) fn unlinked(&mut self) {
        self.meta.links = self.meta.links.saturating_sub(1);
        self.changed();
    }
}

/// The common form of all names that a folding tree treats as equal.
fn fold(name: &[u8]) -> String {
    let folded = String::from_utf8_lossy(name).to_lowercase();
    folded.replace("e\u{301}", "é")
}

/// The state under our locks is valid after each statement, so a panic elsewhere does not damage it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
