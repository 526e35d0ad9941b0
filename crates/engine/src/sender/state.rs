//! A sender's state between two events: items in flight, waiting work, and the room in the windows. Reads and sends
//! nothing; every method is a step under the sender's one lock.

mod again;
mod attached;
mod desc;
mod early;
mod ending;
mod files;
mod items;
mod notices;
mod retiring;
mod wanted;

use std::sync::Arc;

use godwit_proto::{HeldRange, Record, RecordFlags};

use self::again::Again;
pub(crate) use self::again::Retry;
use self::attached::Attached;
pub(crate) use self::desc::Desc;
use self::files::OpenFiles;
use self::items::Items;
pub(crate) use self::items::Outstanding;
use self::notices::Notices;
use self::wanted::Wanted;
use super::large::{LargeFile, SliceCut};
use super::shuffle::Shuffle;
use crate::failed::Failed;
use crate::source::Payload;
use crate::{End, entry, limits};

/// The bytes of an item, kept until it is written.
pub(crate) struct Image {
    pub(crate) head: Head,
    pub(crate) payload: Payload,
}

/// A frame's head.
pub(crate) enum Head {
    /// The head's bytes, as sent.
    Image(Vec<u8>),
    /// The head of a manifest of these records. The stream that sends it encodes it: the scan is slower if little
    /// must be sent, and records need less memory than the encoded bytes.
    Manifest(Arc<Vec<Record>>),
}

/// A piece of data to read.
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
    /// Small files whose digests the receiver wants.
    Digests(Vec<Record>),
    /// A large file whose digest the receiver wants.
    OpenDigest(Record),
    /// An entry that changed, to be examined again.
    Retry(Retry),
}

/// Work for a thread that asks for it.
pub(crate) enum Next {
    Send(ToSend),
    Read(Piece),
    Nothing,
}

/// An item for a stream to send.
pub(crate) struct ToSend {
    pub(crate) seq: u64,
    pub(crate) image: Arc<Image>,
    /// Content bytes, for the statistics.
    pub(crate) content: u64,
    /// Whether the item was sent before.
    pub(crate) again: bool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) items: Items,
    pub(crate) again: Again,
    /// Records that report entries failed at the source, for the next bundle.
    pub(crate) notices: Notices,
    pub(crate) wanted: Wanted,
    pub(crate) files: OpenFiles,
    pub(crate) unanswered: usize,
    /// Pieces that were taken and are not yet items.
    pub(crate) reading: usize,
    pub(crate) scan_done: bool,
    finish_queued: bool,
    /// Number of the last item at the latest message that no more items come until all are durable.
    drained_said: u64,
    /// Number of the last item in the announcement of the end.
    ending_said: u64,
    pub(crate) end: Option<End>,
    pub(crate) streams: Attached,
    shuffle: Shuffle,
    pub(crate) failed: Failed,
    /// Entries that the receiver counted as failed, counted here without their names.
    pub(crate) unnamed: u64,
    /// Number of the receiver's latest notice that was reported.
    pub(crate) noticed: u64,
}

impl State {
    /// `apart`: each large file is read by one reader.
    pub(crate) fn new(apart: bool, shuffle: Shuffle) -> Self {
        Self {
            shuffle,
            files: OpenFiles::new(apart),
            ..Self::default()
        }
    }

    /// Queues again, in front, the items that were sent on the stream and are not acknowledged as written.
    pub(crate) fn detach(&mut self, stream: u64) {
        self.streams.detach(stream);
        self.files.let_go(stream);
        for seq in self.items.unwritten_on(stream) {
            self.resend(seq);
        }
        self.streams.wake_all();
    }

    /// Adds a new item that is ready to be sent, and queues it.
    pub(crate) fn add(
        &mut self,
        desc: Desc,
        content: u64,
        image: impl FnOnce(u64) -> Image,
    ) -> u64 {
        let seq = self.items.reserve_seq();
        let image = Arc::new(image(seq));
        self.insert(seq, desc, content, image, false);
        seq
    }

    /// Stores an item under a number reserved before, and queues it.
    pub(crate) fn insert(
        &mut self,
        seq: u64,
        desc: Desc,
        content: u64,
        image: Arc<Image>,
        again: bool,
    ) {
        let Some(carries_block) = self.items.insert(seq, desc, content, image, again) else {
            return;
        };
        self.streams.wake_one();
        if !carries_block || !self.streams.has_carrier() {
            self.streams.wake_without_blocks();
        }
    }

    /// The next step of the stream `stream`; `read` is true if the stream may read data itself.
    pub(crate) fn next(&mut self, stream: u64, read: bool, block_bytes: u32) -> Next {
        if let Some(next) = self.items.next(stream) {
            return next;
        }
        if read && let Some(piece) = self.next_piece(stream, block_bytes) {
            return Next::Read(piece);
        }
        Next::Nothing
    }

    /// The next piece for `reader`: the number of a stream, or of a thread that reads ahead.
    pub(crate) fn next_piece(&mut self, reader: u64, block_bytes: u32) -> Option<Piece> {
        if self.end.is_some() {
            return None;
        }
        if let Some(piece) = self.again.pop() {
            self.reading += 1;
            return Some(piece);
        }
        if self.items.outstanding.len() >= limits::OUTSTANDING_ITEMS_MAX {
            return None;
        }
        let digests = self.wanted.next_digests(&mut self.files, block_bytes);
        let large = |state: &mut Self| {
            let streams = state.streams.count();
            let (wanted, shuffle) = (&mut state.wanted, &mut state.shuffle);
            state.files.next_large(reader, streams, wanted, shuffle)
        };
        let piece = digests.or_else(|| match self.shuffle.pick(2) {
            0 => large(self).or_else(|| self.next_bundle(block_bytes)),
            _ => self.next_bundle(block_bytes).or_else(|| large(self)),
        });
        self.reading += usize::from(piece.is_some());
        piece
    }

    /// Small files are bundled when a block is full, or when no more are expected soon.
    fn next_bundle(&mut self, block_bytes: u32) -> Option<Piece> {
        if !self.wanted.has_small() && self.notices.is_empty() {
            return None;
        }
        let full = self.wanted.fills_bundle(block_bytes)
            || self.notices.len() >= limits::BUNDLE_RECORDS_MAX / 2;
        let more_to_come = self.unanswered > 0 || !self.scan_done;
        let others_under_way = self.items.unwritten() > 0 || self.reading > 0;
        let window_full = self.items.undurable >= limits::UNDURABLE_RECORDS_MAX
            || self.items.extension_bytes >= limits::EXTENSIONS_HELD_BYTES_MAX;
        if window_full || (!full && more_to_come && others_under_way) {
            return None;
        }
        let mut records = self.notices.take();
        self.wanted
            .fill_bundle(&mut records, block_bytes, &mut self.shuffle);
        (!records.is_empty()).then_some(Piece::Bundle { records, seq: None })
    }

    /// Bytes of attributes, access lists and long names held here.
    pub(crate) fn extensions_held(&self) -> usize {
        self.items.extension_bytes + self.wanted.extension_bytes + self.notices.extra_bytes()
    }

    /// Counts the files that are complete now that the item is durable, and adds their records to `done` if the
    /// observer wants them.
    pub(crate) fn take_done(&mut self, desc: &Desc, done: Option<&mut Vec<Record>>) -> u64 {
        match desc {
            Desc::Slice { file, .. } => {
                let whole = file.slice_durable();
                if let Some(record) = &whole {
                    self.again.forget(record);
                }
                let files = whole.iter().filter(|record| entry::part(record).is_none());
                let files = files.count() as u64;
                if let Some(done) = done {
                    done.extend(whole);
                }
                files
            }
            Desc::Bundle(records) => {
                for record in records.iter() {
                    self.again.forget(record);
                }
                let delivered = records
                    .iter()
                    .filter(|record| record.flags & RecordFlags::SOURCE_FAILED == 0)
                    .filter(|record| !self.failed.contains(record.id));
                // A part is not a complete file.
                let is_file = |record: &&Record| entry::part(record).is_none();
                match done {
                    Some(done) => {
                        let before = done.len();
                        done.extend(delivered.cloned());
                        done[before..].iter().filter(is_file).count() as u64
                    }
                    None => delivered.filter(is_file).count() as u64,
                }
            }
            Desc::Manifest(_) | Desc::Finish => 0,
        }
    }

    /// Resends an item that the receiver requests again: from memory if it is still there, otherwise it is read
    /// again under the same number.
    pub(crate) fn resend(&mut self, seq: u64) {
        // Reading the item again may have another result.
        self.ending_said = 0;
        let Some(item) = self.items.outstanding.get_mut(&seq) else {
            return;
        };
        if item.image.is_some() {
            if item.stream.take().is_some() {
                self.items.first.push_back(seq);
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
            self.again.push(piece);
        }
        self.streams.wake_all();
    }

    pub(crate) fn finish(&mut self, end: End) {
        let end = self.end.get_or_insert(end);
        self.streams.end(end);
    }
}
