//! Remembers files whose content at the destination is not the source's, so that no hard link to such an entry is made. Does not decide
//! about names; `links` does.
//!
//! The set contains hashes, the older ones on disk. Times do not prove that a file is the source's: it may change while it is read, and
//! some file systems round times.
//!
//! Otherwise a sender without read permission at the destination could link a file that it never sent into a readable place. For such a
//! sender, the receiver therefore remembers the files that arrived or had the announced digest; all other files are foreign.

use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::{Comparison, EntryKind, FaultCode, Record, RecordFlags};
use godwit_store::journal::PathKey;
use godwit_store::seen::SeenSet;
use godwit_store::spill::SpillRoom;

use crate::files::error::KeysError;

/// Reason why the destination's file is not the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// The file failed, at either end.
    Failed,
    /// An option for existing files left the file unchanged.
    Left,
    /// The destination had no space for the file.
    NoRoom,
    /// Nothing proves that the sender has the file, and the sender may not read it.
    Foreign,
}

impl Undelivered {
    /// The reason for a file that failed with this code.
    pub(crate) fn by(code: FaultCode) -> Self {
        match code {
            FaultCode::NO_SPACE => Self::NoRoom,
            _ => Self::Failed,
        }
    }

    /// The same for a file that failed before it was sent, with this comparison. If it may replace nothing, its further names are sent as
    /// files.
    pub(crate) fn at(comparison: Comparison, code: FaultCode) -> Self {
        match code {
            FaultCode::COLLISION if comparison.no_replace => Self::Left,
            code => Self::by(code),
        }
    }
}

/// An unbounded set of files that did not arrive, by root and path.
pub(crate) struct UndeliveredSet {
    /// The sender may not read the destination.
    is_blind: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    seen: SeenSet,
    /// Files that the sender has; `None` if the sender may read the destination.
    proven: Option<SeenSet>,
    any: bool,
    /// The error because of which not all files are remembered; nothing is known of any file then.
    failure: Option<KeysError>,
}

impl UndeliveredSet {
    /// An empty set; keys that do not fit in memory go to a nameless file in `room`. With `is_blind` the sender may not read the
    /// destination.
    pub(crate) fn new(room: impl Into<SpillRoom>, is_blind: bool) -> Self {
        let room = room.into();
        let proven = || SeenSet::with_memory(&room, PROVEN_IN_MEMORY);
        Self {
            is_blind,
            inner: Mutex::new(Inner {
                seen: SeenSet::new(&room),
                proven: is_blind.then(proven),
                any: false,
                failure: None,
            }),
        }
    }

    /// Records that the sender has this file: it was delivered, or has the announced digest.
    pub(crate) fn prove(&self, key: impl FnOnce() -> PathKey) {
        // This check avoids the key, which costs more than all other work for an unchanged file. Most senders may read the
        // destination.
        if !self.is_blind {
            return;
        }
        let mut inner = lock(&self.inner);
        let Some(proven) = &mut inner.proven else {
            return;
        };
        if let Err(error) = proven.insert(&key().0) {
            inner.failure.get_or_insert_with(|| error.into());
        }
    }

    /// Records that the destination's file is not the source's. Repeating this does no harm.
    pub(crate) fn note(&self, root: u16, path: &[u8], why: Undelivered) {
        let mut inner = lock(&self.inner);
        inner.any = true;
        if inner.failure.is_none()
            && let Err(error) = inner.seen.insert(&key(root, path, why))
        {
            inner.failure = Some(error.into());
        }
    }

    /// Like [`UndeliveredSet::note`], for an announced entry. An entry that is not a file cannot be linked to, and is ignored.
    pub(crate) fn note_record(&self, record: &Record, why: Undelivered) {
        // An entry that the source cannot read may be of any kind; its record has the kind of a failed name.
        if record.kind == EntryKind::FILE || record.flags & RecordFlags::SOURCE_FAILED != 0 {
            self.note(record.root, &record.path, why);
        }
    }

    /// The reason, if the entry is in the set.
    ///
    /// # Errors
    /// The answer is unknown, because not all entries could be remembered.
    pub(crate) fn find(&self, root: u16, path: &[u8]) -> Result<Option<Undelivered>, KeysError> {
        let inner = lock(&self.inner);
        if let Some(failure) = &inner.failure {
            return Err(failure.clone());
        }
        for why in [Undelivered::NoRoom, Undelivered::Failed, Undelivered::Left] {
            if inner.any && inner.seen.contains(&key(root, path, why))? {
                return Ok(Some(why));
            }
        }
        Ok(match &inner.proven {
            Some(proven) if !proven.contains(&PathKey::new(root, path).0)? => {
                Some(Undelivered::Foreign)
            }
            _ => None,
        })
    }
}

/// Most proven names in memory, at some 36 bytes each.
const PROVEN_IN_MEMORY: usize = 64 << 10;

fn key(root: u16, path: &[u8], why: Undelivered) -> [u8; 17] {
    let mut key = [why as u8; 17];
    key[1..].copy_from_slice(&PathKey::new(root, path).0);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_with_its_reason_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let set = UndeliveredSet::new(directory.path(), false);
        assert_eq!(set.find(0, b"a").unwrap(), None);
        set.note(0, b"a", Undelivered::Left);
        set.note(0, b"b", Undelivered::Failed);
        assert_eq!(set.find(0, b"a").unwrap(), Some(Undelivered::Left));
        assert_eq!(set.find(0, b"b").unwrap(), Some(Undelivered::Failed));
        set.note(0, b"a", Undelivered::Failed);
        assert_eq!(set.find(0, b"a").unwrap(), Some(Undelivered::Failed));
        for (root, path) in [(1, &b"a"[..]), (0, b"c"), (0, b"")] {
            assert_eq!(set.find(root, path).unwrap(), None);
        }
    }

    #[test]
    fn a_client_that_may_not_read_sees_all_files_but_the_delivered_ones_as_foreign() {
        let directory = tempfile::tempdir().unwrap();
        let set = UndeliveredSet::new(directory.path(), true);
        set.prove(|| PathKey::new(0, b"a"));
        set.prove(|| PathKey::new(0, b"b"));
        set.note(0, b"b", Undelivered::Left);
        assert_eq!(set.find(0, b"a").unwrap(), None);
        assert_eq!(set.find(0, b"b").unwrap(), Some(Undelivered::Left));
        for (root, path) in [(1, &b"a"[..]), (0, b"c"), (0, b"")] {
            assert_eq!(set.find(root, path).unwrap(), Some(Undelivered::Foreign));
        }
    }

    #[test]
    fn a_failed_record_of_an_undelivered_entry_makes_all_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let set = UndeliveredSet::new(&directory.path().join("gone"), false);
        for number in 0..300_000_u32 {
            set.note(0, &number.to_le_bytes(), Undelivered::Left);
        }
        assert!(set.find(0, b"never met").is_err());
    }
}
