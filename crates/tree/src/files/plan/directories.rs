//! Manages the directories of a destination: which ones this transfer made, which have exact names, and which entries a directory replaced.
//! Does not set times or final modes (`finisher`), and writes no contents.
//!
//! Lock order: `replacing` precedes all other locks here; the other locks are held for one call only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use godwit_engine::{entry, lock};
use godwit_proto::{EntryId, Fault, FaultCode, Side};
use godwit_store::seen::SeenSet;
use godwit_store::{Kind, Meta, RelPath, StoreError, StoreErrorKind};

use crate::files::finish::delete::kind_number;
use crate::files::plan::agenda::Agenda;
use crate::files::plan::announced::Key;
use crate::files::plan::remembered::Remembered;
use crate::files::plan::spelling::{LastDirectory, Spelling, taken};
use crate::files::target::{Target, below, destination_fault, spill_error};

/// Most remembered directories of this transfer; beyond that, all are forgotten and looked at again.
const FRESH_MAX: usize = 64 * 1024;

/// The mode bits that a directory's owner needs while a transfer writes in it.
pub(crate) const OWNER_BITS: u32 = 0o700;

/// Makes directories, opens closed ones, and checks that entries have exactly the announced names.
pub(crate) struct Directories {
    target: Arc<Target>,
    agenda: Arc<Agenda>,
    /// Checks which names at the destination are exactly the announced ones.
    pub(crate) spelling: Spelling,
    /// Directories that this transfer made: their contents need no look.
    fresh: Mutex<Remembered<()>>,
    /// Whether directories were made: most repeated runs make none.
    made_any: AtomicBool,
    /// Locked while an entry is replaced by a directory. In a dry run, it contains the entries that would have been replaced.
    replacing: Mutex<SeenSet>,
}

impl Directories {
    pub(crate) fn new(target: &Arc<Target>, agenda: &Arc<Agenda>) -> Self {
        let config = &target.config;
        Self {
            spelling: Spelling::new(&config.storage, &config.mapping, &config.spill),
            target: Arc::clone(target),
            agenda: Arc::clone(agenda),
            fresh: Mutex::new(Remembered::new(FRESH_MAX)),
            made_any: AtomicBool::new(false),
            replacing: Mutex::new(SeenSet::new(&config.spill)),
        }
    }

    /// Whether this transfer made the directory of `path`, and it still seems to exist.
    pub(crate) fn is_fresh(&self, path: &RelPath) -> bool {
        path.split().is_some_and(|(parent, _)| self.made(parent))
    }

    /// Whether this transfer is known to have made the directory at this path.
    pub(crate) fn made(&self, directory: &[u8]) -> bool {
        self.made_any.load(Ordering::Acquire) && lock(&self.fresh).get(directory).is_some()
    }

    /// Whether this transfer made a directory.
    pub(crate) fn made_any(&self) -> bool {
        self.made_any.load(Ordering::Acquire)
    }

    pub(crate) fn remember_fresh(&self, path: &RelPath) {
        lock(&self.fresh).put(path.as_bytes(), ());
        self.made_any.store(true, Ordering::Release);
    }

    pub(crate) fn make_directory(&self, path: &RelPath) -> Result<bool, StoreError> {
        let storage = &self.target.config.storage;
        self.opening(path, &|| storage.make_directory(path, 0o700))
    }

    /// Runs an operation in the directory of `path`; if it fails, prepares the directory and tries again.
    pub(crate) fn within_its_directory<T>(
        &self,
        path: &RelPath,
        act: &dyn Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.opening(path, act) {
            // The manifest with the directory may still be in flight, on another stream, or another program has removed the directory.
            Err(error) if error.kind == StoreErrorKind::NotFound => {
                self.make_parents(path)?;
                act()
            }
            Err(error) if self.target.may_replace(&error) => {
                self.make_way(path)?;
                act()
            }
            result => result,
        }
    }

    /// Runs an operation in the directory of `path`. If we own the directory but its mode forbids the operation, the mode is changed first.
    /// The final mode is set at the end.
    pub(crate) fn opening<T>(
        &self,
        path: &RelPath,
        act: &dyn Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match act() {
            Err(error) if error.kind == StoreErrorKind::Permission => {
                let parent = path.parent().unwrap_or_default();
                if !self.target.sets_mode_of(&parent) {
                    return Err(self.closed(&parent).unwrap_or(error));
                }
                if self.target.config.storage.open_directory(&parent).is_err() {
                    return Err(error);
                }
                act()
            }
            result => result,
        }
    }

    /// Looks at `path`. A directory above `path` may deny access to its owner. If this transfer sets the mode of that directory, access
    /// is granted first. The manifest with that directory may still be in flight on another stream.
    pub(crate) fn looking(
        &self,
        path: &RelPath,
        look: &mut dyn FnMut() -> Result<Option<Meta>, StoreError>,
    ) -> Result<Option<Meta>, StoreError> {
        match look() {
            Err(error) if error.kind == StoreErrorKind::Permission => {
                if self.target.comparison().dry_run {
                    return Err(error);
                }
                self.open_above(path);
                look()
            }
            found => found,
        }
    }

    /// Grants the owner access to the directories above `path`, outermost first, if this transfer sets their modes.
    fn open_above(&self, path: &RelPath) {
        let storage = &self.target.config.storage;
        for directory in path.above_from_root() {
            if !self.target.sets_mode_of(&directory) {
                continue;
            }
            let closed = storage.stat(&directory).is_ok_and(|there| {
                there.is_some_and(|there| {
                    there.kind == Kind::Directory && there.mode & OWNER_BITS != OWNER_BITS
                })
            });
            // The following look reports a directory that cannot be opened.
            if closed && storage.open_directory(&directory).is_err() {
                return;
            }
        }
    }

    /// The error for a directory in which its own mode forbids us to make entries.
    fn closed(&self, directory: &RelPath) -> Option<StoreError> {
        let there = self.target.config.storage.stat(directory).ok().flatten()?;
        (there.mode & 0o300 != 0o300).then(|| StoreError {
            operation: "write in the directory (its mode forbids writing, and this transfer may not change the mode)",
            path: directory.clone(),
            kind: StoreErrorKind::Permission,
            errno: None,
        })
    }

    fn make_parents(&self, path: &RelPath) -> Result<(), StoreError> {
        match path.parent() {
            Some(parent) if !parent.as_bytes().is_empty() => self
                .target
                .config
                .storage
                .make_directory(&parent, 0o755)
                .map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Makes the announced directories above `path`, replacing other entries with their names. The manifest with these directories may
    /// still be in flight, on another stream.
    fn make_way(&self, path: &RelPath) -> Result<(), StoreError> {
        let Some(base) = self.target.config.mapping.first() else {
            return Ok(());
        };
        let root_too = self.target.root_makes_way(base);
        let above = path
            .above_from_root()
            .filter(|parent| parent.starts_with(base) && (root_too || parent != base));
        for parent in above {
            let there = self.target.config.storage.stat(&parent)?;
            if there.is_some_and(|there| there.kind != Kind::Directory) {
                self.replace_by_directory(&parent, below(base, &parent))?;
            }
        }
        Ok(())
    }

    /// Replaces another kind of entry by a directory; the removal is reported at the end.
    pub(crate) fn replace_by_directory(
        &self,
        path: &RelPath,
        below: &[u8],
    ) -> Result<(), StoreError> {
        let mut replaced = lock(&self.replacing);
        let comparison = self.target.comparison();
        let storage = &self.target.config.storage;
        let Some(there) = storage.stat(path)? else {
            return Ok(());
        };
        let is_noted = || replaced.contains(path.as_bytes());
        if there.kind == Kind::Directory || comparison.dry_run && matches!(is_noted(), Ok(true)) {
            return Ok(());
        }
        self.hold_what_is_there(path)?;
        let allowed = comparison
            .max_delete
            .is_none_or(|max| self.target.counters.entries_deleted.get() < max);
        // The user may not know that the destination is a link or a device.
        let protected = self.target.config.select.excludes(below, false)
            || below.is_empty() && there.kind != Kind::File;
        if !comparison.delete || !allowed || protected {
            return Err(StoreError {
                operation: "make the directory in place of something else",
                path: path.clone(),
                kind: StoreErrorKind::TypeConflict,
                errno: None,
            });
        }
        if comparison.dry_run {
            // In a dry run the entry still exists. The entry is counted here, so the survey must not count it again.
            let noted = replaced.insert(path.as_bytes());
            noted.map_err(|error| spill_error(path, &error))?;
            self.agenda.announced.add(&[Key::new(0, below, false)]);
        } else {
            storage.remove_entry(path, false)?;
            storage.make_directory(path, 0o700)?;
        }
        self.target.counters.entries_deleted.add(1);
        let mut item = vec![kind_number(there.kind)];
        item.extend_from_slice(below);
        lock(&self.agenda.replaced)
            .push(&item)
            .map_err(|error| spill_error(path, &error))
    }

    /// Checks that the entry found at `path`, if any, is the announced one. Otherwise the announced entry fails, and nothing is replaced,
    /// skipped or merged.
    pub(crate) fn hold_to_spelling(
        &self,
        entry: EntryId,
        path: &RelPath,
        found: bool,
        last: &mut LastDirectory,
    ) -> Result<(), Fault> {
        match self.spelling.suits(path, found, last) {
            Ok(true) => Ok(()),
            // An entry with a directory's name is replaced by the directory before anything is made there.
            Err(error) if !found && self.target.may_replace(&error) => Ok(()),
            Ok(false) => {
                self.spelling.note_met();
                if last.is_exact() {
                    return Err(taken(entry, path));
                }
                let message = format!(
                    "{path}: its directory has the same name as a different directory at the destination (letter case or normalisation of names), and they were not merged; rename one of the two"
                );
                Err(destination_fault(entry, FaultCode::COLLISION, message))
            }
            Err(error) => Err(entry::fault(entry, Side::DESTINATION, &error)),
        }
    }

    /// The entry at `path`, which must be the announced one. Directories that this transfer made are not searched.
    pub(crate) fn there(
        &self,
        entry: EntryId,
        path: &RelPath,
        last: &mut LastDirectory,
        mut look: impl FnMut() -> Result<Option<Meta>, StoreError>,
    ) -> Result<Option<Meta>, Fault> {
        if self.is_fresh(path) {
            return Ok(None);
        }
        let there = self
            .target
            .unless_in_the_way(self.looking(path, &mut look))
            .map_err(|error| entry::fault(entry, Side::DESTINATION, &error))?;
        self.hold_to_spelling(entry, path, there.is_some(), last)?;
        Ok(there)
    }

    /// Checks again before an entry is made at `path`, where no entry was found before. The check costs nothing until an entry has collided
    /// with another one.
    pub(crate) fn hold_before_making(&self, entry: EntryId, path: &RelPath) -> Result<(), Fault> {
        if !self.spelling.has_met() {
            return Ok(());
        }
        self.hold_to_spelling(entry, path, false, &mut LastDirectory::default())
    }

    /// Like [`Directories::hold_to_spelling`], for an existing entry, with a storage error as result.
    fn hold_what_is_there(&self, path: &RelPath) -> Result<(), StoreError> {
        let mut last = LastDirectory::default();
        if self.spelling.suits(path, true, &mut last)? {
            return Ok(());
        }
        self.spelling.note_met();
        Err(StoreError {
            operation: "replace (the existing entry has this name in a different spelling, and may be unrelated)",
            path: path.clone(),
            kind: StoreErrorKind::Exists,
            errno: None,
        })
    }
}
