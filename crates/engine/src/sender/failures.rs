//! Counts and tells of the entries that failed, at either end, each once.
//! Does not decide what fails.

use godwit_proto::{EntryFailed, Fault};

use super::Sender;
use super::state::Desc;
use crate::entry;

impl Sender {
    /// Something was not even an entry: `path` may be what somebody has written.
    pub(super) fn fail_named(&self, root: u16, path: Vec<u8>, fault: Fault) {
        if godwit_proto::path::validate(&path).is_ok() {
            let record = entry::unknown_record(fault.entry, root, path);
            return self.shared.fail_entry(&record, fault);
        }
        // The message has the beginning of longer ones.
        let name = match path.len() {
            ..=entry::ODD_NAME_BYTES_MAX => &path[..],
            _ => &[],
        };
        self.shared.report(root, name, &fault);
        let nameless = entry::unknown_record(fault.entry, root, Vec::new());
        let mut notice = entry::failed_record(&nameless, &fault);
        if !name.is_empty() {
            entry::add_odd_name(&mut notice, name);
        }
        self.shared.say_failed(notice);
    }

    /// An entry failed at the receiving end.
    pub(super) fn take_failure(&self, failed: &EntryFailed) {
        let state = self.shared.lock_state();
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
            Some(record) => self.shared.report(record.root, &record.path, &failed.fault),
            // It is durable already as far as this end knows, or has no contents: the receiver says its name.
            None => self.shared.report(failed.root, &failed.path, &failed.fault),
        }
    }

    /// The receiver says one by one which entries failed as long as they are few; it has counted all of them. Those that it has
    /// said on other streams may still be heard.
    pub(super) fn count_unnamed(&self, failed: u64) {
        let mut state = self.shared.lock_state();
        let unnamed = failed.saturating_sub(self.shared.counters.entries_failed.get());
        self.shared.counters.entries_failed.add(unnamed);
        state.unnamed += unnamed;
    }

    /// Tells of those once no stream is there that could bring their names.
    pub(super) fn tell_unnamed(&self) {
        let mut state = self.shared.lock_state();
        if state.end.is_none() || !state.streams.is_empty() {
            return;
        }
        let unnamed = std::mem::take(&mut state.unnamed);
        drop(state);
        if unnamed > 0 {
            self.shared.config.observer.note(&format!(
                "{unnamed} more entries failed at the destination, of which only the number is known; the same command tries them again"
            ));
        }
    }
}
