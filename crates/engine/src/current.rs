//! Owns the name of an entry whose contents are on their way, for people who watch.
//! Counts nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_proto::Record;

/// An entry of which a block was read or written lately. Only the first use of a block after a question notes its entry.
#[derive(Debug, Default)]
pub(crate) struct CurrentEntry {
    is_noted: AtomicBool,
    name: Mutex<Option<(u16, Vec<u8>)>>,
}

impl CurrentEntry {
    /// A block of the entry is read or written.
    pub(crate) fn note(&self, record: &Record) {
        if !self.is_noted.load(Ordering::Relaxed) && !self.is_noted.swap(true, Ordering::Relaxed) {
            *crate::lock(&self.name) = Some((record.root, record.path.clone()));
        }
    }

    /// The entry: the number of its root, and its path below that.
    pub(crate) fn ask(&self) -> Option<(u16, Vec<u8>)> {
        self.is_noted.store(false, Ordering::Relaxed);
        crate::lock(&self.name).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_entry_after_a_question_is_the_answer_to_the_next_one() {
        let current = CurrentEntry::default();
        let note = |path: &[u8]| {
            current.note(&Record {
                root: 3,
                path: path.to_vec(),
                ..Record::default()
            });
        };
        assert_eq!(current.ask(), None);
        note(b"a");
        note(b"b");
        assert_eq!(current.ask(), Some((3, b"a".to_vec())));
        // A large file is the same one for long.
        assert_eq!(current.ask(), Some((3, b"a".to_vec())));
        note(b"c");
        assert_eq!(current.ask(), Some((3, b"c".to_vec())));
    }
}
