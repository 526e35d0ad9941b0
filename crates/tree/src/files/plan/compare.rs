//! Compares existing entries with announced ones. Results: the same, the same except for metadata, or to be replaced. Makes no entries,
//! but sets the metadata of entries that are otherwise the same.
//!
//! Entries are compared by size and time, by size alone, or by digest (`engine`, `sender::readers::digests`). The digest is also used if
//! the file system cannot keep the time. If an entry differs only in metadata, its metadata is set without sending contents. A dry run
//! plans and counts, opens no journal and requests no content.

use std::sync::Arc;

use godwit_engine::entry;
use godwit_proto::{Judge, Record, RecordFlags, Verdict};
use godwit_store::journal::{DoneSet, PathKey};
use godwit_store::times::{self, Kept};
use godwit_store::{FinalMeta, Kind, Meta, RelPath, StoreError, Timestamp};

use crate::files::finish::undelivered::{Undelivered, UndeliveredSet};
use crate::files::plan::afresh;
use crate::files::plan::agenda::Agenda;
use crate::files::plan::sharers::Sharers;
use crate::files::target::Target;
use crate::files::write::verify;

/// The decision about an announced entry, given the existing one.
pub(crate) enum Judgement {
    /// No more work is needed.
    Settled(Verdict),
    /// The receiver wants the contents of the file.
    Wanted,
    /// The existing file differs, and is not replaced.
    Stays,
}

/// Whether the existing entry has this time, as far as visible: some file systems and programs keep fewer digits.
pub(crate) fn has_time(there: &Meta, mtime: Timestamp) -> bool {
    matches!(times::kept(there.mtime, mtime), Kept::Exactly | Kept::Cut)
}

/// Whether two names belong to one file.
pub(crate) fn is_same_file(one: &Meta, other: &Meta) -> bool {
    (one.device, one.inode) == (other.device, other.inode)
}

pub(crate) fn mtime_of(record: &Record) -> Timestamp {
    Timestamp {
        seconds: record.mtime_seconds,
        nanoseconds: record.mtime_nanoseconds,
    }
}

/// Compares existing entries with announced ones.
pub(crate) struct Comparer {
    target: Arc<Target>,
    agenda: Arc<Agenda>,
    /// In a forced run, the files that earlier forced runs have sent.
    done: DoneSet,
    undelivered: Arc<UndeliveredSet>,
    pub(crate) sharers: Sharers,
}

impl Comparer {
    pub(crate) fn new(
        target: &Arc<Target>,
        agenda: &Arc<Agenda>,
        done: DoneSet,
        undelivered: &Arc<UndeliveredSet>,
    ) -> Self {
        Self {
            target: Arc::clone(target),
            agenda: Arc::clone(agenda),
            done,
            undelivered: Arc::clone(undelivered),
            sharers: Sharers::new(&target.config.spill),
        }
    }

    /// Decides about an announced regular file, given an existing regular file.
    pub(crate) fn judge_file(
        &self,
        record: &Record,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Result<Judgement, StoreError> {
        let comparison = self.target.comparison();
        if comparison.update && there.mtime > meta.mtime {
            self.undelivered.note_record(record, Undelivered::Left);
            return Ok(Judgement::Settled(Verdict::Skip));
        }
        let mut judge = comparison.judge();
        // In these modes the time proves nothing. Only a sender that was asked for a comparison sends a digest.
        if ![Judge::SIZE, Judge::CHECKSUM].contains(&judge)
            && self.target.config.comparison.is_some()
            && times::kept(there.mtime, meta.mtime) == Kept::Clamped
        {
            judge = Judge::CHECKSUM;
        }
        // A time is easily found too: by trying, or from a list. A sender without read permission here must prove by the contents that
        // it has a file that will get more names.
        if judge != Judge::SIZE && self.wants_proof(record) {
            judge = Judge::CHECKSUM;
        }
        let same = there.bytes == record.bytes
            && match judge {
                Judge::SIZE => true,
                // All empty files have the same contents, and this one may get other contents later. Therefore its digest proves
                // nothing.
                Judge::CHECKSUM if record.bytes == 0 => !self.wants_proof(record),
                Judge::CHECKSUM => match record.digest {
                    None => return Ok(Judgement::Settled(Verdict::Digest)),
                    Some(wanted) => {
                        let found = verify::digest_of_file(
                            &*self.target.config.storage,
                            path,
                            record.bytes,
                            self.target.config.digest,
                            &|| self.target.acks.over.is_set(),
                        );
                        // An unreadable file is replaced.
                        matches!(found, Ok(Some(found)) if entry::digest_to_wire(&found) == wanted)
                    }
                },
                _ => has_time(there, meta.mtime),
            };
        let key = || PathKey::new(record.root, &record.path);
        if same && (!self.target.config.force || self.done.contains(&key(), record.generation.0)) {
            // One file cannot have the metadata of two.
            if self.sharers.is_anothers(record, there) {
                return Ok(match comparison.no_replace {
                    true => Judgement::Settled(Verdict::Skip),
                    false => Judgement::Wanted,
                });
            }
            let since = self.target.config.since;
            self.target.delivered.found(since, there);
            // The size alone is easily guessed, so a sender without read permission here cannot set a file's time by it.
            if judge == Judge::SIZE && self.target.config.hides_contents {
                let mtime = there.mtime;
                let meta = FinalMeta {
                    mtime,
                    ..meta.clone()
                };
                return self.adjust_file(path, there, &meta);
            }
            if judge == Judge::CHECKSUM && record.bytes > 0 {
                self.undelivered.prove(key);
            }
            return self.adjust_file(path, there, meta);
        }
        Ok(self.unlike())
    }

    /// The judgement on a file whose contents would have to come again.
    fn unlike(&self) -> Judgement {
        match self.target.comparison().no_replace {
            true => Judgement::Stays,
            false => Judgement::Wanted,
        }
    }

    /// Records a file that is skipped because it exists, or because it does not. Unless the existing file is the same, no link to it is
    /// made.
    pub(crate) fn leave(&self, record: &Record, there: Option<&Meta>) {
        let is_same = |there: &Meta| {
            there.kind == Kind::File
                && there.bytes == record.bytes
                && match self.target.comparison().judge() {
                    Judge::SIZE => true,
                    Judge::CHECKSUM => record.bytes == 0,
                    _ => has_time(there, mtime_of(record)),
                }
        };
        if there.is_none_or(|there| !is_same(there)) {
            self.undelivered.note_record(record, Undelivered::Left);
        }
    }

    /// Whether the sender may not read here, and more names of the file may be made at the end.
    fn wants_proof(&self, record: &Record) -> bool {
        let config = &self.target.config;
        config.hides_contents
            && record.flags & RecordFlags::HAS_NAMES != 0
            && config.comparison.is_some()
            && !config.force
            && self.target.finishes_tree()
            && !self.target.comparison().dry_run
    }

    /// Whether an additional name of a file already exists as a link to it, and the file seems to stay unchanged.
    pub(crate) fn is_linked(&self, record: &Record, there: &Meta, first: &RelPath) -> bool {
        there.kind == Kind::File
            && has_time(there, mtime_of(record))
            && matches!(self.target.look(first), Ok(Some(first)) if is_same_file(&first, there))
    }

    /// Like [`Self::adjust`], for a file. If a call of a lost node may be late, a copy gets the attributes, or the file is sent again.
    fn adjust_file(
        &self,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Result<Judgement, StoreError> {
        if !self.is_to_be_made_again(path, there, meta) {
            return self.adjust(path, there, meta).map(Judgement::Settled);
        }
        let Some(lost) = afresh::adjust(&self.target, path, there, meta)? else {
            return Ok(self.unlike());
        };
        self.target.counters.count_lost(lost);
        Ok(Judgement::Settled(self.adjusted()))
    }

    /// Whether the existing entry lacks attributes, and must be made again to get them.
    pub(crate) fn is_to_be_made_again(
        &self,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> bool {
        let storage = &self.target.config.storage;
        self.target.finishes_tree()
            && afresh::is_due(&self.target, there)
            && !storage.agrees(path, there, meta)
    }

    /// Records that an entry's attributes were changed.
    pub(crate) fn adjusted(&self) -> Verdict {
        if !self.target.comparison().dry_run {
            self.agenda.note_adjusted();
        }
        self.target.counters.entries_adjusted.add(1);
        self.target
            .config
            .unless_plain(Verdict::Adjusted, Verdict::Skip)
    }

    /// Sets the metadata of an entry that is otherwise the same, if it differs.
    pub(crate) fn adjust(
        &self,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Result<Verdict, StoreError> {
        let storage = &self.target.config.storage;
        // A member leaves entries of others to the closer: its late call could reach the file, because no temporary name protects it.
        if storage.agrees(path, there, meta) || !self.target.finishes_tree() {
            return Ok(Verdict::Skip);
        }
        if !self.target.comparison().dry_run {
            self.target
                .counters
                .count_lost(storage.set_meta(path, meta)?);
        }
        Ok(self.adjusted())
    }

    /// Decides about an existing directory.
    pub(crate) fn judge_directory(
        &self,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Verdict {
        if self.target.config.comparison.is_none() {
            return Verdict::Done;
        }
        if self.target.config.storage.agrees(path, there, meta) {
            return Verdict::Skip;
        }
        self.target.counters.entries_adjusted.add(1);
        Verdict::Adjusted
    }
}
