//! What a transfer decides about one entry, for people and programs that want it entry by entry.
//! Decides nothing itself, and prints nothing.

use godwit_proto::{EntryKind, Record, RecordFlags, Verdict};

/// What becomes of an entry; in a dry run, what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Its contents are sent.
    Send,
    /// It is made, and needs no contents: a directory or a link.
    Make,
    /// It is there but for its metadata, which is set.
    Adjust,
    /// It stays as it is.
    Skip,
    /// Only the destination has it, and it is removed.
    Delete,
}

/// An entry and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// What becomes of it.
    pub action: Action,
    /// What it is.
    pub kind: EntryKind,
    /// Index of the source that it belongs to, or to whose counterpart it does.
    pub root: u16,
    /// Path below that source; empty for the source itself.
    pub path: &'a [u8],
    /// Size of its contents; 0 for what is no file, and for what is deleted.
    pub bytes: u64,
}

impl Action {
    /// What a verdict decides; `None` for one that is not the last word, for a failure, which is told otherwise, and for an entry
    /// that is not meant.
    pub(crate) fn of(record: &Record, verdict: &Verdict) -> Option<Self> {
        match verdict {
            _ if record.flags & RecordFlags::PASSED_OVER != 0 => None,
            Verdict::Send | Verdict::Partial { .. } => Some(Self::Send),
            Verdict::Done => Some(Self::Make),
            Verdict::Adjusted => Some(Self::Adjust),
            Verdict::Skip => Some(Self::Skip),
            Verdict::Digest | Verdict::Failed(_) => None,
        }
    }
}
