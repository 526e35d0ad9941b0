//! Owns the messages with which a stream leaves a running transfer. Does not contain the reason. `docs/wire.md`,
//! "RETIRE and RETIRED".

use prost::Message;

use super::{decode, encode};
use crate::error::WireError;
use crate::prelude::FrameKind;

/// From the receiver, which is the client: requests no more items on this stream, and RETIRED when all items on
/// it are settled.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Retire {}

/// No relevant frames follow from this end on this stream.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Retired {}

macro_rules! empty {
    ($($name:ident = $kind:ident;)*) => {
        $(impl $name {
            /// Appends the frame's head image to `out`.
            pub fn encode(&self, out: &mut Vec<u8>) {
                encode(self, FrameKind::$kind, out);
            }

            /// Reads a frame's head.
            ///
            /// # Errors
            /// The fault in the head.
            pub fn decode(head: &[u8]) -> Result<Self, WireError> {
                decode(head, stringify!($kind))
            }
        })*
    };
}

empty! {
    Retire = RETIRE;
    Retired = RETIRED;
}
