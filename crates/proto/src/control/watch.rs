//! Owns the messages that watch a transfer and end it, well or badly.
//! Counts nothing itself. `docs/wire.md`, "FINISH and FINISHED", "Control messages".

use prost::Message;

use super::{ErrorCode, Tuned, check_message, cut_message, decode, encode, tuned};
use crate::error::WireError;
use crate::ids::TransferId;
use crate::prelude::FrameKind;

/// Counters of one side since the transfer began, for the other side to show. Times are sums over all threads.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Content read from storage.
    #[prost(uint64, tag = "1")]
    pub bytes_read: u64,
    /// Content received.
    #[prost(uint64, tag = "2")]
    pub bytes_received: u64,
    /// Content written.
    #[prost(uint64, tag = "3")]
    pub bytes_written: u64,
    /// Content made durable.
    #[prost(uint64, tag = "4")]
    pub bytes_durable: u64,
    /// Files complete.
    #[prost(uint64, tag = "5")]
    pub files_done: u64,
    /// Files that were there already.
    #[prost(uint64, tag = "6")]
    pub files_skipped: u64,
    /// Their content.
    #[prost(uint64, tag = "7")]
    pub bytes_skipped: u64,
    /// Content that travelled more than once.
    #[prost(uint64, tag = "8")]
    pub bytes_resent: u64,
    /// Reading from storage.
    #[prost(uint64, tag = "9")]
    pub reading_ns: u64,
    /// Handing to the network.
    #[prost(uint64, tag = "10")]
    pub sending_ns: u64,
    /// Waiting for something to send.
    #[prost(uint64, tag = "11")]
    pub starved_ns: u64,
    /// Waiting for acknowledgements.
    #[prost(uint64, tag = "12")]
    pub unacknowledged_ns: u64,
    /// Waiting because of a rate limit.
    #[prost(uint64, tag = "13")]
    pub limited_ns: u64,
    /// Waiting for the network.
    #[prost(uint64, tag = "14")]
    pub waiting_ns: u64,
    /// Taking from the network.
    #[prost(uint64, tag = "15")]
    pub receiving_ns: u64,
    /// Writing to storage.
    #[prost(uint64, tag = "16")]
    pub writing_ns: u64,
    /// Waiting because too much is not durable yet.
    #[prost(uint64, tag = "17")]
    pub undurable_ns: u64,
    /// Making durable.
    #[prost(uint64, tag = "18")]
    pub syncing_ns: u64,
    /// Processor time of this transfer.
    #[prost(uint64, tag = "19")]
    pub cpu_ns: u64,
    /// Most memory that the process had resident, if known.
    #[prost(uint64, optional, tag = "20")]
    pub max_rss_bytes: Option<u64>,
    /// From the sender: it has nothing more to send until what it has sent is durable, so a batch need not fill up.
    #[prost(bool, tag = "21")]
    pub drained: bool,
    /// From the sender: the next two are final.
    #[prost(bool, tag = "22")]
    pub scan_done: bool,
    /// From the sender: entries found so far.
    #[prost(uint64, tag = "23")]
    pub entries_scanned: u64,
    /// From the sender: bytes of their contents.
    #[prost(uint64, tag = "24")]
    pub bytes_scanned: u64,
    /// From the sender: entries left out by the selection so far; a directory counts once, with all that is in it.
    #[prost(uint64, tag = "32")]
    pub entries_excluded: u64,
    /// Entries whose owner could not be kept at this end, or not be told; the next five likewise.
    #[prost(uint64, tag = "33")]
    pub owners_lost: u64,
    /// Entries whose group.
    #[prost(uint64, tag = "34")]
    pub groups_lost: u64,
    /// Entries whose set-id bits.
    #[prost(uint64, tag = "35")]
    pub set_ids_lost: u64,
    /// Entries with attributes of users that.
    #[prost(uint64, tag = "36")]
    pub xattrs_lost: u64,
    /// Entries with security or trusted attributes that.
    #[prost(uint64, tag = "37")]
    pub privileged_xattrs_lost: u64,
    /// Entries whose access lists.
    #[prost(uint64, tag = "38")]
    pub acls_lost: u64,
    /// From the sender: files that are another name of one in another root, and are sent as files of their own.
    #[prost(uint64, tag = "70")]
    pub links_split: u64,
    /// From the sender: all that is left has been sent, and this is the number of the last item; once all up to it are
    /// durable, and none of them had to be asked for again, the receiver may finish unasked. 0 says nothing.
    #[prost(uint64, tag = "39")]
    pub last_item: u64,
    /// From the sender, with `last_item`: as in a [`Finish`].
    #[prost(uint64, tag = "40")]
    pub entries_failed: u64,
    /// From the sender, with `last_item`: as in a [`Finish`].
    #[prost(uint64, tag = "41")]
    pub scan_faults: u64,
    /// From the sender: there are blocks that no stream there is may carry.
    #[prost(bool, tag = "42")]
    pub wants_stream: bool,
    /// Reading from storage, by all threads; `reading_ns` has digests in it and is that of streams.
    #[prost(uint64, tag = "43")]
    pub storage_reading_ns: u64,
    /// Writing to storage, by all threads; `writing_ns` has checking in it.
    #[prost(uint64, tag = "44")]
    pub storage_writing_ns: u64,
    /// Taking and checking digests.
    #[prost(uint64, tag = "45")]
    pub digesting_ns: u64,
    /// Time that threads wanted a processor and had none.
    #[prost(uint64, tag = "46")]
    pub cpu_waiting_ns: u64,
    /// Time that streams were attached, summed over them.
    #[prost(uint64, tag = "47")]
    pub streams_ns: u64,
    /// Of `sending_ns`: no room in the socket.
    #[prost(uint64, tag = "48")]
    pub blocked_sending_ns: u64,
    /// Of `receiving_ns`: the rest of a payload had not come.
    #[prost(uint64, tag = "49")]
    pub blocked_receiving_ns: u64,
    /// Work of threads that read or write for streams.
    #[prost(uint64, tag = "50")]
    pub helping_ns: u64,
    /// From the kernel, of the sockets that send contents, summed over them as all that follows: there was something to send.
    #[prost(uint64, tag = "51")]
    pub tcp_busy_ns: u64,
    /// Of `tcp_busy_ns`: limited by the window of the receiver.
    #[prost(uint64, tag = "52")]
    pub tcp_window_limited_ns: u64,
    /// Of `tcp_busy_ns`: limited by the send buffer.
    #[prost(uint64, tag = "53")]
    pub tcp_buffer_limited_ns: u64,
    /// Segments with data, those sent again included.
    #[prost(uint64, tag = "54")]
    pub tcp_segments_sent: u64,
    /// Segments sent again.
    #[prost(uint64, tag = "55")]
    pub tcp_segments_resent: u64,
    /// Their bytes, those sent again included.
    #[prost(uint64, tag = "56")]
    pub tcp_bytes_sent: u64,
    /// Bytes sent again.
    #[prost(uint64, tag = "57")]
    pub tcp_bytes_resent: u64,
    /// Bytes that the kernel of the other end has acknowledged.
    #[prost(uint64, tag = "58")]
    pub tcp_bytes_acknowledged: u64,
    /// Streams attached now that carry contents. This and all that follows are values of the moment, not sums since the beginning.
    #[prost(uint64, tag = "59")]
    pub streams: u64,
    /// Round trip time, the mean over streams; from the kernel, as the next six.
    #[prost(uint64, tag = "60")]
    pub round_trip_ns: u64,
    /// The least round trip time of late.
    #[prost(uint64, tag = "61")]
    pub round_trip_min_ns: u64,
    /// Delivery rates of all streams together.
    #[prost(uint64, tag = "62")]
    pub delivery_bytes_per_second: u64,
    /// Streams whose delivery rate was measured while there was not enough to send.
    #[prost(uint64, tag = "63")]
    pub streams_app_limited: u64,
    /// What the congestion control lets fly, of all streams together.
    #[prost(uint64, tag = "64")]
    pub tcp_window_bytes: u64,
    /// What flies.
    #[prost(uint64, tag = "65")]
    pub tcp_unacknowledged_bytes: u64,
    /// What waits in sockets.
    #[prost(uint64, tag = "66")]
    pub tcp_unsent_bytes: u64,
    /// Processors that the process may use.
    #[prost(uint64, tag = "67")]
    pub cores: u64,
    /// The rate limit that is obeyed; 0 is none.
    #[prost(uint64, tag = "68")]
    pub limit_bytes_per_second: u64,
    /// Time since this end began; a sum again.
    #[prost(uint64, tag = "69")]
    pub elapsed_ns: u64,
    /// From the sender: bytes that its pace in the background has allowed, of all channels together; 0 if it is not in the background.
    /// A sum, too.
    #[prost(uint64, tag = "71")]
    pub paced_bytes: u64,
    /// From the sender: of `bytes_scanned`, what is done with and was neither written nor skipped: ranges that the receiver had, holes,
    /// files of which the metadata alone was set, files that failed. A sum, too.
    #[prost(uint64, tag = "72")]
    pub bytes_unmoved: u64,
    /// What this end has decided on its threads: the latest decisions, in the order of their numbers.
    #[prost(message, repeated, tag = "73")]
    pub tuned: Vec<Tuned>,
    /// From the sender: the priority that it obeys, see [`super::priority`]; 0 if it is too old to say.
    #[prost(uint32, tag = "74")]
    pub priority: u32,
    /// Entries whose time the file system at this end does not keep.
    #[prost(uint64, tag = "75")]
    pub times_lost: u64,
    /// Entries whose mode it does not keep.
    #[prost(uint64, tag = "76")]
    pub modes_lost: u64,
}

/// The sender has nothing left: every item before this one is durable or has failed.
#[derive(Clone, PartialEq, Message)]
pub struct Finish {
    /// A [`TransferId`].
    #[prost(bytes = "vec", tag = "1")]
    pub transfer: Vec<u8>,
    /// Number of this item.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// Entries announced.
    #[prost(uint64, tag = "3")]
    pub entries: u64,
    /// Content announced, in bytes.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Entries that failed at the sender.
    #[prost(uint64, tag = "5")]
    pub failed: u64,
    /// The sender's counters.
    #[prost(message, optional, tag = "6")]
    pub counters: Option<Status>,
    /// Places of the source that could not be listed or looked at: what is below them was not announced.
    #[prost(uint64, tag = "7")]
    pub scan_faults: u64,
}

/// The receiver is done: all that can be there is there.
#[derive(Clone, PartialEq, Message)]
pub struct Finished {
    /// A [`TransferId`].
    #[prost(bytes = "vec", tag = "1")]
    pub transfer: Vec<u8>,
    /// The FINISH that this answers.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// Files complete.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Their content, in bytes, holes excluded.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Entries that were there already.
    #[prost(uint64, tag = "5")]
    pub skipped: u64,
    /// Entries that failed on either side.
    #[prost(uint64, tag = "6")]
    pub failed: u64,
    /// Processor time of this transfer, if known.
    #[prost(double, optional, tag = "7")]
    pub cpu_seconds: Option<f64>,
    /// Most memory that the process had resident, if known.
    #[prost(uint64, optional, tag = "8")]
    pub max_rss_bytes: Option<u64>,
    /// Whether all of it survives a power cut.
    #[prost(bool, tag = "9")]
    pub synced: bool,
    /// The receiver's counters.
    #[prost(message, optional, tag = "10")]
    pub counters: Option<Status>,
    /// Entries of the destination that were deleted, or would be in a dry run.
    #[prost(uint64, tag = "11")]
    pub deleted: u64,
    /// Entries of which only the metadata was set, or would be in a dry run.
    #[prost(uint64, tag = "12")]
    pub adjusted: u64,
}

/// The transfer, or this connection before there is one, cannot go on.
#[derive(Clone, PartialEq, Message)]
pub struct Error {
    /// See [`ErrorCode`].
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// What happened, for people. From a peer it may hold any character.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Whether the same may work later.
    #[prost(bool, tag = "3")]
    pub retryable: bool,
}

/// Asks for a sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Ping {
    /// Comes back in the answer.
    #[prost(uint64, tag = "1")]
    pub nonce: u64,
}

/// Answers a [`Ping`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Pong {
    /// That of the question.
    #[prost(uint64, tag = "1")]
    pub nonce: u64,
}

/// One side gives the transfer up; what is durable stays for a later run.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Cancel {
    /// Why, for people.
    #[prost(string, tag = "1")]
    pub reason: String,
}

macro_rules! frames {
    ($($name:ident = $kind:ident, $bounded:expr, $check:expr;)*) => {
        $(impl $name {
            /// Appends the frame's head image to `out`. Text that is too long is cut.
            pub fn encode(&self, out: &mut Vec<u8>) {
                encode(&$bounded(self), FrameKind::$kind, out);
            }

            /// Reads a frame's head.
            ///
            /// # Errors
            /// What is wrong with it.
            pub fn decode(head: &[u8]) -> Result<Self, WireError> {
                let message: Self = decode(head, stringify!($kind))?;
                $check(&message)?;
                Ok(message)
            }
        })*
    };
}

frames! {
    Status = STATUS, Self::bounded, Self::check;
    Ping = PING, Self::clone, |_| Ok::<(), WireError>(());
    Pong = PONG, Self::clone, |_| Ok::<(), WireError>(());
    Finish = FINISH,
        |own: &Self| Self { counters: bounded(own.counters.as_ref()), ..own.clone() },
        |own: &Self| own.transfer_id().and_then(|_| check(own.counters.as_ref()));
    Finished = FINISHED,
        |own: &Self| Self { counters: bounded(own.counters.as_ref()), ..own.clone() },
        |own: &Self| own.transfer_id().and_then(|_| check(own.counters.as_ref()));
    Error = ERROR, |own: &Self| Self { message: cut_message(&own.message), ..*own }, |own: &Self| check_message(&own.message);
    Cancel = CANCEL, |own: &Self| Self { reason: cut_message(&own.reason) }, |own: &Self| check_message(&own.reason);
}

impl Status {
    fn bounded(&self) -> Self {
        Self {
            tuned: tuned::bounded(&self.tuned),
            ..self.clone()
        }
    }

    fn check(&self) -> Result<(), WireError> {
        tuned::check(&self.tuned)
    }
}

fn bounded(counters: Option<&Status>) -> Option<Status> {
    counters.map(Status::bounded)
}

fn check(counters: Option<&Status>) -> Result<(), WireError> {
    counters.map_or(Ok(()), Status::check)
}

impl Finish {
    /// The transfer.
    ///
    /// # Errors
    /// Not 16 bytes; cannot be after decoding.
    pub fn transfer_id(&self) -> Result<TransferId, WireError> {
        TransferId::try_from(self.transfer.as_slice())
    }
}

impl Finished {
    /// The transfer.
    ///
    /// # Errors
    /// Not 16 bytes; cannot be after decoding.
    pub fn transfer_id(&self) -> Result<TransferId, WireError> {
        TransferId::try_from(self.transfer.as_slice())
    }
}

impl Error {
    /// An error to send.
    pub fn new(code: ErrorCode, message: impl Into<String>, retryable: bool) -> Self {
        Self {
            code: code.0,
            message: message.into(),
            retryable,
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        ErrorCode(self.code)
    }
}
