//! Takes what the receiver decides about entries, and what it tells besides.
//! Does not decide what is read or sent next; the state does.

use godwit_proto::{Answer, EntryKind, NoticeKind, Notices, Record, Verdict};

use super::Sender;
use super::state::{Desc, State};
use crate::{Action, Item, StreamLoss, entry, limits, lock};

impl Sender {
    pub(super) fn take_answer(&self, answer: Answer, peer: &str) -> Result<(), StreamLoss> {
        let broke = |what: &str| StreamLoss::Peer {
            peer: peer.to_owned(),
            what: what.to_owned(),
        };
        let mut state = self.lock_state();
        let Some(item) = state.outstanding.get(&answer.seq.0) else {
            return Ok(());
        };
        let Desc::Manifest(records) = &item.desc else {
            return Err(broke("an answer to something that is no manifest"));
        };
        if records.len() != answer.verdicts.len() {
            return Err(broke(
                "an answer with another number of verdicts than there were entries",
            ));
        }
        let records = std::sync::Arc::clone(records);
        let actions: Vec<Option<Action>> = if self.config.itemise {
            let decided = records.iter().zip(&answer.verdicts);
            decided
                .map(|(record, verdict)| Action::of(record, verdict))
                .collect()
        } else {
            Vec::new()
        };
        state.durable(answer.seq.0);
        state.unanswered -= records.len().min(state.unanswered);
        let mut failed = Vec::new();
        let done = self.done_by_answer(&records, &answer.verdicts);
        let (mut skipped, mut bytes_skipped) = (0, 0);
        for (record, verdict) in records.iter().zip(answer.verdicts) {
            if verdict != Verdict::Skip {
                self.take_verdict(&mut state, record, verdict, &mut failed);
            } else if record.kind != EntryKind::DIRECTORY {
                skipped += 1;
                bytes_skipped += entry::known_bytes(record);
            }
        }
        self.counters.files_skipped.add(skipped);
        self.counters.bytes_skipped.add(bytes_skipped);
        self.finish_if_done(&mut state);
        state.wake_streams();
        drop(state);
        self.notify();
        for (record, fault) in failed {
            self.report(record.root, &record.path, &fault);
        }
        self.tell_done(&done);
        for (record, action) in records.iter().zip(actions) {
            if let Some(action) = action {
                self.config.observer.item(&entry::item(record, action));
            }
        }
        if let Some(records) = std::sync::Arc::into_inner(records) {
            self.reuse_paths(records);
        }
        Ok(())
    }

    /// Entries that nothing is to be done about come by the million: their paths are made in the memory of earlier ones.
    fn reuse_paths(&self, records: Vec<Record>) {
        let mut used = lock(&self.used_paths);
        let room = limits::USED_PATHS_MAX.saturating_sub(used.len());
        let paths = records.into_iter().map(|record| record.path);
        used.extend(
            paths
                .filter(|path| path.capacity() <= limits::USED_PATH_BYTES_MAX)
                .take(room),
        );
    }

    fn take_verdict(
        &self,
        state: &mut State,
        record: &Record,
        verdict: Verdict,
        failed: &mut Vec<(Record, godwit_proto::Fault)>,
    ) {
        match verdict {
            Verdict::Send | Verdict::Partial { .. } if self.is_dry() => {
                self.counters.files_done.add(1);
                self.counters.bytes_durable.add(record.bytes);
            }
            // Once it is known, the receiver has no reason to ask again.
            Verdict::Digest if record.digest.is_none() && self.config.comparison.is_some() => {
                state.want_digest(record.clone());
            }
            Verdict::Send | Verdict::Digest => {
                state.want(record.clone(), Vec::new(), self.config.block_bytes);
            }
            Verdict::Partial { held } => state.want(record.clone(), held, self.config.block_bytes),
            Verdict::Skip | Verdict::Done | Verdict::Adjusted => {}
            Verdict::Failed(mut fault) => {
                fault.entry = record.id;
                failed.push((record.clone(), fault));
            }
        }
    }

    /// What the receiver tells; what was told before is not told again.
    pub(super) fn take_notices(&self, notices: &Notices) {
        for (number, notice) in (notices.first..).zip(&notices.notices) {
            {
                let mut state = self.lock_state();
                if number <= state.noticed {
                    continue;
                }
                state.noticed = number;
            }
            match notice.kind {
                NoticeKind::DELETED => {
                    self.counters.entries_deleted.add(1);
                    self.config.observer.item(&Item {
                        action: Action::Delete,
                        kind: notice.entry,
                        root: notice.root,
                        path: &notice.text,
                        bytes: 0,
                    });
                }
                NoticeKind::NOTE => {
                    let text = String::from_utf8_lossy(&notice.text);
                    self.config.observer.note(&text);
                }
                _ => {}
            }
        }
    }
}
