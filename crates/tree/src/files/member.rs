//! Specialises a transfer that is a member of a claim: the names of its temporary files, its fence, its sweep. Does not store claims or
//! read clocks; the maker of the fence does.
//!
//! Temporary files of all members have one tag, which is derived from the claim. Therefore the closer finds all leftover files of members
//! in one walk. All members write parts of one shared file. Its name is derived from the claim, the path below the root and the generation.
//! It does not depend on the mount path of the storage at a node. Any other file is written under a name that only its transfer uses: with
//! a shared name, a rename could name another writer's incomplete file.
//!
//! A call that hangs in the kernel of a node has already passed the fence. If such a call is possible, a file is assembled in a copy of the
//! shared file. Therefore a late write never reaches the file with the final name. The closer removes the temporary files of the claim from
//! each directory before it examines the directory's entries. Then a late rename finds no file to rename. Only the closer changes entries
//! that others have made. The storage asks the fence before each such call, and once more in the middle of a removal.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use godwit_engine::Fence;
use godwit_proto::{EntryId, Fault, FaultCode, Judge, Part, Record};
use godwit_store::journal::{CLAIM_BYTES, PathKey};
use godwit_store::{Kind, Meta, RelPath, StoreError, StoreErrorKind, TempName, Timestamp};

use crate::files::region::{Region, place};
use crate::files::target::{Target, destination_fault};

/// Membership of a transfer in a claim.
#[derive(Clone)]
pub struct Membership {
    /// The claim.
    pub claim: [u8; CLAIM_BYTES],
    /// The node that writes.
    pub node: Vec<u8>,
    /// The epoch of the membership.
    pub epoch: u64,
    /// Whether this transfer is the closer, which finishes the tree.
    pub closer: bool,
    /// The region that a closer finishes.
    pub region: Region,
    /// Distinguishes transfers of one sender that run at the same time.
    pub lane: u32,
    /// Decides whether the transfer may still write.
    pub fence: Arc<dyn Fence>,
    /// When the job began at this destination, by the clock of its file system; `None` if no mark shows it.
    pub since: Option<Timestamp>,
    /// Minimum length of a part that is not the last of its file: `PART_BYTES_MIN` except in tests.
    pub part_bytes_min: u64,
}

impl Membership {
    /// When the job began here, for the member that counts all delivered files.
    pub(crate) fn counts_since(&self) -> Option<Timestamp> {
        self.since.filter(|_| self.closer)
    }
}

/// Distinguishes the names of shared files from the names of one transfer, which are derived from a longer key.
const SHARED: &[u8] = b"shared";

impl Target {
    /// The temporary file of `path` that only this transfer uses.
    pub(crate) fn temp(&self, path: &RelPath) -> TempName {
        let config = &self.config;
        match config.member {
            None => TempName::new(config.tag, path),
            Some(_) => TempName::of_member(config.tag, path.as_bytes(), &config.key),
        }
    }

    /// The temporary file to which all members of the claim write parts of this file.
    pub(crate) fn shared_temp(&self, record: &Record) -> TempName {
        let generation = record.generation.0.to_le_bytes();
        let purpose = [SHARED, &record.root.to_le_bytes(), &generation].concat();
        TempName::of_member(self.config.tag, &record.path, &purpose)
    }

    /// The membership of this transfer; an error if a sender of parts is no member.
    pub(crate) fn membership(&self, record: &Record) -> Result<&Membership, Fault> {
        self.config.member.as_ref().ok_or_else(|| {
            let message = "the sender sends a part of a file, and this transfer is no member of a claim; update the sender".to_owned();
            destination_fault(record.id, FaultCode::UNSUPPORTED, message)
        })
    }

    /// Whether the claim of this transfer has ended. Always false without a fence.
    pub(crate) fn is_fenced(&self) -> bool {
        let fence = self.config.fence.as_ref();
        fence.is_some_and(|fence| !fence.holds())
    }

    /// Refuses to write once the claim has ended, because another transfer may own the destination by now.
    pub(crate) fn hold_fence(&self, entry: EntryId) -> Result<(), Fault> {
        match self.is_fenced() {
            true => Err(destination_fault(entry, FaultCode::IO, FENCED.to_owned())),
            false => Ok(()),
        }
    }

    /// Whether the end of this transfer finishes the whole tree.
    pub(crate) fn finishes_tree(&self) -> bool {
        self.config
            .member
            .as_ref()
            .is_none_or(|member| member.closer)
    }

    /// Whether this transfer finishes the directory at this path below the root.
    pub(crate) fn finishes_directory(&self, below: &[u8]) -> bool {
        self.region().is_none_or(|region| region.has(below))
    }

    /// The region of a member.
    pub(crate) fn region(&self) -> Option<&Region> {
        self.config.member.as_ref().map(|member| &member.region)
    }
}

/// Files that a closer, or a later attempt of a job, finds at the destination, and that other transfers of the job delivered. The bytes of a
/// later attempt include the parts of files that it resumes.
#[derive(Default)]
pub(crate) struct Delivered {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Delivered {
    /// Counts an existing entry that is like the source's, if its inode has changed since the job began here: another transfer of the job
    /// has made it.
    pub(crate) fn found(&self, since: Option<Timestamp>, there: &Meta) {
        if since.is_some_and(|since| there.ctime >= since) {
            self.files.fetch_add(1, Ordering::Relaxed);
            if there.kind == Kind::File {
                self.bytes.fetch_add(there.bytes, Ordering::Relaxed);
            }
        }
    }

    /// Files and bytes.
    pub(crate) fn counted(&self) -> (u64, u64) {
        let counted = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (counted(&self.files), counted(&self.bytes))
    }
}

/// Counts data of an earlier attempt in a file that this attempt completes. The members of a claim report such data themselves.
pub(crate) fn note_resumed(bytes: u64, target: &Target) {
    if target.config.since.is_some() && target.config.member.is_none() {
        target.delivered.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Whether a file is assembled in a copy of the members' shared file.
pub(crate) fn copies(target: &Target) -> bool {
    let member = target.config.member.as_ref();
    member.is_some_and(|member| member.fence.copies())
}

/// Whether an assembled file is read back before it gets its name, even without a request for that. If size and time do not show that the
/// file already has its name, only its contents prove that all parts are in it.
pub(crate) fn rereads_assembled(target: &Target) -> bool {
    target.config.force || target.comparison().judge() != Judge::SIZE_AND_TIME
}

/// Removes temporary files of the claim from a directory before the closer looks at its entries, because another node may still rename
/// them. The closer sends its own files again. The mark of the claim stays.
pub(crate) fn accept_late(target: &Target, directory: &RelPath) -> Result<(), StoreError> {
    if !target.finishes_tree() || !copies(target) || target.comparison().dry_run {
        return Ok(());
    }
    let marks = LazyCell::new(|| marks(target));
    let beacon = target.config.beacon.as_ref();
    let is_mark = |name: &[u8]| {
        let is_beacon = beacon.is_some_and(|beacon| beacon.is(name));
        is_beacon || is_among(&marks, name)
    };
    match remove_ours(target, directory, &|name| !is_mark(name)) {
        // The directory is made later, or this process cannot rename in it either.
        Err(error)
            if matches!(
                error.kind,
                StoreErrorKind::NotFound
                    | StoreErrorKind::TypeConflict
                    | StoreErrorKind::Escape
                    | StoreErrorKind::Permission
            ) =>
        {
            Ok(())
        }
        removed => removed,
    }
}

/// Removes temporary files of the claim beside a destination that is not a directory; a walk finds those inside a directory.
pub(crate) fn sweep_beside(target: &Target, start: &RelPath) -> Result<(), StoreError> {
    let storage = &target.config.storage;
    let is_directory = |meta: Meta| meta.kind == Kind::Directory;
    let Some(parent) = start.parent() else {
        return Ok(());
    };
    if storage.stat(start)?.is_some_and(is_directory) {
        return Ok(());
    }
    // The marks stay, because other closers of the claim may follow.
    let marks = LazyCell::new(|| marks(target));
    remove_ours(target, &parent, &|name| !is_among(&marks, name))
}

/// Possible names of the claim's mark: the mark is at the claimed place, which is the destination or above it.
fn marks(target: &Target) -> HashSet<TempName> {
    marks_above(target.config.tag, &target.config.mapping)
}

/// The marks of these paths and of all directories above. Each path counts once: many destinations may lie in one deep directory.
fn marks_above(tag: u64, paths: &[RelPath]) -> HashSet<TempName> {
    let mut marks = HashSet::new();
    for path in paths {
        let above = std::iter::successors(Some(path.clone()), RelPath::parent);
        for path in above {
            if !marks.insert(TempName::of_mark(tag, &path)) {
                break;
            }
        }
    }
    marks
}

fn is_among(marks: &HashSet<TempName>, name: &[u8]) -> bool {
    marks.iter().any(|mark| mark.as_bytes() == name)
}

/// Removes temporary files of the claim from the region that a closer finishes, except those that `keep` accepts.
pub(crate) fn sweep_region(
    target: &Target,
    (within, flat): (&[RelPath], bool),
    keep: &dyn Fn(&RelPath) -> bool,
) -> Result<(), StoreError> {
    let config = &target.config;
    for below in within {
        let Some(start) = place(&target.base(), below) else {
            continue;
        };
        if flat {
            let goes = |name: &[u8]| !start.join(name).is_ok_and(|path| keep(&path));
            remove_ours(target, &start, &goes)?;
        } else {
            config.storage.sweep(&start, config.tag, keep)?;
        }
    }
    Ok(())
}

fn remove_ours(
    target: &Target,
    directory: &RelPath,
    goes: &dyn Fn(&[u8]) -> bool,
) -> Result<(), StoreError> {
    let storage = &target.config.storage;
    let mut left = Vec::new();
    storage.names_in(directory, &mut |name| {
        if TempName::is_ours(name, target.config.tag) && goes(name) {
            left.push(name.to_vec());
        }
    })?;
    left.iter()
        .filter_map(|name| directory.join(name).ok())
        .try_for_each(|path| storage.remove_entry(&path, false))
}

/// Message for a write after the end of the claim.
pub(crate) const FENCED: &str = "the claim of this job has ended at this node, so nothing more is written here; the job continues where its claim is now";

/// The journal's key of an entry: a file, or one part of it.
pub(crate) fn key_of(record: &Record, part: Option<Part>) -> PathKey {
    match part {
        None => PathKey::new(record.root, &record.path),
        Some(part) => PathKey::of_part(record.root, &record.path, part.offset),
    }
}

#[cfg(test)]
mod tests;
