//! Owns the words of the buffer: extents, their places and contents, and the state machine that each extent obeys. Keeps no extents; the
//! ledger does.
//!
//! ```text
//!            written            committed (out)
//! FILLING ───────────▶ WRITTEN ─────────────────────────────▶ CLEAN ──▶ FREEING ──▶ FREE
//!                         │ committed (in)                      ▲  dropped      freed
//!                         └────────────▶ DIRTY ◀──▶ DRAINING ───┘
//!                                          │           │      drained
//!                                          └──▶ LOST ◀─┘ unreadable
//! ```
//!
//! *Written* and *durable* are two facts. A failed write or commit leads back to FREE. Only FREEING leads to FREE otherwise, and only CLEAN
//! leads to FREEING unless the owner of the data abandons it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use godwit_store::digest::{Digest, DigestKind, digest_slice};
use godwit_store::storage::Known;

/// Longest path of a file, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;

/// Most bytes that describe how an arrived file gets its place: its times, mode, owner and attributes.
pub const WHAT_BYTES_MAX: usize = 4096;

/// Names the place from which files came: a hash of endpoint and export, made by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub [u8; 16]);

/// One state of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    /// Length of the contents.
    pub bytes: u64,
    /// The result of `Meta::generation` at that time.
    pub stamp: u64,
}

impl From<Known> for Generation {
    fn from(known: Known) -> Self {
        Self {
            bytes: known.bytes,
            stamp: known.generation,
        }
    }
}

/// Names one generation of one file. The order groups the generations of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// The place from which the file came.
    pub source: SourceId,
    /// The path below the root of the source, at most [`PATH_BYTES_MAX`] bytes.
    pub path: Vec<u8>,
    /// The state of the file.
    pub generation: Generation,
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.escape_ascii())
    }
}

/// A volume of the buffer: a device or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(pub u16);

/// A slot of a volume: room for one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(pub u32);

/// Where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The volume.
    pub volume: VolumeIndex,
    /// The slot of the volume.
    pub slot: SlotIndex,
}

/// One use of a place. Late results of an earlier use of the same place are recognised by the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The place.
    pub place: Place,
    /// Counts the uses of the place.
    pub turn: u32,
}

/// The digest of an extent, in the form of [`digest_slice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDigest {
    /// Which digest.
    pub kind: DigestKind,
    /// Its value.
    pub value: Digest,
}

/// The content of an extent: a range of one generation of a file, and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The file.
    pub file: Arc<FileKey>,
    /// Where the range begins.
    pub offset: u64,
    /// Length of the range; at most the size of an extent.
    pub bytes: u32,
    /// Digest of the range.
    pub digest: BlockDigest,
}

impl Content {
    /// Describes `data`, which begins at `offset` of the file.
    ///
    /// # Panics
    /// If `data` is longer than 4 GiB; each extent is shorter.
    #[must_use]
    pub fn of(file: &Arc<FileKey>, offset: u64, data: &[u8], kind: DigestKind) -> Self {
        let value = digest_slice(kind, offset, file.generation.bytes, data);
        Self {
            file: Arc::clone(file),
            offset,
            bytes: u32::try_from(data.len()).expect("an extent is short"),
            digest: BlockDigest { kind, value },
        }
    }

    /// Whether `data` is this content.
    #[must_use]
    pub fn matches(&self, data: &[u8]) -> bool {
        let file_bytes = self.file.generation.bytes;
        data.len() == self.bytes as usize
            && digest_slice(self.digest.kind, self.offset, file_bytes, data) == self.digest.value
    }
}

/// The direction of data through the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Read from slow storage, and can be read there again.
    Out,
    /// For slow storage: the buffer has the only copy until it has drained.
    In,
}

/// Time until which clean extents of a file stay. The order is that of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Until the room is needed.
    #[default]
    No,
    /// Until this time since the Unix epoch.
    Until(Duration),
    /// Until a user unpins the file.
    Pinned,
}

impl Keep {
    /// Whether the file stays at this time.
    #[must_use]
    pub fn holds(self, now: Duration) -> bool {
        match self {
            Self::No => false,
            Self::Until(until) => now < until,
            Self::Pinned => true,
        }
    }
}

/// A change of a volume's log. Each record states facts, not differences, so a repeated record does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The slot holds this content.
    Holds {
        /// The slot.
        slot: SlotIndex,
        /// Its content.
        content: Content,
        /// Whether the buffer has the only copy.
        is_dirty: bool,
        /// When the content became durable, since the Unix epoch.
        since: Duration,
        /// Time until which the file stays. The file may have been pinned before this volume knew it.
        keep: Keep,
    },
    /// The content of the slot has drained.
    Clean(SlotIndex),
    /// The slot holds nothing.
    Free(SlotIndex),
    /// The extents of a file on this volume stay, as the second value says.
    Keep(Arc<FileKey>, Keep),
    /// The file has arrived whole, and these bytes name its place. Without bytes the file has no place any more.
    Arrived(Arc<FileKey>, Arc<[u8]>),
    /// The file that had arrived as the first key is at slow storage now, where it is the second one.
    Placed(Arc<FileKey>, Arc<FileKey>),
}

/// An extent as it stands in the log of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The slot.
    pub slot: SlotIndex,
    /// Its content.
    pub content: Content,
    /// Whether the buffer has the only copy.
    pub is_dirty: bool,
    /// When the content became durable, since the Unix epoch.
    pub since: Duration,
    /// Time until which the file stays.
    pub keep: Keep,
}

/// The state of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The slot has no content.
    Free,
    /// A caller writes the content.
    Filling,
    /// All bytes are on the volume; a power cut may still take them.
    Written,
    /// Durable, and the only copy.
    Dirty,
    /// Durable; slow storage gets the content now.
    Draining,
    /// Durable, and can be had again.
    Clean,
    /// No longer in use; the log does not record that yet.
    Freeing,
    /// The only copy, and it cannot be read.
    Lost,
}

impl State {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::Filling,
        Self::Written,
        Self::Dirty,
        Self::Draining,
        Self::Clean,
        Self::Freeing,
        Self::Lost,
    ];

    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Filling => "filling",
            Self::Written => "written",
            Self::Dirty => "dirty",
            Self::Draining => "draining",
            Self::Clean => "clean",
            Self::Freeing => "freeing",
            Self::Lost => "lost",
        }
    }

    /// Whether the content survives a power cut and can be read.
    #[must_use]
    pub fn is_served(self) -> bool {
        matches!(self, Self::Dirty | Self::Draining | Self::Clean)
    }

    /// Whether the buffer has the only copy, or had it.
    #[must_use]
    pub fn is_only_copy(self) -> bool {
        matches!(self, Self::Dirty | Self::Draining | Self::Lost)
    }
}

/// A change in the life of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A caller begins to write.
    Begun,
    /// All bytes are on the volume.
    Written,
    /// The write or the commit failed, or the caller gave up.
    Failed,
    /// The content and its record are durable.
    Committed(Flow),
    /// A drain begins.
    DrainBegun,
    /// Slow storage has the content, durable.
    Drained,
    /// The drain failed.
    DrainFailed,
    /// The ledger gives the extent up.
    Dropped,
    /// The owner gives the data up.
    Abandoned,
    /// The content cannot be read, or has changed.
    Unreadable,
    /// The log says that the slot holds nothing.
    Freed,
}

/// A step that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an extent that is {} cannot take the step {step:?}", from.name())]
pub struct Misstep {
    /// The state.
    pub from: State,
    /// The step.
    pub step: Step,
}

/// The state after a step.
///
/// # Errors
/// The state does not allow the step.
pub fn after(from: State, step: Step) -> Result<State, Misstep> {
    Ok(match (from, step) {
        (State::Free, Step::Begun) => State::Filling,
        (State::Filling, Step::Written) => State::Written,
        (State::Filling | State::Written, Step::Failed) | (State::Freeing, Step::Freed) => {
            State::Free
        }
        (State::Written, Step::Committed(Flow::In)) | (State::Draining, Step::DrainFailed) => {
            State::Dirty
        }
        (State::Written, Step::Committed(Flow::Out)) | (State::Draining, Step::Drained) => {
            State::Clean
        }
        (State::Dirty, Step::DrainBegun) => State::Draining,
        (State::Dirty | State::Draining, Step::Unreadable) => State::Lost,
        (State::Clean, Step::Dropped | Step::Unreadable)
        | (State::Dirty | State::Clean | State::Lost, Step::Abandoned) => State::Freeing,
        (from, step) => return Err(Misstep { from, step }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 12] = [
        Step::Begun,
        Step::Written,
        Step::Failed,
        Step::Committed(Flow::Out),
        Step::Committed(Flow::In),
        Step::DrainBegun,
        Step::Drained,
        Step::DrainFailed,
        Step::Dropped,
        Step::Abandoned,
        Step::Unreadable,
        Step::Freed,
    ];

    #[test]
    fn the_only_copy_goes_only_by_a_drain_or_by_its_owner() {
        for from in State::ALL.into_iter().filter(|from| from.is_only_copy()) {
            for step in STEPS {
                let Ok(to) = after(from, step) else { continue };
                let is_kept = to.is_only_copy();
                let may_go = matches!(step, Step::Drained | Step::Abandoned);
                assert!(is_kept || may_go, "{from:?} {step:?} {to:?}");
            }
        }
    }

    #[test]
    fn contents_are_served_only_after_a_commit_and_a_slot_is_free_only_after_the_log_says_so() {
        for from in State::ALL {
            for step in STEPS {
                let Ok(to) = after(from, step) else { continue };
                if to.is_served() && !from.is_served() {
                    assert!(matches!(step, Step::Committed(_)), "{from:?} {step:?}");
                }
                if to == State::Free {
                    let is_durable = from.is_served() || from == State::Lost;
                    assert!(!is_durable, "{from:?} {step:?}");
                }
            }
        }
    }

    #[test]
    fn every_state_is_reached_and_left() {
        for state in State::ALL {
            let reached = State::ALL
                .into_iter()
                .any(|from| STEPS.iter().any(|step| after(from, *step) == Ok(state)));
            let left = STEPS.iter().any(|step| after(state, *step).is_ok());
            assert!(reached && left, "{state:?}");
        }
    }
}
