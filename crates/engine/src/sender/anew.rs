//! What is not sent as it was announced: entries that changed and begin anew, and bytes that never move.
//! Does not read contents (`read`) and does not tell of failures (`failures`).

use godwit_proto::{Fault, FaultCode, Record, Side};

use super::Sender;
use super::large::{LargeFile, SliceCut};
use crate::{entry, limits};

impl Sender {
    /// So much of what was announced is not going to move.
    pub(super) fn give_up(&self, bytes: u64) {
        self.counters.bytes_unmoved.add(bytes);
    }

    /// Nothing becomes of a slice that was taken.
    pub(super) fn drop_slice(&self, file: &LargeFile, cut: &SliceCut, seq: Option<u64>) {
        if seq.is_none() && !file.digest_only && !file.is_endless() {
            self.give_up(cut.content());
        }
        self.forget(seq);
    }

    /// The entry is no longer what was announced: it is sent afresh in its new generation, a few times at most.
    pub(super) fn offer_again(&self, old: Record) {
        let rest = entry::known_bytes(&old);
        self.offer_anew(old, rest);
    }

    /// The same, where all but `rest` was sent or passed over.
    pub(super) fn offer_anew(&self, old: Record, rest: u64) {
        self.give_up(rest);
        if let Some(record) = self.refreshed(&old) {
            self.counters.bytes_scanned.add(entry::known_bytes(&record));
            let mut state = self.lock_state();
            state.want(record, Vec::new(), self.config.block_bytes);
            state.wake_streams();
        }
    }

    /// The entry as it is now, for another attempt; `None` if it has failed.
    pub(super) fn refreshed(&self, old: &Record) -> Option<Record> {
        match self.source.refresh(old) {
            Ok(mut record) if old.attempt + 1 < limits::ATTEMPTS_MAX => {
                record.id = old.id;
                record.root = old.root;
                record.attempt = old.attempt + 1;
                record.digest = None;
                return Some(record);
            }
            Ok(_) => self.fail_entry(
                old,
                Fault {
                    entry: old.id,
                    side: Side::SOURCE,
                    code: FaultCode::CHANGED,
                    errno: None,
                    message: format!("it kept changing while it was read ({} tries); send it again when it is at rest", limits::ATTEMPTS_MAX),
                },
            ),
            Err(fault) => self.fail_entry(old, fault),
        }
        None
    }

    /// The file has failed at the receiver.
    pub(super) fn abandon(&self, file: &LargeFile) {
        if file.kill() {
            self.give_up(file.take_rest());
        }
    }
}
