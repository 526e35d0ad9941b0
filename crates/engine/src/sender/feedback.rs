//! Processes the receiver's messages about items and entries: acknowledgements, failures, notices, counters, its end.
//! Does not read frames from a stream; `streams` does.

use std::sync::{Arc, Mutex};

use godwit_proto::{Ack, AckStatus, EntryFailed, Finished, NoticeKind, Notices, Record, Status};

use super::large::LargeFile;
use super::scan::Scan;
use super::shared::Shared;
use super::state::{Desc, Outstanding, State};
use crate::counters::Snapshot;
use crate::{Action, End, Item, entry, lock};

pub(super) struct Feedback {
    shared: Arc<Shared>,
    scan: Arc<Scan>,
    /// The receiver's counters in its latest report.
    counters: Mutex<Option<Snapshot>>,
}

impl Feedback {
    pub(super) fn new(shared: Arc<Shared>, scan: Arc<Scan>) -> Self {
        Self {
            shared,
            scan,
            counters: Mutex::default(),
        }
    }

    /// The receiver's counters in its latest report.
    pub(super) fn counters(&self) -> Option<Snapshot> {
        *lock(&self.counters)
    }

    /// Records that the receiver has finished. The transfer ends once everything is known to be durable.
    pub(super) fn take_finished(&self, finished: Finished) {
        if let Some(status) = &finished.counters {
            self.take_peer(status);
        }
        self.count_unnamed(finished.failed);
        let finished = self.shared.lock_state().items.take_finished(Some(finished));
        if let Some(finished) = finished {
            self.shared.finish(End::Finished(finished));
        }
    }

    /// Stores the receiver's counters and decisions.
    pub(super) fn take_peer(&self, status: &Status) {
        *lock(&self.counters) = Some(entry::snapshot_from_status(status));
        self.shared
            .decided
            .take(&status.tuned, &*self.shared.config.observer);
    }

    pub(super) fn take_ack(&self, ack: &Ack) {
        let mut done = Vec::new();
        let mut delivered = Vec::new();
        let mut state = self.shared.lock_state();
        for range in &ack.items {
            // Ranges come from the other end: iterate over our items, not over the named range.
            let seqs: Vec<u64> = if range.last.0.saturating_sub(range.first.0)
                < state.items.outstanding.len() as u64
            {
                (range.first.0..=range.last.0)
                    .filter(|seq| state.items.outstanding.contains_key(seq))
                    .collect()
            } else {
                let mut seqs: Vec<u64> = state
                    .items
                    .outstanding
                    .keys()
                    .copied()
                    .filter(|seq| (range.first.0..=range.last.0).contains(seq))
                    .collect();
                seqs.sort_unstable();
                seqs
            };
            for seq in seqs {
                let item = self.take_status(&mut state, seq, range.status, &mut done);
                delivered.extend(item);
            }
        }
        // Released before the end is published, because other threads may react to the end.
        drop(state);
        self.shared.report_done(&done);
        for item in delivered {
            if let Desc::Bundle(records) = item.desc
                && let Some(records) = Arc::into_inner(records)
            {
                self.scan
                    .reuse_paths(records.into_iter().map(|record| record.path));
            }
        }
        let mut state = self.shared.lock_state();
        let finished = state.items.take_finished(None);
        if finished.is_none() {
            self.shared.finish_if_done(&mut state);
        }
        state.streams.wake_all();
        drop(state);
        self.shared.notify();
        if let Some(finished) = finished {
            self.shared.finish(End::Finished(finished));
        }
    }

    /// Applies an acknowledgement to one item. Returns the item once it is settled.
    fn take_status(
        &self,
        state: &mut State,
        seq: u64,
        status: AckStatus,
        done: &mut Vec<Record>,
    ) -> Option<Outstanding> {
        if !matches!(
            state.items.outstanding.get(&seq).map(|item| &item.desc),
            Some(Desc::Slice { .. } | Desc::Bundle(_))
        ) {
            return None;
        }
        match status {
            AckStatus::WRITTEN => self
                .shared
                .counters
                .bytes_written
                .add(state.items.written(seq)),
            AckStatus::DURABLE => {
                self.shared
                    .counters
                    .bytes_written
                    .add(state.items.written(seq));
                if let Some(item) = state.items.durable(seq) {
                    self.shared.counters.bytes_durable.add(item.content);
                    let wanted = self.shared.config.observer.wants_entries();
                    let files = state.take_done(&item.desc, wanted.then_some(done));
                    self.shared.counters.files_done.add(files);
                    return Some(item);
                }
            }
            AckStatus::RESEND => state.resend(seq),
            _ => {}
        }
        None
    }

    /// Passes on the receiver's notices; repeated ones are ignored. With `of_client` notes are ignored, too: the client
    /// shows them to its user, and they do not belong in the log of a daemon.
    pub(super) fn take_notices(&self, notices: &Notices, of_client: bool) {
        for (notice, number) in notices.notices.iter().zip(notices.first..) {
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
                NoticeKind::NOTE if !of_client => {
                    let text = String::from_utf8_lossy(&notice.text);
                    self.shared.config.observer.note(&text);
                }
                _ => {}
            }
        }
    }

    /// Gives up a file that has failed at the receiver.
    fn abandon(&self, file: &LargeFile) {
        if file.kill() {
            self.shared.give_up(file.take_rest());
        }
    }

    /// Records an entry that failed at the receiving end.
    pub(super) fn take_failure(&self, failed: &EntryFailed) {
        let state = self.shared.lock_state();
        let record = state
            .items
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
            .files
            .active
            .iter()
            .filter(|file| file.record.id == failed.fault.entry)
        {
            self.abandon(file);
        }
        drop(state);
        match record {
            Some(record) => self.shared.report(record.root, &record.path, &failed.fault),
            // The item is durable as far as this end knows, or has no contents: use the receiver's name for the entry.
            None => self.shared.report(failed.root, &failed.path, &failed.fault),
        }
    }

    /// The receiver reports failed entries one by one up to a limit, and counts all of them. Reports sent on other
    /// streams may still arrive.
    fn count_unnamed(&self, failed: u64) {
        let mut state = self.shared.lock_state();
        let unnamed = failed.saturating_sub(self.shared.counters.entries_failed.get());
        self.shared.counters.entries_failed.add(unnamed);
        state.unnamed += unnamed;
    }

    /// Reports the number of failed entries without names, once no stream is left on which the names could arrive.
    pub(super) fn report_unnamed(&self) {
        let mut state = self.shared.lock_state();
        if state.end.is_none() || state.streams.count() > 0 {
            return;
        }
        let unnamed = std::mem::take(&mut state.unnamed);
        drop(state);
        if unnamed > 0 {
            self.shared.config.observer.note(&format!(
                "{unnamed} more entries failed at the destination, and their names are not known here; run the same command to try them again"
            ));
        }
    }
}
