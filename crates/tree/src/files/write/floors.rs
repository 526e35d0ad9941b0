//! Remembers entries that failed or were restarted, so that late bytes for them are not written. Does not decide about the entries; the
//! sink does.

use std::collections::{HashMap, VecDeque};

use godwit_engine::limits;
use godwit_proto::{EntryId, Record};

/// The lowest attempt whose bytes are still written, for each entry that failed or was restarted. Bytes of older attempts may arrive
/// late, on
/// a slower stream, and must not create a temporary file again. Only the latest floors are kept, because the sender's bytes in flight bound
/// the late bytes.
#[derive(Default)]
pub(crate) struct Floors {
    lowest: HashMap<EntryId, u16>,
    order: VecDeque<EntryId>,
}

/// No more data of the entry is accepted.
pub(crate) const FLOOR_FAILED: u16 = u16::MAX;

impl Floors {
    pub(crate) fn raise(&mut self, id: EntryId, attempt: u16) {
        let lowest = self.lowest.entry(id).or_insert_with(|| {
            self.order.push_back(id);
            0
        });
        *lowest = attempt.max(*lowest);
        if self.order.len() > limits::OUTSTANDING_ITEMS_MAX * 2
            && let Some(oldest) = self.order.pop_front()
        {
            self.lowest.remove(&oldest);
        }
    }

    pub(crate) fn takes(&self, record: &Record) -> bool {
        self.lowest
            .get(&record.id)
            .is_none_or(|lowest| record.attempt >= *lowest)
    }
}
