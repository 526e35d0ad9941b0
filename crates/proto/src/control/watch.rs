//! Owns the messages that watch a transfer and end it, well or badly.
//! Counts nothing itself. `docs/wire.md`, "FINISH" to "CANCEL".

use prost::Message;

use super::{ErrorCode, check_message, cut_message, decode, encode};
use crate::error::WireError;
use crate::ids::TransferId;
use crate::prelude::FrameKind;

/// Counters of one side since the transfer began, for the other side to show. Times are sums over all threads.
#[derive(Clone, Copy, PartialEq, Message)]
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
    Status = STATUS, Self::clone, |_| Ok::<(), WireError>(());
    Ping = PING, Self::clone, |_| Ok::<(), WireError>(());
    Pong = PONG, Self::clone, |_| Ok::<(), WireError>(());
    Finish = FINISH, Self::clone, Self::transfer_id;
    Finished = FINISHED, Self::clone, Self::transfer_id;
    Error = ERROR, |own: &Self| Self { message: cut_message(&own.message), ..*own }, |own: &Self| check_message(&own.message);
    Cancel = CANCEL, |own: &Self| Self { reason: cut_message(&own.reason) }, |own: &Self| check_message(&own.reason);
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
