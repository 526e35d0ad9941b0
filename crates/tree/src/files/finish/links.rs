//! Makes additional names of files, links and special files at the end, when their first names exist. Does not decide which names are
//! made (`planner`).
//!
//! A hard link is made only to a file that this transfer delivered or found to be the same (`undelivered`). If the first name is
//! skipped, the answer to its links is `digest`, and the sender announces them again as files.

use std::sync::Arc;

use godwit_engine::{entry, lock};
use godwit_proto::{EntryId, Fault, FaultCode, Side};
use godwit_store::{Kind, Meta, RelPath, StoreError, StoreErrorKind};

use crate::files::finish::spill_list::{DeferredLink, decode_link};
use crate::files::finish::undelivered::{Undelivered, UndeliveredSet};
use crate::files::plan::agenda::Agenda;
use crate::files::plan::compare::is_same_file;
use crate::files::plan::directories::Directories;
use crate::files::plan::spelling::{LastDirectory, taken};
use crate::files::target::{Target, destination_fault};

/// Makes the links that the planner noted.
pub(crate) struct Linker<'a> {
    pub(crate) target: &'a Target,
    pub(crate) agenda: &'a Agenda,
    pub(crate) directories: &'a Directories,
    pub(crate) undelivered: &'a Arc<UndeliveredSet>,
    pub(crate) goes_on: &'a dyn Fn() -> bool,
}

impl Linker<'_> {
    /// Makes all links; if a link cannot be made, its entry fails. No link is made after the end of the transfer.
    ///
    /// # Errors
    /// The list cannot be read back.
    pub(crate) fn make_all(&self) -> std::io::Result<()> {
        let mut last = <[LastDirectory; 2]>::default();
        lock(&self.agenda.links).forward(|item| {
            let Some(link) = decode_link(item).filter(|_| (self.goes_on)()) else {
                return;
            };
            if link.is_there {
                self.join(&link);
                return;
            }
            match self.make_link(&link, &mut last) {
                Ok(made) => self.target.counters.files_done.add(u64::from(made)),
                Err(mut fault) => {
                    fault.entry = link.id;
                    self.target.fail(fault, link.root, link.path);
                }
            }
        })
    }

    /// Looks at `path` now that all files exist; an entry there must be the announced one.
    fn look_again(
        &self,
        id: EntryId,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Option<Meta>, Fault> {
        let there = self
            .target
            .look(path)
            .map_err(|error| entry::fault(id, Side::DESTINATION, &error))?;
        if there.is_some() || !self.directories.is_fresh(path) {
            self.directories
                .hold_to_spelling(id, path, there.is_some(), last)?;
        }
        Ok(there)
    }

    /// Replaces one of two equal entries without contents by a link to the other. If that is impossible, both stay, and the case is
    /// counted.
    fn join(&self, link: &DeferredLink<'_>) {
        let storage = &self.target.config.storage;
        let joined = || {
            let name = self.target.mapped(link.root, link.path).ok()?;
            let first = self.target.mapped(link.root, link.first).ok()?;
            let [there, wanted] = [&name, &first].map(|path| self.target.look(path).ok().flatten());
            let (there, wanted) = (there?, wanted?);
            if is_same_file(&there, &wanted) {
                return Some(());
            }
            let is_like = match there.kind {
                Kind::Directory | Kind::File => false,
                Kind::Symlink => {
                    storage.read_link(&name).ok()? == storage.read_link(&first).ok()?
                }
                _ => there.rdev == wanted.rdev,
            };
            if there.kind != wanted.kind || !is_like || self.target.hold_fence(link.id).is_err() {
                return None;
            }
            let temp = self.target.temp(&name);
            let made = self.directories.within_its_directory(&name, &|| {
                storage.make_link(&name, &first, &temp, link.replace)
            });
            made.ok()
        };
        if joined().is_none() {
            self.target.counters.links_split.add(1);
        }
    }

    /// Returns whether there was work to do. `last` caches facts about the directories of both names.
    fn make_link(
        &self,
        link: &DeferredLink<'_>,
        last: &mut [LastDirectory; 2],
    ) -> Result<bool, Fault> {
        let fault = |error: StoreError| entry::fault(link.id, Side::DESTINATION, &error);
        let name = self.target.mapped(link.root, link.path)?;
        let first = self.target.mapped(link.root, link.first)?;
        let undelivered = |code, why: &str| {
            let message = format!("{name}: its first name {first} {why}");
            destination_fault(link.id, code, message)
        };
        let mut is_foreign = false;
        match self.undelivered.find(link.root, link.first) {
            Ok(None) => {}
            Ok(Some(Undelivered::Foreign)) => is_foreign = true,
            Ok(Some(Undelivered::Failed)) => {
                let why = "was not delivered, so no link can be made; copy again once the first name can be delivered";
                return Err(undelivered(FaultCode::NOT_FOUND, why));
            }
            // The code is the same as for the file, so that a group of failures by code contains both.
            Ok(Some(Undelivered::NoRoom)) => {
                let message = format!(
                    "{name}: its first name {first}: no space left, so no link can be made; copy again once space is free"
                );
                return Err(destination_fault(link.id, FaultCode::NO_SPACE, message));
            }
            // This end found it too late, because the manifest arrived first; the next run knows it from the beginning.
            Ok(Some(Undelivered::Left)) => {
                let why = "stays unchanged and differs from the source; copy again, and this name becomes a separate file";
                return Err(undelivered(FaultCode::NOT_FOUND, why));
            }
            Err(error) => {
                let why = format!(
                    "may not have been delivered: failed entries cannot be recorded: {error}"
                );
                return Err(undelivered(FaultCode::IO, &why));
            }
        }
        let [last_of_name, last_of_first] = last;
        let Some(file) = self
            .look_again(link.id, &first, last_of_first)?
            .filter(|there| there.kind == Kind::File)
        else {
            let why = "no longer exists, so no link can be made; copy again";
            return Err(undelivered(FaultCode::NOT_FOUND, why));
        };
        let there = self.look_again(link.id, &name, last_of_name)?;
        if there.is_some_and(|there| is_same_file(&there, &file)) {
            return Ok(false);
        }
        if is_foreign {
            let why = "was neither sent nor proven by its digest, and the sender may not read it; send it as well (--force), or get the right to read the destination";
            return Err(undelivered(FaultCode::PERMISSION, why));
        }
        self.target.hold_fence(link.id)?;
        let temp = self.target.temp(&name);
        let storage = &self.target.config.storage;
        let made = self.directories.within_its_directory(&name, &|| {
            storage.make_link(&name, &first, &temp, link.replace)
        });
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind == StoreErrorKind::Exists => Err(taken(link.id, &name)),
            Err(error) => Err(fault(error)),
        }
    }
}

#[cfg(test)]
mod tests;
