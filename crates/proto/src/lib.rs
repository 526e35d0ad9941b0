//! Owns the protocol: every frame that two Godwit programs exchange, with its layout, limits and checks. Knows no
//! sockets, files, clocks or threads: converts bytes to frames, and frames to bytes.
//!
//! A frame is `prelude ‖ head ‖ payload`. The encoders append `prelude ‖ head` (the head image) to a `Vec<u8>` that the
//! caller reuses; the payload of a block is passed separately and never copied here. [`decode`] reads a prelude and a
//! head. Everything from a peer is checked before memory is allocated for it. `docs/wire.md` specifies the format byte by
//! byte.

pub mod ack;
pub mod agent;
pub mod answer;
pub mod block;
mod bytes;
pub mod control;
pub mod error;
pub mod extension;
pub mod fault;
pub mod frame;
pub mod hello;
pub mod ids;
pub mod limits;
pub mod manifest;
pub mod metadata;
pub mod names;
pub mod notice;
pub mod parts;
pub mod path;
pub mod prelude;
pub mod record;

pub use ack::{Ack, AckRange, AckStatus};
pub use answer::{Answer, HeldRange, Verdict};
pub use block::{BlockHeader, BlockKind, Range};
pub use control::{
    Announced, Ask, Beacon, Cancel, Comparison, DIALLED_MAX, Dialled, Direction, Earlier, Error,
    ErrorCode, Examine, Examined, Finish, Finished, Ground, Join, Joined, Judge, Limit,
    MachineSeen, Mandate, Mapping, Member, Moment, Open, Opened, PartialOpen, PathSeen, Ping, Pong,
    Preserve, Reply, Retire, Retired, Rule, Selection, SendingStream, Sharing, Status, StorageSeen,
    Tuned, Verification, priority,
};
pub use error::WireError;
pub use fault::{EntryFailed, Fault, FaultCode, Side};
pub use frame::{Block, Frame, decode};
pub use hello::{Agreed, Hello, VersionMismatch, negotiate};
pub use ids::{Digest, DigestKind, EntryId, Generation, Seq, Token, TransferId};
pub use limits::{
    ANNOUNCED_MAX, BLOCK_HEADER_BYTES, CHANNELS_MAX, DOCUMENT_BYTES_MAX, HEAD_BYTES_MAX,
    NAME_BYTES_MAX, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX, PRELUDE_BYTES, RECORD_BYTES, RECORDS_MAX,
    UNKNOWN_BYTES,
};
pub use manifest::Manifest;
pub use metadata::{AclEntry, AclTag, Metadata};
pub use names::NameList;
pub use notice::{Notice, NoticeKind, Notices};
pub use parts::{Part, Portion};
pub use prelude::{FrameKind, Prelude};
pub use record::{EntryKind, Record, RecordFlags, RecordReader, RecordWriter};
