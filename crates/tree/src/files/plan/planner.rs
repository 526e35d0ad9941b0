//! Compares announced entries with the destination, makes directories and entries without contents, and records work for the end. Does
//! not write file contents (`writer`) or do the work of the end (`finisher`).

mod at_once;
mod portions;

use std::ops::Range;
use std::sync::Arc;

use godwit_engine::{entry, limits, lock};
use godwit_proto::{
    EntryId, EntryKind, Fault, FaultCode, HeldRange, Record, RecordFlags, Side, UNKNOWN_BYTES,
    Verdict,
};
use godwit_store::digest::FileDigest;
use godwit_store::journal::{DoneSet, PathKey};
use godwit_store::{Kind, Look, RelPath, Replace, StoreError, StoreErrorKind, TempName};

use crate::files::finish::spill_list::encode_link;
use crate::files::finish::undelivered::{Undelivered, UndeliveredSet};
use crate::files::member::{accept_late, note_resumed};
use crate::files::plan::agenda::Agenda;
use crate::files::plan::awaited::Awaited;
use crate::files::plan::compare::{Comparer, Judgement, has_time, mtime_of};
use crate::files::plan::directories::{Directories, OWNER_BITS};
use crate::files::plan::spelling::LastDirectory;
use crate::files::target::{Target, destination_fault, spares_newer, stays, type_conflict};
use crate::files::unusable::Unusable;
use crate::files::write::held::Held;
use crate::files::write::maker::Maker;

/// Gives a verdict on each announced entry.
pub(crate) struct Planner {
    target: Arc<Target>,
    agenda: Arc<Agenda>,
    pub(crate) directories: Arc<Directories>,
    held: Arc<Held>,
    undelivered: Arc<UndeliveredSet>,
    /// Requested entries whose name is already taken, shared with the code that names files.
    replace: Arc<Awaited>,
    comparer: Comparer,
    maker: Maker,
    /// The reason why nothing can be written to the destination, if known.
    pub(crate) unusable: Unusable,
}

/// The parts that a planner shares with the rest of a sink.
pub(crate) struct PlannerParts<'a> {
    pub(crate) target: &'a Arc<Target>,
    pub(crate) agenda: &'a Arc<Agenda>,
    pub(crate) directories: &'a Arc<Directories>,
    pub(crate) held: &'a Arc<Held>,
    pub(crate) undelivered: &'a Arc<UndeliveredSet>,
    pub(crate) replace: &'a Arc<Awaited>,
}

impl Planner {
    /// `done` contains the entries that earlier forced runs have sent, if this run is forced too.
    pub(crate) fn new(parts: &PlannerParts<'_>, done: DoneSet) -> Self {
        Self {
            target: Arc::clone(parts.target),
            agenda: Arc::clone(parts.agenda),
            directories: Arc::clone(parts.directories),
            held: Arc::clone(parts.held),
            undelivered: Arc::clone(parts.undelivered),
            replace: Arc::clone(parts.replace),
            comparer: Comparer::new(parts.target, parts.agenda, done, parts.undelivered),
            maker: Maker::new(parts.target, parts.directories),
            unusable: Unusable::default(),
        }
    }

    /// One verdict for each record, in their order.
    pub(crate) fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        if self.target.comparison().delete {
            self.agenda.announced.note(records);
        }
        let mut look = self.target.config.storage.look();
        let mut path = RelPath::root();
        let mut last = LastDirectory::default();
        records
            .iter()
            .map(|record| self.plan_one(record, &mut *look, &mut path, &mut last))
            .collect()
    }

    /// `look` looks at the existing entry, `path` is memory for its path, and `last` caches facts about its directory.
    fn plan_one(
        &self,
        record: &Record,
        look: &mut dyn Look,
        path: &mut RelPath,
        last: &mut LastDirectory,
    ) -> Verdict {
        if record.flags & RecordFlags::PASSED_OVER != 0 {
            self.pass_over(record);
            return Verdict::Done;
        }
        let planned = self
            .target
            .map_in(record.root, &record.path, path)
            .and_then(|()| self.target.hold_fence(record.id))
            .and_then(|()| match record.kind {
                EntryKind::DIRECTORY => self.plan_directory(record, path, last),
                EntryKind::SYMLINK => self.plan_at_once(record, path, last),
                EntryKind::HARD_LINK => self.plan_link(record, path, last),
                EntryKind::FILE => self.plan_file(record, path, look, last),
                kind if kind.is_special() => self.plan_special(record, path, last),
                other => Err(destination_fault(
                    record.id,
                    FaultCode::UNSUPPORTED,
                    format!("this version does not know entries of kind {}", other.0),
                )),
            });
        planned.unwrap_or_else(|mut fault| {
            fault.entry = record.id;
            let why = Undelivered::at(self.target.comparison(), fault.code);
            self.undelivered.note_record(record, why);
            self.keep_held(record);
            Verdict::Failed(self.target.with_room(fault))
        })
    }

    /// Keeps data of an earlier run for the next one if this run does not request the file.
    fn keep_held(&self, record: &Record) {
        let key = PathKey::new(record.root, &record.path);
        let known = self.held.take(&key);
        if known.is_some_and(|partial| partial.digest.covered() > 0)
            && let Ok(path) = self.target.mapped(record.root, &record.path)
        {
            self.held.keep(self.target.temp(&path));
        }
    }

    fn plan_directory(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let finishes = self.target.finishes_directory(&record.path);
        if finishes {
            accept_late(&self.target, path)
                .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))?;
        }
        if path.is_root() {
            return Ok(self
                .target
                .config
                .unless_plain(Verdict::Skip, Verdict::Done));
        }
        let fault = |error: StoreError| {
            self.unusable.note(&self.target, record, path, &error);
            entry::fault(record.id, Side::DESTINATION, &error)
        };
        let dry = self.target.comparison().dry_run;
        let meta = self.target.config.keeper.final_meta(record)?;
        let there = if self.directories.is_fresh(path) {
            None
        } else {
            let look = self
                .directories
                .looking(path, &mut || self.target.config.storage.stat(path));
            let there = self.target.unless_in_the_way(look).map_err(fault)?;
            self.directories
                .hold_to_spelling(record.id, path, there.is_some(), last)?;
            there
        };
        if self
            .agenda
            .keeps(record, there.as_ref(), self.target.comparison())
        {
            return Ok(Verdict::Skip);
        }
        let may_make = match &there {
            None => true,
            Some(there) => there.kind != Kind::Directory && self.target.defers(record, path),
        };
        if may_make && self.leaves(record) {
            return Err(unfinished(record.id));
        }
        let verdict = match &there {
            Some(there) if there.kind == Kind::Directory => {
                if there.mode & OWNER_BITS != OWNER_BITS && !dry && self.target.finishes_tree() {
                    let opened = self.target.config.storage.open_directory(path);
                    opened.map_err(fault)?;
                }
                self.directories.spelling.remember_exact(path);
                match finishes {
                    true => self.comparer.judge_directory(path, there, &meta),
                    // The transfer that finishes the directory sets its attributes.
                    false => Verdict::Done,
                }
            }
            Some(_) if self.target.defers(record, path) => {
                let replaced = self.directories.replace_by_directory(path, &record.path);
                replaced.map_err(fault)?;
                self.directories.remember_fresh(path);
                Verdict::Done
            }
            _ => {
                // The directory's own mode is set at the end, because files must be made in it before.
                if dry || self.directories.make_directory(path).map_err(fault)? {
                    self.directories.remember_fresh(path);
                } else {
                    // The directory has appeared meanwhile, with contents or under another name.
                    self.directories
                        .hold_to_spelling(record.id, path, true, last)?;
                }
                Verdict::Done
            }
        };
        if !dry && finishes {
            self.agenda.add_directory(record, path).map_err(fault)?;
        }
        Ok(verdict)
    }

    fn plan_file(
        &self,
        record: &Record,
        path: &RelPath,
        look: &mut dyn Look,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        if let Some(planned) = self.plan_portion(record, path, last) {
            return planned;
        }
        if record.path.is_empty() {
            accept_late(&self.target, &path.parent().unwrap_or_default()).map_err(fault)?;
        }
        if record.bytes == UNKNOWN_BYTES {
            self.held.note_once();
        }
        if record.path.is_empty() && self.target.config.must_be_directory {
            return Err(fault(StoreError {
                operation: "make a file of an entry that was named as a directory",
                path: path.clone(),
                kind: StoreErrorKind::TypeConflict,
                errno: None,
            }));
        }
        let there = if self.directories.is_fresh(path) {
            None
        } else {
            let there = self
                .target
                .unless_in_the_way(self.directories.looking(path, &mut || look.stat(path)))
                .map_err(fault)?;
            if !last.is_plain(path) {
                self.directories
                    .hold_to_spelling(record.id, path, there.is_some(), last)?;
            }
            there
        };
        if self
            .agenda
            .keeps(record, there.as_ref(), self.target.comparison())
        {
            self.comparer.leave(record, there.as_ref());
            return Ok(Verdict::Skip);
        }
        let Some(there) = there else {
            return Ok(self.held(record, path).unwrap_or(Verdict::Send));
        };
        self.target.spare_special(record, &there)?;
        match there.kind {
            Kind::Directory if self.target.defers(record, path) => {
                self.agenda.expect_way(record, path).map_err(fault)?;
                if !self.target.comparison().dry_run {
                    self.agenda.deferred.files.expect(record.id)?;
                }
                return Ok(self.held(record, path).unwrap_or(Verdict::Send));
            }
            Kind::Directory => return Err(fault(type_conflict(path))),
            Kind::File => {
                let meta = self.target.config.keeper.final_meta(record)?;
                let judged = self.comparer.judge_file(record, path, &there, &meta);
                match judged.map_err(fault)? {
                    Judgement::Settled(verdict) => return Ok(verdict),
                    Judgement::Stays => return Err(stays(record.id, path)),
                    Judgement::Wanted => {}
                }
            }
            _ if self.target.comparison().no_replace => return Err(stays(record.id, path)),
            _ => {}
        }
        if !self.target.comparison().dry_run {
            self.replace.expect(record.id)?;
        }
        Ok(self.held(record, path).unwrap_or(Verdict::Send))
    }

    /// The ranges that the journal records, if the temporary file is unchanged.
    fn held(&self, record: &Record, path: &RelPath) -> Option<Verdict> {
        // Checked first: most transfers resume nothing, and the names of temporary files are hashes.
        if self.held.is_empty() {
            return None;
        }
        let key = PathKey::new(record.root, &record.path);
        self.held_in(record, path, key, &self.target.temp(path), 0..record.bytes)
    }

    /// Like [`held`](Self::held), for an entry that is `within` its file and is written to this temporary file.
    fn held_in(
        &self,
        record: &Record,
        path: &RelPath,
        key: PathKey,
        temp: &TempName,
        within: Range<u64>,
    ) -> Option<Verdict> {
        self.held.with(&key, |found| {
            let ranges = found.digest.ranges();
            let ends = || ranges.iter().map(|(offset, bytes, _)| offset + bytes);
            let reach = ends().max().unwrap_or(0);
            let first = ranges
                .first()
                .map_or(within.start, |(offset, _, _)| *offset);
            let there = self
                .target
                .config
                .storage
                .open_temp(path, temp)
                .and_then(|file| file.meta());
            let usable = found.generation == record.generation.0
                && there.is_ok_and(|meta| meta.bytes >= reach)
                && first >= within.start
                && reach <= within.end;
            // If there are more ranges than an answer can name, they are sent again; this requires thousands of gaps in one file.
            if !usable || ranges.len() > limits::HELD_RANGES_MAX {
                // The entry stays in the map, so that a restart of the file knows about its journal records.
                found.digest = FileDigest::new(found.digest.kind());
                return None;
            }
            note_resumed(found.digest.covered(), &self.target);
            let held = ranges
                .into_iter()
                .map(|(offset, bytes, digest)| HeldRange {
                    offset,
                    bytes,
                    digest: entry::digest_to_wire(&digest),
                })
                .collect();
            Some(Verdict::Partial { held })
        })
    }

    /// Records an additional name of a file, which is made once the file exists.
    fn plan_link(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let there = self.directories.there(record.id, path, last, || {
            self.target.config.storage.stat(path)
        })?;
        if self
            .agenda
            .keeps(record, there.as_ref(), self.target.comparison())
            || there
                .as_ref()
                .is_some_and(|there| spares_newer(self.target.comparison(), record, there))
        {
            return Ok(Verdict::Skip);
        }
        let first = self.target.mapped(record.root, &record.target)?;
        if self.leaves_first(record, &first).map_err(fault)? {
            return by_itself(record);
        }
        let verdict = match &there {
            Some(there)
                if !self.target.config.force && self.comparer.is_linked(record, there, &first) =>
            {
                Verdict::Skip
            }
            _ => Verdict::Done,
        };
        let keeps = self.target.comparison().no_replace;
        let replace = match &there {
            None => Replace::Never,
            Some(there) if there.kind == Kind::Directory && self.target.defers(record, path) => {
                self.agenda.expect_way(record, path).map_err(fault)?;
                // By then the directory has been removed.
                Replace::Never
            }
            Some(there) if there.kind == Kind::Directory => return Err(fault(type_conflict(path))),
            Some(there) if keeps && verdict == Verdict::Done => {
                // A separate file may be the same: the sender announces this name as a file.
                return match there.kind == Kind::File && record.digest.is_none() {
                    true => Ok(Verdict::Digest),
                    false => Err(stays(record.id, path)),
                };
            }
            Some(_) if keeps => Replace::Never,
            Some(_) => Replace::Atomically,
        };
        if self.target.comparison().dry_run {
            self.target
                .counters
                .files_done
                .add(u64::from(verdict == Verdict::Done));
            return Ok(verdict);
        }
        lock(&self.agenda.links)
            .push(&encode_link(record, replace))
            .map_err(|error| {
                destination_fault(
                    record.id,
                    FaultCode::IO,
                    format!("a step left for later cannot be recorded: {error}"),
                )
            })?;
        Ok(verdict)
    }

    /// Whether the file with the first name is skipped, so that there is no target for a link.
    fn leaves_first(&self, record: &Record, first: &RelPath) -> Result<bool, StoreError> {
        let wanted = self.target.comparison();
        if !(wanted.existing || wanted.ignore_existing || wanted.update || wanted.no_replace) {
            return Ok(false);
        }
        if let Ok(Some(Undelivered::Left)) = self.undelivered.find(record.root, &record.target) {
            return Ok(true);
        }
        // The manifest of the first name may come after this one, or may be so old that the file already exists.
        let look = self
            .directories
            .looking(first, &mut || self.target.config.storage.stat(first));
        Ok(match self.target.unless_in_the_way(look)? {
            None => wanted.existing,
            Some(there) if wanted.ignore_existing => {
                there.kind != Kind::File
                    || !has_time(&there, mtime_of(record))
                    || self.target.config.hides_contents
            }
            Some(there) if wanted.no_replace && !has_time(&there, mtime_of(record)) => true,
            Some(there) => spares_newer(wanted, record, &there),
        })
    }

    /// Whether another closer finishes this directory, and its parent belongs to this transfer.
    fn leaves(&self, record: &Record) -> bool {
        let region = self.target.region();
        region.is_some_and(|region| region.leaves(&record.path))
    }

    /// Records an entry that the limits skip at the source. An entry with this name here therefore stays, with all its contents if it is
    /// a directory.
    fn pass_over(&self, record: &Record) {
        if !self.target.comparison().delete {
            return;
        }
        if record.kind == EntryKind::DIRECTORY && self.leaves(record) {
            // Recorded whether or not the directory exists, because another node may make it at any time.
            self.agenda.spared.leave(&record.path);
            return;
        }
        let Ok(path) = self.target.mapped(record.root, &record.path) else {
            // No entry can have this name here.
            return;
        };
        let there = self.target.config.storage.stat(&path);
        // If the look failed, the entry is not deleted either.
        if there.map_or(true, |there| {
            there.is_some_and(|there| there.kind == Kind::Directory)
        }) {
            self.agenda.spared.add(&record.path);
        }
    }
}

/// The fault of a source directory that no closer has finished: without its contents it would look like a copy.
fn unfinished(entry: EntryId) -> Fault {
    let message = "the destination lacks this directory, which should be complete by now; it probably appeared or was renamed at the source while the job ended; run the job again".to_owned();
    Fault {
        entry,
        side: Side::SOURCE,
        code: FaultCode::CHANGED,
        errno: None,
        message,
    }
}

/// Asks the sender to announce an additional name as a separate file.
fn by_itself(record: &Record) -> Result<Verdict, Fault> {
    if record.digest.is_none() {
        return Ok(Verdict::Digest);
    }
    // The sender was already asked for this.
    let message = "the entry with its first name stays unchanged, and this version of the sender cannot send this name separately; a newer version can";
    let code = FaultCode::UNSUPPORTED;
    Err(destination_fault(record.id, code, message.to_owned()))
}

#[cfg(test)]
mod tests;
