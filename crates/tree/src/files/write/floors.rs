//! Remembers entries that failed or were started again, so that late bytes for them are not written.
//! Decides nothing about the entries; the sink does.

use std::collections::{HashMap, VecDeque};

use godwit_engine::limits;
use godwit_proto::{EntryId, Record};

/// For entries that failed or were started again, the lowest attempt whose bytes are still written. Bytes of older attempts may come late,
/// on a slower stream, and must not bring a temporary file back. Only the latest floors are kept: a sender's bytes in flight bound the late
/// bytes.
#[derive(Default)]
pub(crate) struct Floors {
    lowest: HashMap<EntryId, u16>,
    order: VecDeque<EntryId>,
}

/// Nothing more is taken of the entry.
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
