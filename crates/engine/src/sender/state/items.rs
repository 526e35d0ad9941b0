//! Items on their way: their numbers, their bytes, whether they wait to be sent, are sent, or are written.
//! Does not choose what becomes an item.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Desc, Image, Next, ToSend};

pub(crate) struct Outstanding {
    pub(crate) desc: Desc,
    /// Content bytes, for the accounts.
    pub(crate) content: u64,
    /// Its bytes, until they are sent or, where they cannot be had again, until they are written.
    pub(crate) image: Option<Arc<Image>>,
    /// The receiver has it in its storage.
    pub(super) written: bool,
    /// The stream that it was last sent on; `None` while it waits to be sent.
    pub(crate) stream: Option<u64>,
    pub(crate) sent_before: bool,
    /// When a stream took it last.
    taken: Option<Instant>,
    /// A second stream was given it, because the first one was late.
    doubled: bool,
    /// Asked for again, and to be read before it can be sent.
    pub(super) rereading: bool,
}

#[derive(Default)]
pub(crate) struct Items {
    pub(super) last_seq: u64,
    /// Manifests, and whatever must go out again, before new blocks.
    pub(super) first: VecDeque<u64>,
    pub(super) ready: VecDeque<u64>,
    pub(crate) outstanding: HashMap<u64, Outstanding>,
    /// Records in items that are sent and not yet durable.
    pub(super) undurable: usize,
    /// Extensions in the records of items, in bytes.
    pub(super) extension_bytes: usize,
    /// Items whose bytes are kept because they are not yet acknowledged as written.
    unwritten: usize,
    /// How long the last item of each stream was on its way.
    took: HashMap<u64, Duration>,
}

/// A block of another stream is late once it is on its way for so many times as long as the last one of a stream that has nothing to do:
/// where all streams are equally slow, none is.
const LATE_TIMES: u32 = 4;

impl Items {
    pub(crate) fn reserve_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Files an item under a number reserved before, and queues it. Tells whether it carries a block; `None` if nobody needs
    /// it any more.
    pub(super) fn insert(
        &mut self,
        seq: u64,
        desc: Desc,
        content: u64,
        image: Arc<Image>,
        again: bool,
    ) -> Option<bool> {
        if again && !self.outstanding.contains_key(&seq) {
            // It became durable while it was being read again.
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
                taken: None,
                doubled: false,
                rereading: false,
            },
        );
        if let (Some(item), Some(before)) = (self.outstanding.get_mut(&seq), &before) {
            item.doubled = before.doubled;
        }
        // What is read again may hold fewer entries than it did, and may be in memory still.
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

    /// The item, if it is still to be sent: it can have been acknowledged while it waited to be sent once more.
    pub(super) fn send_on(&mut self, seq: u64, stream: u64) -> Option<Next> {
        let item = self.outstanding.get_mut(&seq)?;
        let image = item.image.clone()?;
        item.stream = Some(stream);
        item.taken = Some(Instant::now());
        let again = std::mem::replace(&mut item.sent_before, true);
        Some(Next::Send(ToSend {
            seq,
            image,
            content: item.content,
            again,
        }))
    }

    /// The next item for a stream that carries any.
    pub(super) fn next(&mut self, stream: u64) -> Option<Next> {
        while let Some(seq) = self.first.pop_front().or_else(|| self.ready.pop_front()) {
            if let Some(next) = self.send_on(seq, stream) {
                return Some(next);
            }
        }
        None
    }

    /// Items that the other end has not yet acknowledged as written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// Blocks that are filled and wait for a stream.
    pub(crate) fn ready_blocks(&self) -> usize {
        self.ready.len()
    }

    /// Whether any item waits for a stream.
    pub(super) fn any_waits(&self) -> bool {
        !self.ready.is_empty() || !self.first.is_empty()
    }

    /// Whether anything that was sent on the stream is not known to be written, or answered.
    pub(super) fn has_unwritten_on(&self, stream: u64) -> bool {
        let mut items = self.outstanding.values();
        items.any(|item| item.stream == Some(stream) && !item.written)
    }

    /// Chooses an item that the stream, which has nothing else to do, sends too: see [`Self::latest_of_others`]. None where what the
    /// stream was given is on its way, or no other stream is late, and none within `patience`.
    pub(crate) fn double_late(&mut self, stream: u64, patience: Duration) -> Option<u64> {
        if self.has_unwritten_on(stream) {
            return None;
        }
        let own = self.took.get(&stream).copied().unwrap_or_default();
        let late = Instant::now().checked_sub(patience.max(own.saturating_mul(LATE_TIMES)))?;
        let seq = self.latest_of_others(stream, late)?;
        self.outstanding.get_mut(&seq)?.doubled = true;
        Some(seq)
    }

    /// The item that the other streams will deliver last, as far as this end can know: the newest block of whoever holds the most that
    /// is not known to be written. None that was taken since `late`, and each once.
    fn latest_of_others(&self, stream: u64, late: Instant) -> Option<u64> {
        let mut held: HashMap<u64, (usize, u64)> = HashMap::new();
        for (seq, item) in &self.outstanding {
            let is_block = matches!(item.desc, Desc::Slice { .. } | Desc::Bundle(_));
            let Some(holder) = item.stream.filter(|_| is_block && !item.written) else {
                continue;
            };
            let (count, newest) = held.entry(holder).or_default();
            *count += 1;
            if !item.doubled && !item.rereading && item.taken.is_some_and(|taken| taken <= late) {
                *newest = (*newest).max(*seq);
            }
        }
        let others = held
            .into_iter()
            .filter(|(holder, (_, newest))| *holder != stream && *newest > 0);
        others.map(|(_, most)| most).max().map(|(_, newest)| newest)
    }

    /// The numbers of items that were sent on the stream and are not known to be written, in ascending order.
    pub(super) fn unwritten_on(&self, stream: u64) -> Vec<u64> {
        let items = self.outstanding.iter();
        let mut seqs: Vec<u64> = items
            .filter(|(_, item)| item.stream == Some(stream) && !item.written)
            .map(|(seq, _)| *seq)
            .collect();
        seqs.sort_unstable();
        seqs
    }

    /// The item is in the receiver's storage: its bytes are let go, its description stays.
    pub(crate) fn written(&mut self, seq: u64) -> u64 {
        let Some(item) = self.outstanding.get_mut(&seq) else {
            return 0;
        };
        item.image = None;
        if std::mem::replace(&mut item.written, true) {
            return 0;
        }
        self.unwritten -= 1;
        let content = item.content;
        if let (Some(stream), Some(taken)) = (item.stream, item.taken) {
            self.took.insert(stream, taken.elapsed());
        }
        content
    }

    /// The item is with the kernel: what can be read again is not kept, so that its block is used anew while it is still
    /// in the cache.
    pub(crate) fn sent(&mut self, seq: u64) {
        if let Some(item) = self.outstanding.get_mut(&seq)
            && matches!(item.desc, Desc::Slice { .. } | Desc::Bundle(_))
        {
            item.image = None;
        }
    }

    /// The item is done with for good.
    pub(crate) fn durable(&mut self, seq: u64) -> Option<Outstanding> {
        let item = self.outstanding.remove(&seq)?;
        self.unwritten -= usize::from(!item.written);
        self.undurable -= item.desc.records().min(self.undurable);
        self.extension_bytes -= item.desc.extension_bytes();
        Some(item)
    }

    /// Takes back an item that the stream has not sent and does not send; `again` is as the stream was told. Tells whether the
    /// item waits to be sent by another.
    pub(super) fn give_back(&mut self, seq: u64, stream: u64, again: bool) -> bool {
        let Some(item) = self.outstanding.get_mut(&seq) else {
            return false;
        };
        // It may have been asked for once more meanwhile, so that it waits already, or have been written.
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

    /// An item that is no block, or one with no more content than that; or nothing any more.
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
