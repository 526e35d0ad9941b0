//! Retries entries that changed while they were read, and counts bytes that are never sent. Does not read
//! contents and does not choose when an entry is retried; the state does.

use std::time::Instant;

use godwit_proto::{Fault, FaultCode, Record, RecordFlags, Side};

use super::piece::PieceReader;
use crate::entry;
use crate::sender::large::{LargeFile, SliceCut};
use crate::sender::state::Retry;

/// The fault of a part whose file no longer has the generation from which the parts were cut.
fn moved_on(record: &Record) -> Fault {
    Fault {
        entry: record.id,
        side: Side::SOURCE,
        code: FaultCode::CHANGED,
        errno: None,
        message: "the file has changed since it was divided into parts; divide it again".to_owned(),
    }
}

impl PieceReader {
    /// Drops a taken slice.
    pub(super) fn drop_slice(&self, file: &LargeFile, cut: &SliceCut, seq: Option<u64>) {
        if seq.is_none() && !file.digest_only && !file.is_endless() {
            self.shared.give_up(cut.content());
        }
        self.forget(seq);
    }

    /// Retries later, in its new generation, an entry that changed since it was announced.
    pub(super) fn offer_again(&self, old: Record) {
        let rest = entry::known_bytes(&old);
        self.offer_anew(old, rest);
    }

    /// Like [`offer_again`](Self::offer_again), if all except `rest` was sent or skipped.
    pub(super) fn offer_anew(&self, old: Record, rest: u64) {
        self.try_later(Retry {
            record: old,
            rest,
            announces: false,
        });
    }

    /// Announces later, in its new generation, a file to hash that changed since it was announced.
    pub(super) fn announce_again(&self, old: &Record) {
        self.try_later(Retry {
            rest: entry::known_bytes(old),
            record: old.clone(),
            announces: true,
        });
    }

    fn try_later(&self, retry: Retry) {
        if entry::is_portion(&retry.record) {
            // Parts of two generations must not be mixed, so the side that divided the file must divide it
            // again.
            self.shared.give_up(retry.rest);
            return self
                .shared
                .fail_entry(&retry.record, moved_on(&retry.record));
        }
        let spent = self.shared.lock_state().again.rest(retry, Instant::now());
        if let Err(spent) = spent {
            let record = &spent.retry.record;
            self.shared.give_up(spent.retry.rest);
            let message = format!(
                "the file changed while it was read; {} attempts over {} s failed; send the file again when no program writes to it",
                spent.tries,
                spent.over.as_secs()
            );
            let fault = Fault {
                entry: record.id,
                side: Side::SOURCE,
                code: FaultCode::CHANGED,
                errno: None,
                message,
            };
            self.shared.fail_entry(record, fault);
        }
    }

    /// Starts the next try of an entry after its pause.
    pub(super) fn try_again(&self, retry: Retry) {
        self.shared.give_up(retry.rest);
        let old = retry.record;
        let mut record = match self.shared.source.refresh(&old) {
            Ok(record) => record,
            Err(fault) => return self.shared.fail_entry(&old, fault),
        };
        record.id = old.id;
        record.root = old.root;
        record.attempt = old.attempt + 1;
        record.digest = None;
        self.shared
            .counters
            .bytes_scanned
            .add(entry::known_bytes(&record));
        if retry.announces {
            record.flags &= !RecordFlags::HAS_DIGEST;
            return self.shared.queue_manifest(vec![record]);
        }
        let mut state = self.shared.lock_state();
        state
            .wanted
            .want(record, Vec::new(), self.shared.config.block_bytes);
        state.streams.wake_all();
    }
}
