//! Tells the observer of entries that are complete at the destination.
//! Decides nothing about them; answers and acknowledgements do.

use godwit_proto::{Record, RecordFlags, Verdict};

use super::Sender;

impl Sender {
    /// The entries of a manifest that need no contents, where somebody wants to hear of them.
    pub(super) fn done_by_answer(&self, records: &[Record], verdicts: &[Verdict]) -> Vec<Record> {
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

    /// Not to be called under the state's lock: whoever is told may take his time.
    pub(super) fn tell_done(&self, records: &[Record]) {
        for record in records {
            self.shared.config.observer.entry_done(record);
        }
    }
}
