//! Owns the union of all frames, and the one function that reads any of them. Does not know the
//! contents of frames. `docs/wire.md`, "Frames".

use crate::ack::Ack;
use crate::answer::Answer;
use crate::block::{self, BlockHeader, Range};
use crate::control::{
    Ask, Cancel, Error, Examine, Examined, Finish, Finished, Join, Joined, Limit, Open, Opened,
    Ping, Pong, Reply, Retire, Retired, SendingStream, Status,
};
use crate::error::WireError;
use crate::fault::EntryFailed;
use crate::hello::Hello;
use crate::manifest::Manifest;
use crate::names::NameList;
use crate::notice::Notices;
use crate::prelude::{FrameKind, Prelude};
use crate::record::Record;

/// A block without its payload, which follows on the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The fixed header of the block.
    pub header: BlockHeader,
    /// Data ranges of a sparse slice.
    pub ranges: Vec<Range>,
    /// The entry of a slice; the entries of a bundle.
    pub records: Vec<Record>,
}

macro_rules! frames {
    ($($kind:ident => $name:ident,)*) => {
        /// Any frame.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Frame {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)*
            /// Contents; the payload is still to come.
            Block(Block),
            /// A frame of an unknown kind, which is ignored.
            Unknown {
                /// The kind of the frame.
                kind: FrameKind,
            },
        }

        impl Frame {
            /// The kind of the frame.
            pub fn kind(&self) -> FrameKind {
                match self {
                    $(Self::$name(_) => FrameKind::$kind,)*
                    Self::Block(_) => FrameKind::BLOCK,
                    Self::Unknown { kind } => *kind,
                }
            }
        }

        /// Reads the head of a frame of any kind.
        ///
        /// # Errors
        /// The fault in the head. Frames of unknown kinds are no error.
        pub fn decode(prelude: &Prelude, head: &[u8]) -> Result<Frame, WireError> {
            if usize::try_from(prelude.head_bytes) != Ok(head.len()) {
                return Err(WireError::Disagree { what: "prelude and length of the head" });
            }
            match prelude.kind {
                $(FrameKind::$kind => $name::decode(head).map(Frame::$name),)*
                FrameKind::BLOCK => block::decode(prelude, head).map(Frame::Block),
                kind => Ok(Frame::Unknown { kind }),
            }
        }
    };
}

frames! {
    HELLO => Hello,
    OPEN => Open,
    OPENED => Opened,
    JOIN => Join,
    JOINED => Joined,
    MANIFEST => Manifest,
    ANSWER => Answer,
    ACK => Ack,
    ENTRY_FAILED => EntryFailed,
    FINISH => Finish,
    FINISHED => Finished,
    STATUS => Status,
    ERROR => Error,
    PING => Ping,
    PONG => Pong,
    CANCEL => Cancel,
    SELECTION => NameList,
    NOTICE => Notices,
    EXAMINE => Examine,
    EXAMINED => Examined,
    RETIRE => Retire,
    RETIRED => Retired,
    SENDING => SendingStream,
    LIMIT => Limit,
    ASK => Ask,
    REPLY => Reply,
}

impl Frame {
    /// Name of the frame's kind, for messages.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Appends the frame's head image to `out`. A block's payload length is taken from its header.
    ///
    /// # Errors
    /// The frame is invalid, or its kind is unknown; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Self::Hello(frame) => frame.encode(out),
            Self::Open(frame) => return frame.encode(out),
            Self::Opened(frame) => return frame.encode(out),
            Self::Join(frame) => frame.encode(out),
            Self::Joined(frame) => return frame.encode(out),
            Self::Manifest(frame) => return frame.encode(out),
            Self::Answer(frame) => return frame.encode(out),
            Self::Block(Block {
                header,
                ranges,
                records,
            }) => {
                let payload_bytes = usize::try_from(header.payload_bytes).unwrap_or(usize::MAX);
                return block::encode(*header, ranges, records, payload_bytes, out);
            }
            Self::Ack(frame) => return frame.encode(out),
            Self::EntryFailed(frame) => return frame.encode(out),
            Self::Finish(frame) => frame.encode(out),
            Self::Finished(frame) => frame.encode(out),
            Self::Status(frame) => frame.encode(out),
            Self::Retire(frame) => frame.encode(out),
            Self::Retired(frame) => frame.encode(out),
            Self::SendingStream(frame) => frame.encode(out),
            Self::Limit(frame) => frame.encode(out),
            Self::Notices(frame) => return frame.encode(out),
            Self::Examine(frame) => return frame.encode(out),
            Self::Examined(frame) => return frame.encode(out),
            Self::Ask(frame) => return frame.encode(out),
            Self::Reply(frame) => return frame.encode(out),
            Self::Error(frame) => frame.encode(out),
            Self::Ping(frame) => frame.encode(out),
            Self::Pong(frame) => frame.encode(out),
            Self::Cancel(frame) => frame.encode(out),
            Self::NameList(frame) => return frame.encode(out),
            Self::Unknown { kind } => {
                return Err(WireError::Unknown {
                    field: "frame kind",
                    value: kind.0.into(),
                });
            }
        }
        Ok(())
    }
}
