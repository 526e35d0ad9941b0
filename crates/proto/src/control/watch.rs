//! Owns the messages that report the progress of a transfer, and those that end it. Does not count. `docs/wire.md`,
//! "FINISH and FINISHED", "Control messages".

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
    /// Complete files.
    #[prost(uint64, tag = "5")]
    pub files_done: u64,
    /// Files that existed already.
    #[prost(uint64, tag = "6")]
    pub files_skipped: u64,
    /// Content of the skipped files.
    #[prost(uint64, tag = "7")]
    pub bytes_skipped: u64,
    /// Content sent more than once.
    #[prost(uint64, tag = "8")]
    pub bytes_resent: u64,
    /// Time reading from storage.
    #[prost(uint64, tag = "9")]
    pub reading_ns: u64,
    /// Time handing data to the network.
    #[prost(uint64, tag = "10")]
    pub sending_ns: u64,
    /// Time waiting for data to send.
    #[prost(uint64, tag = "11")]
    pub starved_ns: u64,
    /// Time waiting for acknowledgements.
    #[prost(uint64, tag = "12")]
    pub unacknowledged_ns: u64,
    /// Time waiting because of a rate limit.
    #[prost(uint64, tag = "13")]
    pub limited_ns: u64,
    /// Time waiting for the network.
    #[prost(uint64, tag = "14")]
    pub waiting_ns: u64,
    /// Time taking data from the network.
    #[prost(uint64, tag = "15")]
    pub receiving_ns: u64,
    /// Time writing to storage.
    #[prost(uint64, tag = "16")]
    pub writing_ns: u64,
    /// Time waiting because too much is not durable yet.
    #[prost(uint64, tag = "17")]
    pub undurable_ns: u64,
    /// Time making data durable.
    #[prost(uint64, tag = "18")]
    pub syncing_ns: u64,
    /// Processor time of this transfer.
    #[prost(uint64, tag = "19")]
    pub cpu_ns: u64,
    /// Peak resident memory of the process, if known.
    #[prost(uint64, optional, tag = "20")]
    pub max_rss_bytes: Option<u64>,
    /// From the sender: no more data follows until the sent items are durable, so a batch need not fill up.
    #[prost(bool, tag = "21")]
    pub drained: bool,
    /// From the sender: the next two fields are final.
    #[prost(bool, tag = "22")]
    pub scan_done: bool,
    /// From the sender: entries found so far.
    #[prost(uint64, tag = "23")]
    pub entries_scanned: u64,
    /// From the sender: bytes of contents found so far.
    #[prost(uint64, tag = "24")]
    pub bytes_scanned: u64,
    /// From the sender: entries excluded by the selection so far; a directory counts once, with all its content.
    #[prost(uint64, tag = "32")]
    pub entries_excluded: u64,
    /// Entries whose owner could not be kept or read at this end. The next five fields count in the same way.
    #[prost(uint64, tag = "33")]
    pub owners_lost: u64,
    /// Entries whose group could not be kept.
    #[prost(uint64, tag = "34")]
    pub groups_lost: u64,
    /// Entries whose set-id bits could not be kept.
    #[prost(uint64, tag = "35")]
    pub set_ids_lost: u64,
    /// Entries whose user attributes could not be kept.
    #[prost(uint64, tag = "36")]
    pub xattrs_lost: u64,
    /// Entries whose security or trusted attributes could not be kept.
    #[prost(uint64, tag = "37")]
    pub privileged_xattrs_lost: u64,
    /// Entries whose access lists could not be kept.
    #[prost(uint64, tag = "38")]
    pub acls_lost: u64,
    /// From the sender: files that are hard links to a file in another root, and are sent as separate files.
    #[prost(uint64, tag = "70")]
    pub links_split: u64,
    /// From the sender: everything is sent, and this is the number of the last item. Once all items up to it are
    /// durable without any resend request, the receiver may finish without FINISH. 0 means that nothing is announced.
    #[prost(uint64, tag = "39")]
    pub last_item: u64,
    /// From the sender, with `last_item`: as in a [`Finish`].
    #[prost(uint64, tag = "40")]
    pub entries_failed: u64,
    /// From the sender, with `last_item`: as in a [`Finish`].
    #[prost(uint64, tag = "41")]
    pub scan_faults: u64,
    /// From the sender: there are blocks that no current stream may carry.
    #[prost(bool, tag = "42")]
    pub wants_stream: bool,
    /// Time reading from storage, by all threads; `reading_ns` includes digests and counts streams only.
    #[prost(uint64, tag = "43")]
    pub storage_reading_ns: u64,
    /// Time writing to storage, by all threads; `writing_ns` includes checking.
    #[prost(uint64, tag = "44")]
    pub storage_writing_ns: u64,
    /// Time computing and checking digests.
    #[prost(uint64, tag = "45")]
    pub digesting_ns: u64,
    /// Time that threads were ready to run but had no processor.
    #[prost(uint64, tag = "46")]
    pub cpu_waiting_ns: u64,
    /// Time that streams were attached, summed over them.
    #[prost(uint64, tag = "47")]
    pub streams_ns: u64,
    /// Part of `sending_ns` without room in the socket.
    #[prost(uint64, tag = "48")]
    pub blocked_sending_ns: u64,
    /// Part of `receiving_ns` waiting for the rest of a payload.
    #[prost(uint64, tag = "49")]
    pub blocked_receiving_ns: u64,
    /// Working time of threads that read or write for streams.
    #[prost(uint64, tag = "50")]
    pub helping_ns: u64,
    /// From the kernel, summed over the sockets that send contents: time with data to send. The next seven fields have the same
    /// source.
    #[prost(uint64, tag = "51")]
    pub tcp_busy_ns: u64,
    /// Part of `tcp_busy_ns` limited by the receiver's window.
    #[prost(uint64, tag = "52")]
    pub tcp_window_limited_ns: u64,
    /// Part of `tcp_busy_ns` limited by the send buffer.
    #[prost(uint64, tag = "53")]
    pub tcp_buffer_limited_ns: u64,
    /// Segments with data, including retransmissions.
    #[prost(uint64, tag = "54")]
    pub tcp_segments_sent: u64,
    /// Retransmitted segments.
    #[prost(uint64, tag = "55")]
    pub tcp_segments_resent: u64,
    /// Bytes of the segments, including retransmissions.
    #[prost(uint64, tag = "56")]
    pub tcp_bytes_sent: u64,
    /// Retransmitted bytes.
    #[prost(uint64, tag = "57")]
    pub tcp_bytes_resent: u64,
    /// Bytes acknowledged by the other end's kernel.
    #[prost(uint64, tag = "58")]
    pub tcp_bytes_acknowledged: u64,
    /// Attached streams that carry contents. This and the following fields are momentary values, not sums since the
    /// start.
    #[prost(uint64, tag = "59")]
    pub streams: u64,
    /// Mean RTT of the streams; from the kernel, like the next six fields.
    #[prost(uint64, tag = "60")]
    pub round_trip_ns: u64,
    /// Minimum RTT of the recent past.
    #[prost(uint64, tag = "61")]
    pub round_trip_min_ns: u64,
    /// Sum of the delivery rates of all streams.
    #[prost(uint64, tag = "62")]
    pub delivery_bytes_per_second: u64,
    /// Streams whose delivery rate was measured while there was too little data to send.
    #[prost(uint64, tag = "63")]
    pub streams_app_limited: u64,
    /// Sum of the congestion windows of all streams, in bytes.
    #[prost(uint64, tag = "64")]
    pub tcp_window_bytes: u64,
    /// Bytes in flight.
    #[prost(uint64, tag = "65")]
    pub tcp_unacknowledged_bytes: u64,
    /// Unsent bytes in sockets.
    #[prost(uint64, tag = "66")]
    pub tcp_unsent_bytes: u64,
    /// Processors that the process may use.
    #[prost(uint64, tag = "67")]
    pub cores: u64,
    /// The rate limit in effect; 0 is none.
    #[prost(uint64, tag = "68")]
    pub limit_bytes_per_second: u64,
    /// Time since this end began; this is a sum again.
    #[prost(uint64, tag = "69")]
    pub elapsed_ns: u64,
    /// From the sender: bytes that its background pace has allowed, over all channels; 0 outside the background. This
    /// is a sum too.
    #[prost(uint64, tag = "71")]
    pub paced_bytes: u64,
    /// From the sender: part of `bytes_scanned` that is settled but neither written nor skipped. These are ranges that
    /// the receiver had, holes, files of which only the metadata was set, and failed files. This is a sum too.
    #[prost(uint64, tag = "72")]
    pub bytes_unmoved: u64,
    /// The latest tuning decisions of this end on its threads, in the order of their numbers.
    #[prost(message, repeated, tag = "73")]
    pub tuned: Vec<Tuned>,
    /// From the sender: the priority in effect, see [`super::priority`]; 0 if the sender is too old to report it.
    #[prost(uint32, tag = "74")]
    pub priority: u32,
    /// Entries whose time this end's file system does not keep.
    #[prost(uint64, tag = "75")]
    pub times_lost: u64,
    /// Entries whose mode this end's file system does not keep.
    #[prost(uint64, tag = "76")]
    pub modes_lost: u64,
}

/// The sender has no more items: every earlier item is durable or has failed.
#[derive(Clone, PartialEq, Message)]
pub struct Finish {
    /// A [`TransferId`].
    #[prost(bytes = "vec", tag = "1")]
    pub transfer: Vec<u8>,
    /// Number of this item.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// Announced entries.
    #[prost(uint64, tag = "3")]
    pub entries: u64,
    /// Announced content, in bytes.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Entries that failed at the sender.
    #[prost(uint64, tag = "5")]
    pub failed: u64,
    /// The sender's counters.
    #[prost(message, optional, tag = "6")]
    pub counters: Option<Status>,
    /// Places of the source that could not be listed or examined: entries below them were not announced.
    #[prost(uint64, tag = "7")]
    pub scan_faults: u64,
}

/// The receiver has finished: every entry that could be delivered is delivered.
#[derive(Clone, PartialEq, Message)]
pub struct Finished {
    /// A [`TransferId`].
    #[prost(bytes = "vec", tag = "1")]
    pub transfer: Vec<u8>,
    /// Number of the FINISH that this answers.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// Complete files.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Content of the files, in bytes, holes excluded.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Entries that existed already.
    #[prost(uint64, tag = "5")]
    pub skipped: u64,
    /// Entries that failed on either side.
    #[prost(uint64, tag = "6")]
    pub failed: u64,
    /// Processor time of this transfer, if known.
    #[prost(double, optional, tag = "7")]
    pub cpu_seconds: Option<f64>,
    /// Peak resident memory of the process, if known.
    #[prost(uint64, optional, tag = "8")]
    pub max_rss_bytes: Option<u64>,
    /// Whether all of the data survives a power cut.
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
    /// Files among the skipped and adjusted ones that other members of the claim, or earlier attempts, delivered.
    #[prost(uint64, tag = "13")]
    pub delivered_files: u64,
    /// Bytes of these files, and of parts of files that an attempt resumes.
    #[prost(uint64, tag = "14")]
    pub delivered_bytes: u64,
}

/// The transfer, or this connection before a transfer exists, cannot continue.
#[derive(Clone, PartialEq, Message)]
pub struct Error {
    /// See [`ErrorCode`].
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Description for users. From a peer it may contain any character.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Whether the same request may succeed later.
    #[prost(bool, tag = "3")]
    pub retryable: bool,
}

/// Requests a [`Pong`], which shows that the connection is alive.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Ping {
    /// Repeated in the answer.
    #[prost(uint64, tag = "1")]
    pub nonce: u64,
}

/// Answers a [`Ping`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Pong {
    /// The question's nonce.
    #[prost(uint64, tag = "1")]
    pub nonce: u64,
}

/// One side cancels the transfer; durable data stays for a later run.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Cancel {
    /// The reason, for users.
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
            /// The fault in the head.
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
    /// Not 16 bytes; impossible after decoding.
    pub fn transfer_id(&self) -> Result<TransferId, WireError> {
        TransferId::try_from(self.transfer.as_slice())
    }
}

impl Finished {
    /// The transfer.
    ///
    /// # Errors
    /// Not 16 bytes; impossible after decoding.
    pub fn transfer_id(&self) -> Result<TransferId, WireError> {
        TransferId::try_from(self.transfer.as_slice())
    }
}

impl Error {
    /// Makes an error to send.
    pub fn new(code: ErrorCode, message: impl Into<String>, retryable: bool) -> Self {
        Self {
            code: code.0,
            message: message.into(),
            retryable,
        }
    }

    /// The error's code.
    pub fn code(&self) -> ErrorCode {
        ErrorCode(self.code)
    }
}
