//! Has what is there make way for a directory, at once: something else has its name, and files are to come below it.
//! What a directory itself makes way for waits until the end (`deferred`).

use std::io;

use godwit_proto::{EntryKind, Notice, NoticeKind, Record};
use godwit_store::{Kind, RelPath, StoreError, StoreErrorKind};

use super::{TreeSink, below, kind_number};
use crate::lock;
use crate::sink::Ending;
use crate::tree::plan::spill_error;

impl TreeSink {
    /// Makes the directories above `path` that were announced, in place of what else has their names: a manifest that says so
    /// may still be on its way, on another stream.
    pub(in crate::tree) fn make_way(&self, path: &RelPath) -> Result<(), StoreError> {
        let Some(base) = self.config.mapping.first() else {
            return Ok(());
        };
        let mut above = Vec::new();
        let mut at = path.parent();
        let root_too = self.root_makes_way(base);
        while let Some(parent) =
            at.filter(|parent| parent.starts_with(base) && (root_too || parent != base))
        {
            at = parent.parent();
            above.push(parent);
        }
        for parent in above.iter().rev() {
            let there = self.config.storage.stat(parent)?;
            if there.is_some_and(|there| there.kind != Kind::Directory) {
                self.replace_by_directory(parent, below(base, parent))?;
            }
        }
        Ok(())
    }

    /// The directory that has an entry's name is to go at the end, if all else goes well.
    pub(in crate::tree) fn expect_way(
        &self,
        record: &Record,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        if record.path.is_empty() {
            *lock(&self.way_at_root) = Some(Kind::Directory);
        }
        let noted = self.deferred.expect_way(path);
        noted.map_err(|error| spill_error(path, &error))
    }

    /// Makes a directory in place of something else, whose removal is told at the end.
    pub(in crate::tree) fn replace_by_directory(
        &self,
        path: &RelPath,
        below: &[u8],
    ) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.replacing);
        let comparison = self.comparison();
        let storage = &self.config.storage;
        let Some(there) = storage.stat(path)? else {
            return Ok(());
        };
        if there.kind == Kind::Directory {
            return Ok(());
        }
        self.hold_what_is_there(path)?;
        let allowed = comparison
            .max_delete
            .is_none_or(|max| self.counters.entries_deleted.get() < max);
        // Who names a link or a device as the destination of a whole directory may not know that it is one.
        let protected = self.config.select.excludes(below, false)
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
            // The survey finds it, and tells it; the root only if it is told of it.
            if below.is_empty() {
                *lock(&self.way_at_root) = Some(there.kind);
            }
            return Ok(());
        }
        storage.remove_entry(path, false)?;
        storage.make_directory(path, 0o700)?;
        self.counters.entries_deleted.add(1);
        let mut item = vec![kind_number(there.kind)];
        item.extend_from_slice(below);
        lock(&self.replaced)
            .push(&item)
            .map_err(|error| spill_error(path, &error))
    }

    /// Tells what made way for directories while the transfer ran.
    pub(in crate::tree) fn tell_replaced(&self, ending: &mut Ending<'_>) -> io::Result<()> {
        lock(&self.replaced).forward(|item| {
            if let Some((kind, path)) = item.split_first() {
                ending.tell(Notice {
                    kind: NoticeKind::DELETED,
                    entry: EntryKind(*kind),
                    root: 0,
                    text: path.to_vec(),
                });
            }
        })
    }
}
