//! Owns the sum of all frames, and the one function that reads any of them.
//! Does not know the insides of any. `docs/wire.md`, "Frames".

use crate::ack::Ack;
use crate::answer::Answer;
use crate::block::{self, BlockHeader, Range};
use crate::control::{
    Cancel, Error, Finish, Finished, Join, Joined, Open, Opened, Ping, Pong, Status,
};
use crate::error::WireError;
use crate::fault::EntryFailed;
use crate::hello::Hello;
use crate::manifest::Manifest;
use crate::prelude::{FrameKind, Prelude};
use crate::record::Record;

/// A block without its payload, which follows on the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its fixed header.
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
            /// A frame of a kind that is not known here; to be ignored.
            Unknown {
                /// Its kind.
                kind: FrameKind,
            },
        }

        impl Frame {
            /// Its kind.
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
        /// What is wrong with it. Frames of unknown kinds are no error.
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
}

impl Frame {
    /// Name of its kind, for messages.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}
