//! Items in flight: their numbers, their bytes, and whether they wait, are sent, or are written. Does not decide which
//! data becomes an item.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use godwit_proto::Finished;

use super::{Desc, Image, Next, ToSend};

pub(crate) struct Outstanding {
    pub(crate) desc: Desc,
    /// Content bytes, for the statistics.
    pub(crate) content: u64,
    /// The item's bytes, until they are sent or, if they cannot be read again, until they are written.
    pub(crate) image: Option<Arc<Image>>,
    /// Whether the receiver has written the item.
    pub(super) written: bool,
    /// The stream that last sent the item; `None` while it waits to be sent.
    pub(crate) stream: Option<u64>,
    pub(crate) sent_before: bool,
    /// Whether the item was requested again, and must be read before it can be sent.
    pub(super) rereading: bool,
}

#[derive(Default)]
pub(crate) struct Items {
    pub(super) last_seq: u64,
    /// Manifests and resent items, which are sent before new blocks.
    pub(super) first: VecDeque<u64>,
    pub(super) ready: VecDeque<u64>,
    pub(crate) outstanding: HashMap<u64, Outstanding>,
    /// Records in items that are sent and not yet durable.
    pub(super) undurable: usize,
    /// Extensions and long names in the records of items, in bytes.
    pub(super) extension_bytes: usize,
    /// Items whose bytes are kept because they are not yet acknowledged as written.
    unwritten: usize,
    /// The receiver's final frame, if some of its earlier messages have not arrived yet.
    finished: Option<Finished>,
}

impl Items {
    pub(crate) fn reserve_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Stores an item under a number reserved before, and queues it. Returns whether it carries a block; `None` if the
    /// item is no longer needed.
    pub(super) fn insert(
        &mut self,
        seq: u64,
        desc: Desc,
        content: u64,
        image: Arc<Image>,
        again: bool,
    ) -> Option<bool> {
        if again && !self.outstanding.contains_key(&seq) {
            // The item became durable while it was being read again.
            return None;
        }
        let carries_block = matches!(desc, Desc::Slice { .. } | Desc::Bundle(_));
        let urgent = again || !carries_block;
        let records = desc.records();
        self.extension_bytes += desc.extension_bytes();
        let before = self.outstanding.insert(
            seq,
            Outstanding {
                desc,
                content,
                image: Some(image),
                written: false,
                stream: None,
                sent_before: again,
                rereading: false,
            },
        );
        // If an item was read again, it may hold fewer entries than before, and its old bytes may still be in memory.
        let (old_records, was_unwritten) = before.map_or((0, false), |item| {
            self.extension_bytes -= item.desc.extension_bytes();
            (item.desc.records(), !item.written)
        });
        self.undurable = (self.undurable + records).saturating_sub(old_records);
        self.unwritten += usize::from(!was_unwritten);
        if urgent {
            self.first.push_back(seq)
        } else {
            self.ready.push_back(seq)
        }
        Some(carries_block)
    }

    /// The item, if it must still be sent: it may have been acknowledged while it waited to be resent.
    pub(super) fn send_on(&mut self, seq: u64, stream: u64) -> Option<Next> {
        let item = self.outstanding.get_mut(&seq)?;
        let image = item.image.clone()?;
        item.stream = Some(stream);
        let again = std::mem::replace(&mut item.sent_before, true);
        Some(Next::Send(ToSend {
            seq,
            image,
            content: item.content,
            again,
        }))
    }

    /// The next item for a stream that carries all kinds of items.
    pub(super) fn next(&mut self, stream: u64) -> Option<Next> {
        while let Some(seq) = self.first.pop_front().or_else(|| self.ready.pop_front()) {
            if let Some(next) = self.send_on(seq, stream) {
                return Some(next);
            }
        }
        None
    }

    /// The next item for a stream that carries no blocks, except for blocks with at most `early_bytes` of content.
    pub(crate) fn next_without_blocks(&mut self, stream: u64, early_bytes: u64) -> Next {
        while let Some(at) = self
            .first
            .iter()
            .position(|seq| self.fits(*seq, early_bytes))
        {
            let seq = self.first.remove(at);
            if let Some(next) = seq.and_then(|seq| self.send_on(seq, stream)) {
                return next;
            }
        }
        while early_bytes > 0
            && let Some(at) = self
                .ready
                .iter()
                .position(|seq| self.fits(*seq, early_bytes))
        {
            let seq = self.ready.remove(at);
            if let Some(next) = seq.and_then(|seq| self.send_on(seq, stream)) {
                return next;
            }
        }
        Next::Nothing
    }

    /// Items that the other end has not yet acknowledged as written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// Filled blocks that wait for a stream.
    pub(crate) fn ready_blocks(&self) -> usize {
        self.ready.len()
    }

    /// Whether any item waits for a stream.
    pub(super) fn any_waits(&self) -> bool {
        !self.ready.is_empty() || !self.first.is_empty()
    }

    /// Whether an item sent on the stream is not yet known to be written or answered.
    pub(super) fn has_unwritten_on(&self, stream: u64) -> bool {
        let mut items = self.outstanding.values();
        items.any(|item| item.stream == Some(stream) && !item.written)
    }

    /// Ascending numbers of items that were sent on the stream and are not yet known to be written.
    pub(super) fn unwritten_on(&self, stream: u64) -> Vec<u64> {
        let items = self.outstanding.iter();
        let mut seqs: Vec<u64> = items
            .filter(|(_, item)| item.stream == Some(stream) && !item.written)
            .map(|(seq, _)| *seq)
            .collect();
        seqs.sort_unstable();
        seqs
    }

    /// Records that the item is in the receiver's storage: its bytes are released, its description stays.
    pub(crate) fn written(&mut self, seq: u64) -> u64 {
        let Some(item) = self.outstanding.get_mut(&seq) else {
            return 0;
        };
        item.image = None;
        if std::mem::replace(&mut item.written, true) {
            return 0;
        }
        self.unwritten -= 1;
        item.content
    }

    /// Records that the kernel has accepted the item's bytes. If they can be read again, they are released, so that the
    /// block is reused while it is still in the cache.
    pub(crate) fn sent(&mut self, seq: u64) {
        if let Some(item) = self.outstanding.get_mut(&seq)
            && matches!(item.desc, Desc::Slice { .. } | Desc::Bundle(_))
        {
            item.image = None;
        }
    }

    /// Removes an item that is finally settled.
    pub(crate) fn durable(&mut self, seq: u64) -> Option<Outstanding> {
        let item = self.outstanding.remove(&seq)?;
        self.unwritten -= usize::from(!item.written);
        self.undurable -= item.desc.records().min(self.undurable);
        self.extension_bytes -= item.desc.extension_bytes();
        Some(item)
    }

    /// Stores the receiver's final frame. Returns it once everything is known to be durable, because the frame may
    /// arrive before acknowledgements on other streams.
    pub(crate) fn take_finished(&mut self, finished: Option<Finished>) -> Option<Finished> {
        self.finished = finished.or_else(|| self.finished.take());
        let all = |desc: &Desc| matches!(desc, Desc::Finish);
        if self.outstanding.values().all(|item| all(&item.desc)) {
            self.finished.take()
        } else {
            None
        }
    }

    /// Takes back an item that the stream will not send; `again` is the value that the stream received with it. Returns
    /// whether the item waits for another stream.
    pub(super) fn give_back(&mut self, seq: u64, stream: u64, again: bool) -> bool {
        let Some(item) = self.outstanding.get_mut(&seq) else {
            return false;
        };
        // The item may have been requested again meanwhile, so that it is already queued, or it may have been written.
        if item.stream != Some(stream) || item.image.is_none() {
            return false;
        }
        item.stream = None;
        item.sent_before = again;
        if again {
            self.first.push_front(seq);
        } else {
            self.ready.push_front(seq);
        }
        true
    }

    /// Whether the item is not a block, is a block with at most `early_bytes` of content, or no longer exists.
    pub(super) fn fits(&self, seq: u64, early_bytes: u64) -> bool {
        let Some(item) = self.outstanding.get(&seq) else {
            return true;
        };
        match (&item.desc, &item.image) {
            (Desc::Manifest(_) | Desc::Finish, _) => true,
            (_, Some(image)) => {
                early_bytes > 0 && image.payload.as_slice().len() as u64 <= early_bytes
            }
            (_, None) => false,
        }
    }
}
