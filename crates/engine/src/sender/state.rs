//! What a sender knows between two events: items on their way, work that waits, and what the windows allow.
//! Reads nothing and sends nothing; every method is a step under the sender's one lock.

mod desc;
mod digests;
mod early;
mod ending;
mod files;
mod parking;
mod resting;
mod retiring;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use godwit_net::Waker;
use godwit_proto::{Finished, HeldRange, Record, RecordFlags};

pub(crate) use self::desc::Desc;
use self::resting::Resting;
pub(crate) use self::resting::Retry;
use super::large::{LargeFile, SliceCut};
use crate::failed::Failed;
use crate::source::Payload;
use crate::{End, limits};

/// The bytes of an item, kept until it is written.
pub(crate) struct Image {
    pub(crate) head: Head,
    pub(crate) payload: Payload,
}

/// A frame's head.
pub(crate) enum Head {
    /// As it is sent.
    Image(Vec<u8>),
    /// That of a manifest of these records. The stream that sends it writes it: the scan is the longer side where little
    /// has to be sent, and records take less memory without their image.
    Manifest(Arc<Vec<Record>>),
}

pub(crate) struct Outstanding {
    pub(crate) desc: Desc,
    /// Content bytes, for the accounts.
    pub(crate) content: u64,
    /// Its bytes, until they are sent or, where they cannot be had again, until they are written.
    pub(crate) image: Option<Arc<Image>>,
    /// The receiver has it in its storage.
    written: bool,
    /// The stream that it was last sent on; `None` while it waits to be sent.
    pub(crate) stream: Option<u64>,
    pub(crate) sent_before: bool,
    /// Asked for again, and to be read before it can be sent.
    rereading: bool,
}

/// Something to read.
pub(crate) enum Piece {
    Open {
        record: Record,
        held: Vec<HeldRange>,
    },
    Slice {
        file: Arc<LargeFile>,
        cut: SliceCut,
        seq: Option<u64>,
    },
    Bundle {
        records: Vec<Record>,
        seq: Option<u64>,
    },
    /// Small files of which the receiver wants to know the digests.
    Digests(Vec<Record>),
    /// A large one.
    OpenDigest(Record),
    /// An entry that changed, to be looked at once more.
    Retry(Retry),
}

/// What a thread that asks for work gets.
pub(crate) enum Next {
    Send(ToSend),
    Read(Piece),
    Nothing,
}

/// An item that a stream is to send.
pub(crate) struct ToSend {
    pub(crate) seq: u64,
    pub(crate) image: Arc<Image>,
    /// Content bytes, for the accounts.
    pub(crate) content: u64,
    /// It was sent before.
    pub(crate) again: bool,
}

#[derive(Default)]
pub(crate) struct State {
    next_seq: u64,
    next_stream: u64,
    /// Manifests, and whatever must go out again, before new blocks.
    first: VecDeque<u64>,
    ready: VecDeque<u64>,
    pub(crate) outstanding: HashMap<u64, Outstanding>,
    again: VecDeque<Piece>,
    resting: Resting,
    /// Records that say "this entry failed at the source", for the next bundle.
    pub(crate) notices: Vec<Record>,
    small: VecDeque<Record>,
    small_bytes: u64,
    large: VecDeque<(Record, Vec<HeldRange>)>,
    /// Files of which the receiver wants to know the digests.
    to_digest: VecDeque<Record>,
    pub(crate) active: Vec<Arc<LargeFile>>,
    /// Large files that are being opened.
    opening: usize,
    /// Each reader has one of its own, as far as there are any.
    apart: bool,
    pub(crate) unanswered: usize,
    /// Records in items that are sent and not yet durable.
    undurable: usize,
    /// Extensions in the records of items, and in those of what is wanted, in bytes.
    extensions_described: usize,
    extensions_wanted: usize,
    /// Items whose bytes are kept because they are not yet acknowledged as written.
    unwritten: usize,
    /// Pieces taken and not yet turned into items.
    pub(crate) reading: usize,
    pub(crate) scan_done: bool,
    finish_queued: bool,
    /// The receiver was told that nothing more comes before what it has is durable.
    drained_said: u64,
    /// Number of the last item with which the end was foretold.
    ending_said: u64,
    /// The receiver has finished, and what it said before has not all been heard.
    finished: Option<Finished>,
    pub(crate) end: Option<End>,
    pub(crate) streams: HashMap<u64, Waker>,
    /// Those of them that carry no blocks, or few.
    without_blocks: Vec<u64>,
    /// There are blocks that no stream there is may carry.
    pub(crate) wants_stream: bool,
    parked: Vec<u64>,
    /// Streams that are to leave: they get no more items.
    retiring: Vec<u64>,
    /// Parked streams that carry no blocks.
    parked_without_blocks: Vec<u64>,
    pub(crate) failed: Failed,
    /// Entries that the receiver has counted as failed, and that are counted here, without having heard which.
    pub(crate) unnamed: u64,
    /// Number of the last notice of the receiver that was told.
    pub(crate) noticed: u64,
}

impl State {
    /// `apart`: large files are read by one reader each.
    pub(crate) fn new(apart: bool) -> Self {
        Self {
            apart,
            ..Self::default()
        }
    }

    pub(crate) fn attach(&mut self, waker: Waker, carries_blocks: bool) -> u64 {
        self.next_stream += 1;
        self.streams.insert(self.next_stream, waker);
        if carries_blocks {
            self.wants_stream = false;
        } else {
            self.without_blocks.push(self.next_stream);
        }
        self.next_stream
    }

    /// Puts what the stream had sent and nobody has acknowledged as written back in front.
    pub(crate) fn detach(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.let_go_of_files(stream);
        self.without_blocks.retain(|id| *id != stream);
        self.retiring.retain(|id| *id != stream);
        self.unpark(stream);
        let mut lost: Vec<u64> = self
            .outstanding
            .iter()
            .filter(|(_, item)| item.stream == Some(stream) && !item.written)
            .map(|(seq, _)| *seq)
            .collect();
        lost.sort_unstable();
        for seq in lost {
            self.resend(seq);
        }
        self.wake_streams();
    }

    /// A new item, ready to be sent; `stream` if the caller sends it itself at once.
    pub(crate) fn add(
        &mut self,
        desc: Desc,
        content: u64,
        image: impl FnOnce(u64) -> Image,
    ) -> u64 {
        let seq = self.reserve_seq();
        let image = Arc::new(image(seq));
        self.insert(seq, desc, content, image, false);
        seq
    }

    pub(crate) fn reserve_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    /// Files an item under a number reserved before, and queues it.
    pub(crate) fn insert(
        &mut self,
        seq: u64,
        desc: Desc,
        content: u64,
        image: Arc<Image>,
        again: bool,
    ) {
        if again && !self.outstanding.contains_key(&seq) {
            // It became durable while it was being read again.
            return;
        }
        let carries_block = matches!(desc, Desc::Slice { .. } | Desc::Bundle(_));
        let urgent = again || !carries_block;
        let records = desc.records();
        self.extensions_described += desc.extension_bytes();
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
        // What is read again may hold fewer entries than it did, and may be in memory still.
        let (old_records, was_unwritten) = before.map_or((0, false), |item| {
            self.extensions_described -= item.desc.extension_bytes();
            (item.desc.records(), !item.written)
        });
        self.undurable = (self.undurable + records).saturating_sub(old_records);
        self.unwritten += usize::from(!was_unwritten);
        if urgent {
            self.first.push_back(seq)
        } else {
            self.ready.push_back(seq)
        }
        self.wake_stream();
        if !carries_block || !self.has_carrier() {
            self.wake_streams_without_blocks();
        }
    }

    /// The item, if it is still to be sent: it can have been acknowledged while it waited to be sent once more.
    fn send_on(&mut self, seq: u64, stream: u64) -> Option<Next> {
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

    /// What the stream `stream` should do next; `read` tells whether it may read for itself.
    pub(crate) fn next(&mut self, stream: u64, read: bool, block_bytes: u32) -> Next {
        while let Some(seq) = self.first.pop_front().or_else(|| self.ready.pop_front()) {
            if let Some(next) = self.send_on(seq, stream) {
                return next;
            }
        }
        if read && let Some(piece) = self.next_piece(stream, block_bytes) {
            return Next::Read(piece);
        }
        Next::Nothing
    }

    /// Items that the other end has not yet acknowledged as written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// Blocks that are filled and wait for a stream.
    pub(crate) fn ready_blocks(&self) -> usize {
        self.ready.len()
    }

    /// Something to read for `reader`: a stream's number, or another of a thread that reads ahead.
    pub(crate) fn next_piece(&mut self, reader: u64, block_bytes: u32) -> Option<Piece> {
        if self.end.is_some() {
            return None;
        }
        if let Some(piece) = self.again.pop_front() {
            self.reading += 1;
            return Some(piece);
        }
        if self.outstanding.len() >= limits::OUTSTANDING_ITEMS_MAX {
            return None;
        }
        if let Some(piece) = self
            .next_digests(block_bytes)
            .or_else(|| self.next_large(reader))
            .or_else(|| self.next_bundle(block_bytes))
        {
            self.reading += 1;
            return Some(piece);
        }
        None
    }

    /// Small files are bundled when a block is full, or when nothing more is to be expected soon.
    fn next_bundle(&mut self, block_bytes: u32) -> Option<Piece> {
        if self.small.is_empty() && self.notices.is_empty() {
            return None;
        }
        let full = self.small_bytes >= u64::from(block_bytes)
            || self.small.len() >= limits::BUNDLE_RECORDS_MAX
            || self.notices.len() >= limits::BUNDLE_RECORDS_MAX / 2;
        let more_to_come = self.unanswered > 0 || !self.scan_done;
        let others_under_way = self.unwritten > 0 || self.reading > 0;
        let window_full = self.undurable >= limits::UNDURABLE_RECORDS_MAX
            || self.extensions_described >= limits::EXTENSIONS_HELD_BYTES_MAX;
        if window_full || (!full && more_to_come && others_under_way) {
            return None;
        }
        let mut records = std::mem::take(&mut self.notices);
        let rest = records.split_off(records.len().min(limits::BUNDLE_RECORDS_MAX / 2));
        self.notices = rest;
        let mut bytes = 0;
        let mut section = 0;
        while let Some(record) = self.small.front() {
            let record_bytes = 128 + record.path.len() + record.extensions.len();
            if records.len() >= limits::BUNDLE_RECORDS_MAX
                || bytes + record.bytes > u64::from(block_bytes)
                || (section + record_bytes > limits::RECORD_SECTION_BYTES && !records.is_empty())
            {
                break;
            }
            bytes += record.bytes;
            section += record_bytes;
            self.small_bytes -= record.bytes;
            self.extensions_wanted -= record.extensions.len();
            records.extend(self.small.pop_front());
        }
        (!records.is_empty()).then_some(Piece::Bundle { records, seq: None })
    }

    pub(crate) fn want(&mut self, mut record: Record, held: Vec<HeldRange>, block_bytes: u32) {
        // The one that was announced is of the file as it was; what is sent brings its own.
        record.digest = None;
        record.flags &= !RecordFlags::HAS_DIGEST;
        // A bundle has no room for holes.
        self.extensions_wanted += record.extensions.len();
        let small = record.bytes <= limits::bundle_file_bytes_max(block_bytes);
        if small && held.is_empty() && record.flags & RecordFlags::SPARSE == 0 {
            self.small_bytes += record.bytes;
            // What was looked at again a moment ago is read before it can change again.
            match record.attempt {
                0 => self.small.push_back(record),
                _ => self.small.push_front(record),
            }
        } else {
            match record.attempt {
                0 => self.large.push_back((record, held)),
                _ => self.large.push_front((record, held)),
            }
        }
    }

    /// Memory that attributes and access lists take here, in bytes.
    pub(crate) fn extensions_held(&self) -> usize {
        self.extensions_described + self.extensions_wanted
    }

    pub(crate) fn wanted(&self) -> usize {
        self.small.len() + self.large.len() + self.to_digest.len()
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
        item.content
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
        self.extensions_described -= item.desc.extension_bytes();
        Some(item)
    }

    /// Counts the files that are complete now that the item is durable, and adds their records to `done` where somebody
    /// wants to hear of them.
    pub(crate) fn take_done(&mut self, desc: &Desc, done: Option<&mut Vec<Record>>) -> u64 {
        match desc {
            Desc::Slice { file, .. } => {
                let whole = file.slice_durable();
                if let Some(record) = &whole {
                    self.resting.forget(record);
                }
                let files = u64::from(whole.is_some());
                if let Some(done) = done {
                    done.extend(whole);
                }
                files
            }
            Desc::Bundle(records) => {
                for record in records.iter() {
                    self.resting.forget(record);
                }
                let delivered = records
                    .iter()
                    .filter(|record| record.flags & RecordFlags::SOURCE_FAILED == 0)
                    .filter(|record| !self.failed.contains(record.id));
                match done {
                    Some(done) => {
                        let before = done.len();
                        done.extend(delivered.cloned());
                        (done.len() - before) as u64
                    }
                    None => delivered.count() as u64,
                }
            }
            Desc::Manifest(_) | Desc::Finish => 0,
        }
    }

    /// The receiver asks for the item again: from memory if it is still there, else read anew under the same number.
    pub(crate) fn resend(&mut self, seq: u64) {
        // Reading it again may bring something else.
        self.ending_said = 0;
        let Some(item) = self.outstanding.get_mut(&seq) else {
            return;
        };
        if item.image.is_some() {
            if item.stream.take().is_some() {
                self.first.push_back(seq);
            }
        } else if !item.rereading {
            item.rereading = true;
            let piece = match &item.desc {
                Desc::Slice { file, cut } => Piece::Slice {
                    file: Arc::clone(file),
                    cut: cut.clone(),
                    seq: Some(seq),
                },
                Desc::Bundle(records) => Piece::Bundle {
                    records: records.to_vec(),
                    seq: Some(seq),
                },
                Desc::Manifest(_) | Desc::Finish => return,
            };
            self.again.push_back(piece);
        }
        self.wake_streams();
    }

    pub(crate) fn finish(&mut self, end: End) {
        let end = self.end.get_or_insert(end);
        self.parked.clear();
        for waker in self.streams.values() {
            end.tell(waker);
        }
    }
}
