//! Counts and tells of the entries that failed, at either end, each once.
//! Does not decide what fails.

use godwit_proto::{EntryFailed, Fault, Record, Side};

use super::Sender;
use super::state::Desc;
use crate::{FailedEntry, entry};

impl Sender {
    /// An entry failed at this end: the user is told, and so is the receiver, which may hold a part of it.
    pub(super) fn fail_entry(&self, record: &Record, fault: Fault) {
        self.report(record.root, &record.path, &fault);
        self.say_failed(entry::failed_record(record, &fault));
    }

    fn say_failed(&self, notice: Record) {
        let mut state = self.lock_state();
        state.notices.push(notice);
        state.wake_stream();
        drop(state);
        self.notify();
    }

    /// Something was not even an entry: `path` may be what somebody has written.
    pub(super) fn fail_named(&self, root: u16, path: Vec<u8>, fault: Fault) {
        if godwit_proto::path::validate(&path).is_ok() {
            let record = entry::unknown_record(fault.entry, root, path);
            return self.fail_entry(&record, fault);
        }
        // The message has the beginning of longer ones.
        let name = match path.len() {
            ..=entry::ODD_NAME_BYTES_MAX => &path[..],
            _ => &[],
        };
        self.report(root, name, &fault);
        let nameless = entry::unknown_record(fault.entry, root, Vec::new());
        let mut notice = entry::failed_record(&nameless, &fault);
        if !name.is_empty() {
            entry::add_odd_name(&mut notice, name);
        }
        self.say_failed(notice);
    }

    /// An entry failed at the receiving end.
    pub(super) fn take_failure(&self, failed: &EntryFailed) {
        let state = self.lock_state();
        let record = state
            .outstanding
            .get(&failed.seq.0)
            .and_then(|item| match &item.desc {
                Desc::Bundle(records) => records
                    .iter()
                    .find(|record| record.id == failed.fault.entry)
                    .cloned(),
                Desc::Slice { file, .. } => {
                    self.abandon(file);
                    Some(file.record.clone())
                }
                Desc::Manifest(_) | Desc::Finish => None,
            });
        for file in state
            .active
            .iter()
            .filter(|file| file.record.id == failed.fault.entry)
        {
            self.abandon(file);
        }
        drop(state);
        match record {
            Some(record) => self.report(record.root, &record.path, &failed.fault),
            // It is durable already as far as this end knows, or has no contents: the receiver says its name.
            None => self.report(failed.root, &failed.path, &failed.fault),
        }
    }

    /// Counts and tells of an entry that failed, the first time that it is heard of.
    pub(super) fn report(&self, root: u16, path: &[u8], fault: &Fault) {
        self.let_go();
        let mut state = self.lock_state();
        let is_first = state.failed.is_first(fault.entry);
        if is_first {
            // Under the state's lock, as the comparison with the receiver's number is.
            match &mut state.unnamed {
                0 => self.counters.entries_failed.add(1),
                counted => *counted -= 1,
            }
        }
        drop(state);
        if is_first {
            if path.is_empty() && fault.side == Side::SOURCE {
                self.counters.sources_failed.add(1);
            }
            self.config.observer.entry_failed(&FailedEntry {
                root: Some(root),
                path,
                shown: &self.display(root, path),
                fault,
            });
        }
    }

    /// Nothing more is wanted of an entry. A source that gives its bytes once has no other: the end of those that are left is not
    /// waited for, and whoever writes them learns that nobody reads.
    pub(super) fn let_go(&self) {
        if !self.source.reads_again() {
            self.source.close();
        }
    }

    /// The receiver says one by one which entries failed as long as they are few; it has counted all of them. Those that it has
    /// said on other streams may still be heard.
    pub(super) fn count_unnamed(&self, failed: u64) {
        let mut state = self.lock_state();
        let unnamed = failed.saturating_sub(self.counters.entries_failed.get());
        self.counters.entries_failed.add(unnamed);
        state.unnamed += unnamed;
    }

    /// Tells of those once no stream is there that could bring their names.
    pub(super) fn tell_unnamed(&self) {
        let mut state = self.lock_state();
        if state.end.is_none() || !state.streams.is_empty() {
            return;
        }
        let unnamed = std::mem::take(&mut state.unnamed);
        drop(state);
        if unnamed > 0 {
            self.config.observer.note(&format!(
                "{unnamed} more entries failed at the destination, of which only the number is known; the same command tries them again"
            ));
        }
    }
}
