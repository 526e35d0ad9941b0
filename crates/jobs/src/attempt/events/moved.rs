//! Owns the amounts of an attempt, taken from the progress and the summary of its transfer.
//! Reports nothing.

use godwit_api::event::{Progress, Summary};
use godwit_api::rest::Amount;
use godwit_state::Moved;

use super::Observed;

impl Observed {
    /// Takes the progress of the attempt. A verification moves exactly the data that it reads.
    pub(super) fn progressed(&mut self, progress: &Progress) {
        self.written = match self.is_check {
            true => progress.bytes,
            false => progress.written,
        };
        self.moved = match self.is_check {
            true => Moved {
                bytes: progress.bytes,
                files: progress.files,
                bytes_again: 0,
            },
            false => progress.moved,
        };
    }

    /// From now on the transfer reports sums over all attempts.
    pub(crate) fn sums_up(&mut self) {
        self.is_sum = true;
    }

    /// Takes the sum over all attempts.
    pub(super) fn seen(&mut self, sum: Moved) {
        self.moved = sum.minus(self.earlier);
    }

    /// Amount that earlier attempts moved: the larger of the state's amount and the amount found at the destination. An attempt that a
    /// crash ended did not report its last files.
    fn delivered_earlier(&mut self, found: Amount) -> Moved {
        let known = self.earlier;
        self.earlier = Moved {
            bytes: known.bytes.max(found.bytes),
            files: known.files.max(found.files),
            ..known
        };
        self.unreported = self.earlier.minus(known);
        self.earlier
    }

    /// Takes the summary of a transfer, and makes it the summary of all attempts.
    pub(super) fn ended(&mut self, summary: &Summary) {
        let mut whole = summary.clone();
        match &mut whole {
            Summary::Transfer(whole) => {
                self.delivered = whole.bytes;
                let moved = Moved {
                    bytes: whole.bytes.unwrap_or(self.moved.bytes),
                    files: whole.files,
                    bytes_again: whole.resent_bytes,
                };
                self.moved = match self.is_sum {
                    _ if whole.dry_run => Moved::default(),
                    true => moved.minus(self.earlier),
                    false => moved,
                };
                if !self.is_sum && !whole.dry_run {
                    let earlier = self.delivered_earlier(whole.delivered);
                    whole.delivered = Amount::default();
                    whole.bytes = whole.bytes.map(|bytes| bytes.saturating_add(earlier.bytes));
                    whole.files = whole.files.saturating_add(earlier.files);
                    whole.resent_bytes = whole.resent_bytes.saturating_add(earlier.bytes_again);
                    // This attempt skipped the files that earlier attempts delivered.
                    whole.skipped = whole.skipped.saturating_sub(earlier.files);
                }
            }
            Summary::Verify(whole) => {
                self.moved = Moved {
                    bytes: whole.bytes,
                    files: whole.files,
                    bytes_again: 0,
                };
            }
        }
        self.summary = serde_json::to_string(&whole).ok();
    }
}
