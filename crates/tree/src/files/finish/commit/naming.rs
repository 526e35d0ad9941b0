//! Checks a complete file and renames it to its final name; an error here fails only its entry. Does not sync or write the journal; the
//! batch does, before and after.
//!
//! In two cases the thread that wrote a small file names it at once, while its directory is open (`Storage::write_named`). Either nothing
//! can be made durable (tmpfs, ramfs), or nothing must be (`--no-sync`). Then only the record and the acknowledgement wait for the batch.
//! Files that are read back first, or that wait for a directory to be removed, are named by the batch. If another file system below the
//! same root fails to sync, files with final names are sent again and replace themselves.

use std::collections::HashSet;
use std::sync::Arc;

use godwit_engine::{entry, lock};
use godwit_proto::{EntryId, FaultCode, HeldRange, Seq, Side};
use godwit_store::{RelPath, Replace, SYNC_EACH_MAX, TempName, digest};

use super::{Batch, SmallFile};
use crate::files::finish::undelivered::{Undelivered, UndeliveredSet};
use crate::files::member::rereads_assembled;
use crate::files::plan::agenda::Agenda;
use crate::files::plan::spelling::taken;
use crate::files::target::{Target, destination_fault};
use crate::files::write::open::OpenFile;
use crate::files::write::verify::wrong_range;

/// A file under its temporary name, and its identification at both ends.
struct Named<'a> {
    seq: Seq,
    id: EntryId,
    root: u16,
    path: &'a RelPath,
    temp: &'a TempName,
    /// Content counted as durable, in bytes.
    counted: u64,
    /// Other transfers also use the temporary file.
    shared: bool,
    /// The ranges of an assembled file that other transfers wrote.
    elsewhere: &'a [HeldRange],
}

impl OpenFile {
    fn named(&self, seq: Seq) -> Named<'_> {
        Named {
            seq,
            id: self.id,
            root: self.root,
            path: &self.path,
            temp: &self.temp,
            counted: lock(&self.progress).counted,
            shared: self.shared && self.copied.is_none(),
            elsewhere: &self.elsewhere,
        }
    }
}

/// The end of a check of a whole file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    Good,
    /// It has failed, or this end gives up: what the journal knows of it stays.
    Left,
    /// It has failed, and is to be started again.
    Restart,
}

/// Gives files their final names.
pub(super) struct Naming {
    pub(super) target: Arc<Target>,
    pub(super) agenda: Arc<Agenda>,
    pub(super) undelivered: Arc<UndeliveredSet>,
}

impl Naming {
    /// Whether the claim of this member has ended. Nothing more becomes final then, and small files that wait for their names go: nothing
    /// resumes them.
    pub(super) fn is_fenced(&self, batch: &Batch) -> bool {
        let fenced = self.target.is_fenced();
        if fenced {
            let files = batch.small.iter();
            for unnamed in files.filter_map(|(_, file)| file.unnamed.as_deref()) {
                // A file that cannot be removed now keeps its temporary name, by which later runs know it.
                let storage = &self.target.config.storage;
                let _ = storage.discard(&unnamed.path, &unnamed.temp);
            }
        }
        fenced
    }

    /// Counts the contents of a batch, which are durable and have no names yet. The bytes of a file that gets no name are subtracted again.
    pub(super) fn count(&self, batch: &Batch) {
        let durable = &self.target.counters.bytes_durable;
        for range in &batch.ranges {
            let mut progress = lock(&range.file.progress);
            if !progress.is_stale() {
                progress.counted += range.content;
                durable.add(range.content);
            }
        }
        for (_, file) in &batch.small {
            durable.add(file.bytes);
        }
    }

    /// Checks a whole file and gives it its size, mode and times, before the sync that makes them durable. If `stop` returns true while a
    /// large hole is hashed, the file is left as it is, and received data is kept.
    pub(super) fn finalise(&self, seq: Seq, file: &OpenFile, stop: &dyn Fn() -> bool) -> Checked {
        let progress = lock(&file.progress);
        // Copied, so that streams need not wait while a large hole is hashed.
        let written = progress.written.clone();
        let expected = progress.end.as_ref().map(|(digest, _)| *digest);
        let meta = progress.meta.clone();
        drop(progress);
        let (taken, what) = match file.part {
            None => (written.finish_unless(file.bytes(), stop), "whole file"),
            Some(part) => (
                written.part_unless(part.offset, part.bytes, file.bytes(), stop),
                "part of the file",
            ),
        };
        let Some(taken) = taken else {
            return Checked::Left;
        };
        if expected != Some(taken) {
            let message = format!("the digest of the {what} differs from the source's");
            self.reject(&file.named(seq), FaultCode::DIGEST, message);
            return Checked::Restart;
        }
        if file.part.is_some() {
            return Checked::Good;
        }
        match file.file.finish(file.bytes(), &meta) {
            Ok(lost) => self.target.counters.count_lost(lost),
            Err(error) => {
                let fault = entry::fault(file.id, Side::DESTINATION, &error);
                self.reject(&file.named(seq), fault.code, fault.message);
                return Checked::Restart;
            }
        }
        Checked::Good
    }

    pub(super) fn commit_small(&self, seq: Seq, file: &SmallFile, stop: &dyn Fn() -> bool) -> bool {
        let Some(unnamed) = &file.unnamed else {
            return true;
        };
        let named = Named {
            seq,
            id: file.id,
            root: unnamed.root,
            path: &unnamed.path,
            temp: &unnamed.temp,
            counted: file.bytes,
            shared: false,
            elsewhere: &[],
        };
        if self.target.config.verify && !self.reads_back(&named, file.bytes, unnamed.digest, stop) {
            return false;
        }
        self.commit(&named, unnamed.replace)
    }

    pub(super) fn commit_large(
        &self,
        seq: Seq,
        file: &OpenFile,
        stop: &dyn Fn() -> bool,
    ) -> Checked {
        if file.part.is_some() {
            return Checked::Good;
        }
        let named = file.named(seq);
        let digest = lock(&file.progress).end.as_ref().map(|(digest, _)| *digest);
        let rereads = file.copied.is_some() || file.shared && rereads_assembled(&self.target);
        let verify = self.target.config.verify || rereads;
        if verify && !self.reads_back(&named, file.bytes(), digest, stop) {
            // An incomplete read proves no error: a later run resumes the file.
            return match stop() {
                true => Checked::Left,
                false => Checked::Restart,
            };
        }
        let is_named = self.commit(&named, file.replace);
        if let Some(copied) = file.copied.as_ref().filter(|_| is_named) {
            // The close sweeps a file that cannot be removed now.
            let _ = self.target.config.storage.discard(&file.path, copied);
        }
        match is_named {
            true => Checked::Good,
            false => Checked::Left,
        }
    }

    fn commit(&self, file: &Named<'_>, replace: Replace) -> bool {
        // The claim may have ended since the previous file, because this node may have been suspended.
        if self.target.is_fenced() {
            return false;
        }
        match self
            .agenda
            .deferred
            .take(file.id, file.root, file.path, file.counted)
        {
            Ok(false) => {}
            // The name is deferred and the file is not reported done: if this run ends before the last step, the next run sends it again.
            Ok(true) => return false,
            Err(error) => {
                let message = format!("a step left for later cannot be recorded: {error}");
                self.reject(file, FaultCode::IO, message);
                return false;
            }
        }
        match self
            .target
            .config
            .storage
            .commit(file.path, file.temp, replace)
        {
            Ok(()) => true,
            Err(error) => {
                let mut fault = entry::fault(file.id, Side::DESTINATION, &error);
                if fault.code == FaultCode::COLLISION {
                    fault = taken(file.id, file.path);
                }
                self.reject(file, fault.code, fault.message);
                false
            }
        }
    }

    fn reads_back(
        &self,
        file: &Named<'_>,
        bytes: u64,
        expected: Option<digest::Digest>,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        let read = crate::files::write::verify::digest_of(
            &*self.target.config.storage,
            file.path,
            file.temp,
            bytes,
            self.target.config.digest,
            stop,
        );
        let (code, message) = match read {
            Ok(None) => return false,
            Ok(digest) if digest == expected => return true,
            Ok(_) => (FaultCode::DIGEST, differs(&self.target, file, bytes)),
            Err(error) => {
                let fault = entry::fault(file.id, Side::DESTINATION, &error);
                (fault.code, fault.message)
            }
        };
        self.reject(file, code, message);
        false
    }

    fn reject(&self, file: &Named<'_>, code: FaultCode, message: String) {
        self.target.counters.bytes_durable.take_back(file.counted);
        if !file.shared {
            // The next complete run sweeps a file that cannot be removed now.
            let _ = self.target.config.storage.discard(file.path, file.temp);
        }
        let below = below_root(&self.target.config.mapping, file.root, file.path);
        let why = Undelivered::by(code);
        self.undelivered.note(file.root, below, why);
        let fault = destination_fault(file.id, code, message);
        self.target.acks.fault(
            file.seq,
            self.target.with_room(fault),
            file.root,
            below,
            &self.target.shown(file.path),
        );
    }
}

/// The message for a file that differs when read back.
fn differs(target: &Target, file: &Named<'_>, bytes: u64) -> String {
    let config = &target.config;
    let (storage, temp) = (&*config.storage, (file.path, file.temp));
    match wrong_range(storage, temp, bytes, config.digest, file.elsewhere) {
        Some(range) => format!(
            "{}: the digest of the part from {} to {} differs from the announced digest; send the part, then assemble the file again",
            file.path,
            range.offset,
            range.offset.saturating_add(range.bytes)
        ),
        None => format!(
            "{}: data read back from the destination storage differs from the written data",
            file.path
        ),
    }
}

/// The path of a destination file below its root, in the sender's terms.
fn below_root<'a>(mapping: &[RelPath], root: u16, path: &'a RelPath) -> &'a [u8] {
    let prefix = mapping
        .get(usize::from(root))
        .map_or(&[][..], RelPath::as_bytes);
    let rest = path.as_bytes().strip_prefix(prefix).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// The directories above some names; they are durable once all those names are.
#[derive(Default)]
pub(super) struct Ancestors {
    directories: HashSet<RelPath>,
    /// The directory of the previous name, which usually is the directory of the next one too.
    last: Option<Vec<u8>>,
}

impl Ancestors {
    pub(super) fn add_of(&mut self, path: &RelPath) {
        let Some((parent, _)) = path.split() else {
            return;
        };
        if self.last.as_deref() == Some(parent) {
            return;
        }
        self.last = Some(parent.to_vec());
        for (level, parent) in path.above().enumerate() {
            // With this number of directories, the storage syncs the directories above them, too.
            let is_enough = level > 0 && self.directories.len() > SYNC_EACH_MAX;
            if is_enough || !self.directories.insert(parent) {
                break;
            }
        }
    }

    pub(super) fn into_paths(self) -> Vec<RelPath> {
        self.directories.into_iter().collect()
    }
}
