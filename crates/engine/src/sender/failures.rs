//! Counts and tells of the entries that failed, at either end, each once.
//! Does not decide what fails.

use godwit_proto::{EntryFailed, NoticeKind, Notices};

use super::Sender;
use super::large::LargeFile;
use super::state::Desc;
use crate::{Action, Item};

impl Sender {
    /// What the receiver tells; what was told before is not told again.
    pub(super) fn take_notices(&self, notices: &Notices) {
        for (number, notice) in (notices.first..).zip(&notices.notices) {
            {
                let mut state = self.shared.lock_state();
                if number <= state.noticed {
                    continue;
                }
                state.noticed = number;
            }
            match notice.kind {
                NoticeKind::DELETED => {
                    self.shared.counters.entries_deleted.add(1);
                    self.shared.config.observer.item(&Item {
                        action: Action::Delete,
                        kind: notice.entry,
                        root: notice.root,
                        path: &notice.text,
                        bytes: 0,
                    });
                }
                NoticeKind::NOTE => {
                    let text = String::from_utf8_lossy(&notice.text);
                    self.shared.config.observer.note(&text);
                }
                _ => {}
            }
        }
    }

    /// The file has failed at the receiver.
    fn abandon(&self, file: &LargeFile) {
        if file.kill() {
            self.shared.give_up(file.take_rest());
        }
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
