//! Finishes a tree: deletion, deferred names, links, directory times, and the last steps of the journal. Writes no contents; all its
//! work was recorded on the agenda while the transfer ran.
//!
//! A member of a claim does only the flush and the journal here; the closer, a separate transfer, does the rest.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use godwit_engine::{Ending, entry, lock};
use godwit_proto::limits::MESSAGE_BYTES_MAX;
use godwit_proto::{Fault, FaultCode, Notice, NoticeKind, Side};
use godwit_store::journal::PathKey;
use godwit_store::{Lost, RelPath, Replace, StoreError, TempName};

use crate::files::error::{CloseError, CommitError, DirectoriesError, FinishError, ListError};
use crate::files::finish::commit::Committer;
use crate::files::finish::deferred::Waiting;
use crate::files::finish::delete::{Deleter, Deletion};
use crate::files::finish::links::Linker;
use crate::files::finish::spill_list::decode_directory;
use crate::files::finish::unclaimed::{sweep_earlier, sweep_unclaimed, unswept};
use crate::files::finish::undelivered::{Undelivered, UndeliveredSet};
use crate::files::plan::agenda::Agenda;
use crate::files::plan::directories::Directories;
use crate::files::region::Region;
use crate::files::target::{Target, below, destination_fault};
use crate::files::write::held::Held;
use crate::files::write::maker::Maker;
use crate::files::write::open::OpenFiles;

/// Setuid and setgid.
const SET_ID_BITS: u32 = 0o6000;

/// Directories that are synced in one call.
const SYNC_AT_ONCE: usize = 4096;

/// Does the work of the agenda, and closes the destination.
pub(crate) struct Finisher {
    pub(crate) target: Arc<Target>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) held: Arc<Held>,
    pub(crate) undelivered: Arc<UndeliveredSet>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) maker: Maker,
    /// Damage to the journal of an earlier run, if the user at the other end should see it.
    pub(crate) damage: Option<String>,
    /// Number of faults of entries that only the destination has.
    pub(crate) unknown: AtomicU64,
}

impl Finisher {
    /// Makes everything durable and final after all data was sent.
    pub(crate) fn finish(&self, ending: &mut Ending<'_>) -> Result<(), FinishError> {
        if self.target.comparison().dry_run {
            let deleter = self.deleter();
            deleter.report_replaced(ending).map_err(ListError)?;
            deleter.delete_extras(ending);
            self.committer.stop(true);
            return Ok(());
        }
        self.committer.flush()?;
        self.report_damage(ending);
        if !self.target.finishes_tree() {
            self.sync_adjusted()?;
            return Ok(self.close()?);
        }
        self.hold_fence()?;
        let deleter = self.deleter();
        deleter.report_replaced(ending).map_err(ListError)?;
        let deletion = deleter.delete_extras(ending);
        if let Deletion::WouldEmpty(count) = deletion {
            // No data has arrived, so there is nothing to resume.
            self.committer.stop(self.held.resumed);
            let would_go = match self.target.config.hides_names {
                true => "all entries".to_owned(),
                false if count == 1 => "1 entry".to_owned(),
                false => format!("{count} entries"),
            };
            return Err(FinishError::EmptySource { would_go });
        }
        go_on(ending)?;
        self.name_deferred(deletion)?;
        let linker = Linker {
            target: &self.target,
            agenda: &self.agenda,
            directories: &self.directories,
            undelivered: &self.undelivered,
            goes_on: ending.goes_on,
        };
        linker.make_all().map_err(ListError)?;
        go_on(ending)?;
        self.hold_fence()?;
        if self.target.config.member.is_some() {
            self.sweep_claim()?;
        }
        let has_root = self.target.region().is_none_or(Region::has_root);
        if has_root && self.target.counters.entries_failed.get() == 0 {
            let swept = sweep_earlier(&self.target);
            swept.map_err(|error| unswept(&self.target, error))?;
        }
        self.set_directories()?;
        self.sync_adjusted()?;
        self.close()?;
        Ok(())
    }

    fn deleter(&self) -> Deleter<'_> {
        Deleter {
            target: &self.target,
            agenda: &self.agenda,
            directories: &self.directories,
            unknown: &self.unknown,
        }
    }

    fn report_damage(&self, ending: &mut Ending<'_>) {
        if let Some(damage) = &self.damage {
            let end = damage.floor_char_boundary(MESSAGE_BYTES_MAX);
            ending.notify(Notice {
                kind: NoticeKind::NOTE,
                text: damage.as_bytes()[..end].to_vec(),
                ..Notice::default()
            });
        }
    }

    /// Assigns deferred names, now that the directories are removed; if a directory remains, its entry fails.
    fn name_deferred(&self, deletion: Deletion) -> Result<(), ListError> {
        let storage = &self.target.config.storage;
        let name = |waiting: &Waiting, path: &RelPath, record: Option<&_>| {
            let temp = self.target.temp(path);
            let fault = |error: StoreError| entry::fault(waiting.id, Side::DESTINATION, &error);
            let named = if deletion == Deletion::Refused {
                Err(destination_fault(
                    waiting.id,
                    FaultCode::TYPE_CONFLICT,
                    format!("{path}: a directory of this name exists, and nothing is deleted"),
                ))
            } else {
                match record {
                    Some(record) => self.maker.make(record, path, Replace::Never),
                    None => storage.commit(path, &temp, Replace::Never).map_err(fault),
                }
                .and_then(|()| self.sync_parent(path).map_err(fault))
            };
            match named {
                Ok(()) => {
                    self.undelivered.prove(|| self.key_of(waiting, path));
                    self.target.counters.files_done.add(1);
                }
                Err(fault) => self.give_up_deferred(waiting, path, &temp, fault),
            }
        };
        Ok(self.agenda.deferred.forward(&self.target, name)?)
    }

    fn key_of(&self, waiting: &Waiting, path: &RelPath) -> PathKey {
        let mapping = &self.target.config.mapping;
        let base = mapping.get(usize::from(waiting.root)).cloned();
        PathKey::new(waiting.root, below(&base.unwrap_or_default(), path))
    }

    fn sync_parent(&self, path: &RelPath) -> Result<(), StoreError> {
        if self.target.config.no_sync {
            return Ok(());
        }
        let parent = path.parent().unwrap_or_default();
        self.target.config.storage.sync_directories(&[parent])
    }

    fn give_up_deferred(&self, waiting: &Waiting, path: &RelPath, temp: &TempName, fault: Fault) {
        let target = &self.target;
        target.counters.bytes_durable.take_back(waiting.counted);
        // The next complete run sweeps a file that cannot be removed now.
        let _ = target.config.storage.discard(path, temp);
        let root = waiting.root;
        let base = target.config.mapping.get(usize::from(root)).cloned();
        let base = base.unwrap_or_default();
        let below = below(&base, path);
        let why = Undelivered::by(fault.code);
        self.undelivered.note(root, below, why);
        target.fail(fault, root, below);
    }

    /// Sets modes and times of directories, inner before outer ones; then all names are durable.
    fn set_directories(&self) -> Result<(), DirectoriesError> {
        let target = &self.target;
        let storage = &target.config.storage;
        let mut to_sync: Vec<RelPath> = target
            .config
            .mapping
            .iter()
            .map(|mapped| mapped.parent().unwrap_or_default())
            .collect();
        let mut unsynced = None;
        let mut sync = |paths: &mut Vec<RelPath>| {
            if !target.config.no_sync && unsynced.is_none() {
                unsynced = storage.sync_directories(paths).err();
            }
            paths.clear();
        };
        let read = self.agenda.directories_backward(|item| {
            let Some(record) = decode_directory(item) else {
                return;
            };
            let Ok(path) = target.mapped(record.root, &record.path) else {
                return;
            };
            // After a run with few changes most directories are already right, but new ones are not.
            let mut right = false;
            let mut lacked = 0;
            let set = target.config.keeper.final_meta(&record).and_then(|meta| {
                let there = match self.directories.made(path.as_bytes()) {
                    true => None,
                    false => storage.stat(&path).ok().flatten(),
                };
                right = there.is_some_and(|there| storage.agrees(&path, &there, &meta));
                lacked = there.map_or(0, |there| meta.mode & !there.mode);
                if right {
                    return Ok(Lost::NOTHING);
                }
                storage
                    .set_directory_meta(&path, &meta)
                    .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))
            });
            if right {
                return;
            }
            match set {
                // The loss was reported when the directory was made, and is not repeated by each run that changes the directory.
                Ok(lost) if lacked & SET_ID_BITS != 0 => {
                    target.counters.count_lost(lost.without(Lost::SET_ID));
                }
                Ok(lost) => target.counters.count_lost(lost),
                Err(fault) => target.fail(fault, record.root, &record.path),
            }
            to_sync.push(path);
            if to_sync.len() >= SYNC_AT_ONCE {
                sync(&mut to_sync);
            }
        });
        sync(&mut to_sync);
        if let Some(error) = unsynced {
            return Err(DirectoriesError::Sync(error));
        }
        read.map_err(|error| ListError(error).into())
    }

    /// Syncs attributes of files that were set outside of batches.
    fn sync_adjusted(&self) -> Result<(), FinishError> {
        if self.target.config.no_sync || !self.agenda.has_adjusted() {
            return Ok(());
        }
        let synced = self.target.config.storage.sync_attributes();
        synced.map_err(FinishError::Attributes)
    }

    /// Refuses to continue once the claim has ended, because another transfer may own the tree.
    fn hold_fence(&self) -> Result<(), CommitError> {
        match self.target.is_fenced() {
            true => Err(CommitError::Fenced),
            false => Ok(()),
        }
    }

    /// Removes temporary files of members before the times of directories are set. Files that are still unfinished stay for the next
    /// closer.
    fn sweep_claim(&self) -> Result<(), CloseError> {
        self.keep_unfinished();
        let clean = self.target.counters.entries_failed.get() == 0;
        let leftovers = &self.held.leftovers;
        let swept = self.committer.sweep(&|path| !clean && leftovers.has(path));
        swept.map_err(|error| unswept(&self.target, error))
    }

    fn keep_unfinished(&self) {
        for file in lock(&self.files).values() {
            self.held.leftovers.keep(file.temp);
        }
    }

    /// The last step of a finish.
    fn close(&self) -> Result<(), CloseError> {
        self.keep_unfinished();
        let rest = self.held.take_rest();
        let counters = &self.target.counters;
        let made = self.directories.made_any()
            || [
                &counters.files_done,
                &counters.files_skipped,
                &counters.entries_adjusted,
                &counters.entries_deleted,
            ]
            .into_iter()
            .any(|counter| counter.get() > 0);
        // The closer of a claim has already swept; no other member sweeps.
        let resumed = self.held.resumed && self.target.config.member.is_none();
        self.committer
            .close(resumed, made, &self.held.leftovers, &rest)?;
        if self.target.finishes_tree() {
            sweep_unclaimed(&self.target, SystemTime::now());
        }
        Ok(())
    }
}

/// Refuses more steps once the transfer has ended, because it may no longer write to the destination.
fn go_on(ending: &Ending<'_>) -> Result<(), CommitError> {
    match (ending.goes_on)() {
        true => Ok(()),
        false => Err(CommitError::Ended),
    }
}
