//! Remembers which entries failed or were begun anew, so that late bytes of them are not taken.
//! Decides nothing about the entries; the sink does.

use std::collections::{HashMap, VecDeque};

use godwit_engine::limits;
use godwit_proto::{EntryId, Record};

/// For entries that failed or were begun anew, the lowest attempt of which bytes are still taken. Older ones may come late,
/// on a slower stream, and must not bring a temporary file back. Only the last of them are kept: late bytes are bounded by
/// what a sender may have on its way.
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
