//! Removes, as the last step, entries that only the destination has: the contents of a directory before the directory, and no more than
//! allowed. Does not compute which entries were announced (`announced`).
//!
//! A transfer deletes when it finishes, and only if no entry failed. Each closer of a divided job deletes in its own region, while other
//! regions may still fail. Paths are read in reverse order, so that the contents of a directory are removed first. Deletions are reported
//! in numbered notices, which are all repeated if FINISH arrives again.

mod emptied;
mod places;
mod region;
mod report;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use godwit_engine::{Ending, limits, lock};
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Notice, NoticeKind, Seq};
use godwit_store::spill::SpillStack;
use godwit_store::{Kind, RelPath, StoreError, StoreErrorKind, SurveyItem, TempName};

use crate::files::error::ExtrasError;
use crate::files::plan::agenda::Agenda;
use crate::files::plan::announced::{Extras, Key, There};
use crate::files::plan::directories::Directories;
use crate::files::target::{Target, below, destination_fault};

/// Most bytes of surveyed paths in memory; the rest is on disk.
const PATHS_BYTES: usize = 4 << 20;

/// Most mounted file systems that are reported. Systems have some thousands at most.
const MOUNTS_MAX: usize = 4096;

/// Number of entries between two checks whether a keep-alive notice is due.
const LOOK_EVERY: u64 = 4096;

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// No removal was requested, or all requested removals are done.
    Done,
    /// An entry could not be removed; the reason was reported, or the transfer has ended.
    Refused,
    /// The source is empty, and this number of entries would be deleted; only a limit of deletions allows that.
    WouldEmpty(u64),
}

/// Results of a survey, in the order in which they were found.
struct Survey {
    /// Each item has its kind in the first byte, followed by its path below the counterpart.
    paths: SpillStack,
    there: There,
    count: u64,
    looked: Instant,
    /// A directory that must be removed because another entry needs its name, and an entry in it that must stay.
    stuck: Option<(RelPath, RelPath)>,
    /// Mount points of file systems, with the entry numbers of their directories.
    mounts: Vec<(u64, RelPath)>,
}

/// Removes entries that only the destination has.
pub(crate) struct Deleter<'a> {
    pub(crate) target: &'a Target,
    pub(crate) agenda: &'a Agenda,
    pub(crate) directories: &'a Directories,
    /// Number of faults of entries that only the destination has; it numbers them.
    pub(crate) unknown: &'a AtomicU64,
}

impl Deleter<'_> {
    /// Removes entries that were not announced, if the user requested it and nothing forbids it.
    pub(crate) fn delete_extras(&self, ending: &mut Ending<'_>) -> Deletion {
        if !self.target.comparison().delete {
            return Deletion::Done;
        }
        let failed = ending.failed.max(self.target.counters.entries_failed.get());
        if failed > 0 || ending.scan_faults > 0 {
            ending.notify(Notice::note(
                "nothing more was deleted at the destination, because not all of the source could be read and delivered",
            ));
            if self.target.acks.no_space.is_set() {
                ending.notify(Notice::note(
                    "the destination is full: --delete-before deletes extra entries at the destination before data is sent",
                ));
            }
            return Deletion::Refused;
        }
        if self.agenda.spared.overflowed() {
            return self.refuse(
                FaultCode::LIMIT,
                "nothing more was deleted: too many directories have the names of files that --min-size, --max-size, --newer, --older or --ignore-existing pass over".to_owned(),
            );
        }
        match self.find_extras(ending) {
            Ok(Some((_, extras))) if self.would_empty(&extras, ending) => {
                Deletion::WouldEmpty(extras.count)
            }
            Ok(Some((survey, extras))) => self.remove_extras(survey, &extras, ending),
            Ok(None) => Deletion::Refused,
            Err(error) => self.refuse(
                FaultCode::IO,
                format!(
                    "nothing more was deleted: the entries of the destination cannot be compared{}",
                    self.open_or(&format!(": {error}"), "")
                ),
            ),
        }
    }

    /// Reports the entries that were replaced by directories while the transfer ran.
    pub(crate) fn report_replaced(&self, ending: &mut Ending<'_>) -> io::Result<()> {
        lock(&self.agenda.replaced).forward(|item| {
            if let Some((kind, path)) = item.split_first() {
                ending.notify(Notice {
                    kind: NoticeKind::DELETED,
                    entry: EntryKind(*kind),
                    root: 0,
                    text: path.to_vec(),
                });
            }
        })
    }

    /// `None` if nothing may be removed, for a reason that was reported, or if the transfer has ended.
    fn find_extras(
        &self,
        ending: &mut Ending<'_>,
    ) -> Result<Option<(Survey, Extras)>, ExtrasError> {
        let Some(base) = self.target.config.mapping.first() else {
            return Ok(None);
        };
        let spill = &self.target.config.spill;
        let mut survey = Survey {
            paths: SpillStack::new(spill, PATHS_BYTES),
            there: There::new(spill),
            count: 0,
            looked: Instant::now(),
            stuck: None,
            mounts: Vec::new(),
        };
        if lock(&self.agenda.way_at_root).is_some() && self.target.config.storage.is_mount(base) {
            survey.mounts.push((survey.count, base.clone()));
        }
        // The root is recorded first, so that it is removed last.
        if let Some(kind) = *lock(&self.agenda.way_at_root) {
            self.found(&mut survey, base, b"", kind)?;
        }
        let mut trouble = None;
        let mut each = |item: SurveyItem| {
            if survey.count.is_multiple_of(LOOK_EVERY) && survey.is_silent() {
                ending.is_alive();
            }
            if !(ending.goes_on)() {
                return false;
            }
            match item {
                SurveyItem::Entry {
                    path,
                    kind,
                    is_mount,
                } => {
                    let below = below(base, &path);
                    if is_mount {
                        survey.meet_mount(&path);
                    }
                    match self.keep_place(&mut survey, base, &path, is_mount) {
                        Ok(true) => return true,
                        Ok(false) => {}
                        Err(error) => {
                            trouble = Some(error);
                            return false;
                        }
                    }
                    if let Err(error) = self.found(&mut survey, &path, below, kind) {
                        trouble = Some(error);
                        return false;
                    }
                }
                SurveyItem::Fault(error) => {
                    // The contents are unknown, so neither this directory nor any directory above it may be removed.
                    if let Err(error) = self.keep(&mut survey, base, &error.path) {
                        trouble = Some(error);
                        return false;
                    }
                    self.fault_there(&error);
                }
            }
            true
        };
        let surveyed = self.survey(base, &mut each);
        if let Some(error) = trouble {
            return Err(error.into());
        }
        surveyed?;
        // If the transfer has ended, the survey is incomplete.
        if !(ending.goes_on)() {
            return Ok(None);
        }
        if self.is_in_the_way(&survey)? {
            return Ok(None);
        }
        let there = std::mem::replace(&mut survey.there, There::new(spill));
        let extras = self.agenda.announced.extras(there)?;
        self.report_mounts(&survey, &extras, ending);
        let doomed = extras.count + self.target.counters.entries_deleted.get();
        if let Some(max) = self.target.comparison().max_delete
            && doomed > max
        {
            self.refuse(
                FaultCode::LIMIT,
                format!(
                    "nothing was deleted at the end: with entries replaced by directories the total would be {} entries, and --max-delete allows {max}",
                    self.open_or(&doomed.to_string(), "more")
                ),
            );
            return Ok(None);
        }
        Ok(Some((survey, extras)))
    }

    /// Whether something must stay where the source has another entry. Then nothing is deleted, and the reason is reported.
    fn is_in_the_way(&self, survey: &Survey) -> io::Result<bool> {
        if let Some((directory, kept)) = &survey.stuck {
            self.refuse(
                FaultCode::TYPE_CONFLICT,
                format!(
                    "nothing more was deleted: {directory} would be replaced by another entry of its name, but this transfer may not delete {} in it (left out by --exclude or a similar option, or not readable)",
                    self.open_or(&kept.to_string(), "something in it")
                ),
            );
            return Ok(true);
        }
        if let Some((directory, mount)) = self.mount_in_the_way(survey)? {
            self.refuse(
                FaultCode::TYPE_CONFLICT,
                format!(
                    "nothing more was deleted: {directory} would be replaced by another entry of its name, but a file system is mounted {}; unmount it, or name another destination",
                    self.open_or(&format!("at {mount}"), "in it")
                ),
            );
            return Ok(true);
        }
        Ok(false)
    }

    /// A directory that must be removed at the end, and the mount point at or below it.
    fn mount_in_the_way(&self, survey: &Survey) -> io::Result<Option<(RelPath, RelPath)>> {
        let base = self.target.base();
        for (_, mount) in &survey.mounts {
            let mut at = Some(mount.clone());
            while let Some(around) = at.filter(|around| around.starts_with(&base)) {
                if self.agenda.deferred.waits_for(&around)? {
                    return Ok(Some((around, mount.clone())));
                }
                at = around.parent();
            }
        }
        Ok(None)
    }

    fn found(
        &self,
        survey: &mut Survey,
        path: &RelPath,
        below: &[u8],
        kind: Kind,
    ) -> io::Result<()> {
        if let Some(own) = &self.target.config.protected
            && path.starts_with(own)
        {
            if path == own {
                let base = self.target.base();
                self.keep(survey, &base, path)?;
            }
            return Ok(());
        }
        if self.agenda.spared.has(below) {
            return Ok(());
        }
        // An excluded entry does not count as missing at the source.
        let select = &self.target.config.select;
        if select.excludes(below, kind == Kind::Directory) {
            let parent = below.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            if !select.excludes(&below[..parent], true) {
                let base = self.target.base();
                self.keep(survey, &base, path)?;
            }
            return Ok(());
        }
        let is_temporary = path.file_name().is_some_and(TempName::is_temp);
        let key = if is_temporary && kind != Kind::Directory {
            // The temporary file of an unfinished transfer is removed with its directory, or stays with it.
            let parent = below.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            Key::new(0, &below[..parent], true)
        } else {
            Key::new(0, below, kind == Kind::Directory)
        };
        survey.there.push(key)?;
        let mut item = Vec::with_capacity(1 + below.len());
        item.push(kind_number(kind));
        item.extend_from_slice(below);
        survey.paths.push(&item)?;
        survey.count += 1;
        Ok(())
    }

    /// Records that the entry at `path` and the directories above it must stay.
    fn keep(&self, survey: &mut Survey, base: &RelPath, path: &RelPath) -> io::Result<()> {
        let mut keys = Vec::new();
        let mut at = Some(path.clone());
        while let Some(around) = at.filter(|around| around.starts_with(base)) {
            let below = below(base, &around);
            keys.extend([true, false].map(|is_directory| Key::new(0, below, is_directory)));
            at = around.parent();
            if survey.stuck.is_none() && self.agenda.deferred.waits_for(&around)? {
                survey.stuck = Some((around, path.clone()));
            }
        }
        self.agenda.announced.add(&keys);
        Ok(())
    }

    fn remove_extras(
        &self,
        mut survey: Survey,
        extras: &Extras,
        ending: &mut Ending<'_>,
    ) -> Deletion {
        let mut outcome = Deletion::Done;
        let mut number = survey.count;
        while number > 0 {
            let item = match survey.paths.pop() {
                Ok(Some(item)) => item,
                Ok(None) => return self.lost(&io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return self.lost(&error),
            };
            number -= 1;
            if number.is_multiple_of(LOOK_EVERY) && survey.is_silent() {
                ending.is_alive();
            }
            if !extras.has(number) {
                continue;
            }
            if !(ending.goes_on)() {
                return Deletion::Refused;
            }
            let Some((kind, below)) = item.split_first() else {
                return self.lost(&io::ErrorKind::InvalidData.into());
            };
            match self.remove_extra(*kind, below) {
                Ok(()) => self.report_deleted(EntryKind(*kind), below, ending),
                // The reason was already reported with the directory's contents.
                Err(error) if is_full(&error) && outcome == Deletion::Refused => {}
                Err(error) => {
                    outcome = Deletion::Refused;
                    self.fault_there(&error);
                }
            }
        }
        outcome
    }

    fn remove_extra(&self, kind: u8, below: &[u8]) -> Result<(), StoreError> {
        let storage = &self.target.config.storage;
        let base = self.target.base();
        let path = match below {
            // The survey contains the base only if another kind of entry will get its name.
            b"" => base.clone(),
            below => base.join(below).unwrap_or_default(),
        };
        let is_directory = EntryKind(kind) == EntryKind::DIRECTORY;
        if path.is_root() || path == base && !below.is_empty() || !path.starts_with(&base) {
            // Impossible: the survey returned a path below the base.
            return Ok(());
        }
        if self.directories.spelling.may_be_announced(&path) {
            return Err(StoreError {
                operation: "delete (this file system treats several spellings as one name, so the entry may be a wanted one)",
                path,
                kind: StoreErrorKind::Unsupported,
                errno: None,
            });
        }
        if self.target.comparison().dry_run {
            return Ok(());
        }
        if self.target.is_fenced() {
            return Err(StoreError {
                operation: "delete (the claim of this job has ended at this node)",
                path,
                kind: StoreErrorKind::Unsupported,
                errno: None,
            });
        }
        match storage.remove_entry(&path, is_directory) {
            Err(error) if error.kind == StoreErrorKind::Permission => {
                let parent = path.parent().unwrap_or_default();
                if !self.target.sets_mode_of(&parent) {
                    return Err(error);
                }
                storage.open_directory(&parent)?;
                storage.remove_entry(&path, is_directory)
            }
            result => result,
        }
    }

    /// A number for an entry that the sender does not know. It counts down, while the sender counts up.
    fn nobody(&self) -> EntryId {
        EntryId(u64::MAX - self.unknown.fetch_add(1, Ordering::Relaxed))
    }

    fn refuse(&self, code: FaultCode, message: String) -> Deletion {
        let fault: Fault = destination_fault(self.nobody(), code, message);
        let base = self.target.base();
        self.target
            .acks
            .fault(Seq(0), fault, 0, b"", &self.target.shown(&base));
        Deletion::Refused
    }

    fn lost(&self, error: &io::Error) -> Deletion {
        self.refuse(
            FaultCode::IO,
            format!("not all extra entries could be deleted: the list of entries cannot be read back: {error}"),
        )
    }
}

impl Survey {
    /// Records that the next entry is a mount point.
    fn meet_mount(&mut self, path: &RelPath) {
        if self.mounts.len() < MOUNTS_MAX {
            self.mounts.push((self.count, path.clone()));
        }
    }

    fn is_silent(&mut self) -> bool {
        let silent = self.looked.elapsed() >= limits::PING_EVERY;
        if silent {
            self.looked = Instant::now();
        }
        silent
    }
}

fn is_full(error: &StoreError) -> bool {
    error.kind == StoreErrorKind::Exists
}

/// The number of a kind, as in a record.
pub(crate) fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::File => EntryKind::FILE.0,
        Kind::Directory => EntryKind::DIRECTORY.0,
        Kind::Symlink => EntryKind::SYMLINK.0,
        Kind::Fifo => EntryKind::FIFO.0,
        Kind::Socket => EntryKind::SOCKET.0,
        Kind::CharDevice => EntryKind::CHAR_DEVICE.0,
        Kind::BlockDevice => EntryKind::BLOCK_DEVICE.0,
    }
}

#[cfg(test)]
mod tests;
