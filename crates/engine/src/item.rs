//! Describes a transfer's decision about one entry, for users and programs that want a report for each entry. Does not
//! decide or print.

use godwit_proto::{EntryKind, Record, RecordFlags, Verdict};

/// The action taken for an entry; in a dry run, the action that would be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The contents of the entry are sent.
    Send,
    /// The entry is created without contents: a directory or a link.
    Make,
    /// The entry exists; only its metadata is set.
    Adjust,
    /// The entry stays as it is.
    Skip,
    /// Only the destination has the entry; it is removed.
    Delete,
}

/// An entry and the action taken for it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The action taken.
    pub action: Action,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Index of the source that the entry, or its counterpart, belongs to.
    pub root: u16,
    /// Path below that source; empty for the source itself.
    pub path: &'a [u8],
    /// Size of its contents; 0 if the entry is no file or is deleted.
    pub bytes: u64,
}

impl Action {
    /// The action of a verdict. `None` for a verdict that is not final, for a failure (reported elsewhere), and for a
    /// skipped entry.
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
