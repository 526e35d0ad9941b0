//! Processes the receiver's decisions about announced entries. Does not decide which data is read
//! or sent next; the state does.

use std::sync::Arc;

use godwit_proto::{Answer, EntryKind, Record, RecordFlags, Verdict};

use super::Scan;
use crate::sender::state::{Desc, State};
use crate::{Action, StreamLoss, entry};

impl Scan {
    pub(in crate::sender) fn take_answer(
        &self,
        answer: Answer,
        peer: &str,
    ) -> Result<(), StreamLoss> {
        let broke = |what: &str| StreamLoss::Peer {
            peer: peer.to_owned(),
            what: what.to_owned(),
        };
        let mut state = self.shared.lock_state();
        let Some(item) = state.items.outstanding.get(&answer.seq.0) else {
            return Ok(());
        };
        let Desc::Manifest(records) = &item.desc else {
            return Err(broke("an answer to an item that is not a manifest"));
        };
        if records.len() != answer.verdicts.len() {
            return Err(broke(
                "an answer with another number of verdicts than there were entries",
            ));
        }
        let records = Arc::clone(records);
        let actions: Vec<(Record, Action)> = if self.shared.config.itemise {
            let decided = records.iter().zip(&answer.verdicts);
            decided
                .filter_map(|(record, verdict)| {
                    Some((record.clone(), Action::of(record, verdict)?))
                })
                .collect()
        } else {
            Vec::new()
        };
        state.items.durable(answer.seq.0);
        state.unanswered -= records.len().min(state.unanswered);
        let mut failed = Vec::new();
        let mut settled = Vec::new();
        let done = self.done_by_answer(&records, &answer.verdicts);
        let (mut skipped, mut bytes_skipped, mut bytes_unmoved) = (0, 0, 0);
        // A second reference exists while the manifest is being sent again.
        let records = Arc::try_unwrap(records).unwrap_or_else(|shared| shared.to_vec());
        for (record, verdict) in records.into_iter().zip(answer.verdicts) {
            if verdict == Verdict::Skip {
                if record.kind != EntryKind::DIRECTORY {
                    skipped += 1;
                    bytes_skipped += entry::known_bytes(&record);
                }
                settled.push(record.path);
            } else {
                let moves = matches!(
                    verdict,
                    Verdict::Send | Verdict::Digest | Verdict::Partial { .. }
                );
                // Entries that limits skipped were not counted.
                if !moves && record.flags & RecordFlags::PASSED_OVER == 0 {
                    bytes_unmoved += entry::known_bytes(&record);
                }
                self.take_verdict(&mut state, record, verdict, &mut failed);
            }
        }
        self.shared.counters.bytes_unmoved.add(bytes_unmoved);
        self.shared.counters.files_skipped.add(skipped);
        self.shared.counters.bytes_skipped.add(bytes_skipped);
        self.shared.finish_if_done(&mut state);
        state.streams.wake_all();
        let wants_none = state.wanted.count() == 0;
        drop(state);
        if wants_none {
            self.shared.let_go();
        }
        self.shared.notify();
        for (record, fault) in failed {
            self.shared.report(record.root, &record.path, &fault);
        }
        self.shared.report_done(&done);
        for (record, action) in &actions {
            self.shared
                .config
                .observer
                .item(&entry::item(record, *action));
        }
        self.reuse_paths(settled);
        Ok(())
    }

    /// The entries of a manifest that need no contents, if the observer wants them.
    fn done_by_answer(&self, records: &[Record], verdicts: &[Verdict]) -> Vec<Record> {
        if !self.shared.config.observer.wants_entries() {
            return Vec::new();
        }
        records
            .iter()
            .zip(verdicts)
            .filter(|(record, verdict)| {
                record.flags & RecordFlags::PASSED_OVER == 0
                    && matches!(verdict, Verdict::Skip | Verdict::Done | Verdict::Adjusted)
            })
            .map(|(record, _)| record.clone())
            .collect()
    }

    fn is_dry(&self) -> bool {
        self.shared
            .config
            .comparison
            .is_some_and(|comparison| comparison.dry_run)
    }

    fn take_verdict(
        &self,
        state: &mut State,
        record: Record,
        verdict: Verdict,
        failed: &mut Vec<(Record, godwit_proto::Fault)>,
    ) {
        match verdict {
            Verdict::Send | Verdict::Partial { .. } if self.is_dry() => {
                self.shared.counters.files_done.add(1);
                self.shared
                    .counters
                    .bytes_durable
                    .add(entry::known_bytes(&record));
            }
            // Once the digest is known, the receiver has no reason to request it again.
            Verdict::Digest
                if record.digest.is_none() && self.shared.config.comparison.is_some() =>
            {
                state.wanted.want_digest(record);
            }
            Verdict::Send | Verdict::Digest => {
                state
                    .wanted
                    .want(record, Vec::new(), self.shared.config.block_bytes);
            }
            Verdict::Partial { held } => {
                state
                    .wanted
                    .want(record, held, self.shared.config.block_bytes)
            }
            // Links are made at the end, and counted when the receiver reports its delivered files.
            Verdict::Done
                if !matches!(record.kind, EntryKind::DIRECTORY | EntryKind::HARD_LINK) =>
            {
                self.shared.counters.files_done.add(1);
            }
            Verdict::Skip | Verdict::Done | Verdict::Adjusted => {}
            Verdict::Failed(mut fault) => {
                fault.entry = record.id;
                failed.push((record, fault));
            }
        }
    }
}
