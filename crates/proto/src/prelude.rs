//! Owns the prelude, the 16 bytes that begin every frame, and the kinds of frames.
//! Does not know the content of a frame. `docs/wire.md`, "Frames".

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::error::WireError;
use crate::limits::{HEAD_BYTES_MAX, PAYLOAD_BYTES_MAX, PRELUDE_BYTES, SMALL_HEAD_BYTES_MAX};

/// Kind of a frame. Unknown kinds are kept, and their frames are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl FrameKind {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The kind's name, `unknown` for an unknown kind.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    _ => "unknown",
                }
            }
        }
    };
}

kinds! {
    /// First frame of each side.
    HELLO = 1;
    /// The client asks for a transfer.
    OPEN = 2;
    /// The daemon grants the transfer.
    OPENED = 3;
    /// The client adds a stream to a transfer.
    JOIN = 4;
    /// The daemon accepts the stream.
    JOINED = 5;
    /// The sender announces entries.
    MANIFEST = 6;
    /// The receiver answers which entries it wants.
    ANSWER = 7;
    /// Contents; the only frame with a payload.
    BLOCK = 8;
    /// Items that are written, durable, or requested again.
    ACK = 9;
    /// An entry failed at the receiver.
    ENTRY_FAILED = 10;
    /// The sender has nothing left.
    FINISH = 11;
    /// The receiver is done.
    FINISHED = 12;
    /// Counters of one side, for the other to show.
    STATUS = 13;
    /// The transfer or connection cannot continue.
    ERROR = 14;
    /// Requests a PONG, which shows that the connection is alive.
    PING = 15;
    /// Answers PING.
    PONG = 16;
    /// One side cancels the transfer in good order.
    CANCEL = 17;
    /// The client streams names of entries to send; the daemon reports which it has taken.
    SELECTION = 18;
    /// The receiver reports deleted entries, and notes for users.
    NOTICE = 19;
    /// The client asks for the other side's properties.
    EXAMINE = 20;
    /// The other side's properties.
    EXAMINED = 21;
    /// The receiver requests that a stream leaves the transfer.
    RETIRE = 24;
    /// No relevant frames follow on this stream.
    RETIRED = 25;
    /// The sender reports its kernel's measurements of the stream that carries this frame.
    SENDING = 26;
    /// The receiving client has changed the limit of the transfer.
    LIMIT = 27;
    /// One node asks another about places and jobs.
    ASK = 28;
    /// The other node's answer.
    REPLY = 29;
}

impl FrameKind {
    /// Longest head that a frame of this kind may have, in bytes.
    pub const fn head_bytes_max(self) -> u32 {
        match self {
            Self::HELLO
            | Self::JOIN
            | Self::JOINED
            | Self::FINISH
            | Self::FINISHED
            | Self::STATUS
            | Self::RETIRE
            | Self::RETIRED
            | Self::SENDING
            | Self::LIMIT
            | Self::ERROR
            | Self::PING
            | Self::PONG
            | Self::CANCEL => SMALL_HEAD_BYTES_MAX,
            _ => HEAD_BYTES_MAX,
        }
    }
}

/// The beginning of every frame, with the lengths of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prelude {
    /// The frame's kind.
    pub kind: FrameKind,
    /// No flag is defined yet; unknown ones are kept and ignored.
    pub flags: u16,
    /// Length of the head.
    pub head_bytes: u32,
    /// Length of the payload; zero unless the frame is a block.
    pub payload_bytes: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    kind: U16,
    flags: U16,
    head_bytes: U32,
    payload_bytes: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<Wire>() == PRELUDE_BYTES);

impl Prelude {
    /// Reads a prelude and checks every length in it, so that the caller may allocate memory for the rest
    /// of the frame.
    ///
    /// # Errors
    /// A length above its limit, a payload that is not allowed, or reserved bytes in use.
    pub fn decode(bytes: &[u8; PRELUDE_BYTES]) -> Result<Self, WireError> {
        let wire: Wire = transmute!(*bytes);
        if wire.reserved.get() != 0 {
            return Err(WireError::NonZeroReserved { what: "a prelude" });
        }
        let kind = FrameKind(wire.kind.get());
        let limit = kind.head_bytes_max();
        let head_bytes = wire.head_bytes.get();
        if head_bytes > limit {
            return Err(WireError::too_long("head", u64::from(limit)));
        }
        let payload_bytes = wire.payload_bytes.get();
        if payload_bytes > 0 && kind != FrameKind::BLOCK {
            return Err(WireError::UnexpectedPayload { kind: kind.0 });
        }
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(WireError::too_long("payload", u64::from(PAYLOAD_BYTES_MAX)));
        }
        Ok(Self {
            kind,
            flags: wire.flags.get(),
            head_bytes,
            payload_bytes,
        })
    }

    /// Encodes the prelude.
    pub fn encode(&self) -> [u8; PRELUDE_BYTES] {
        let wire = Wire {
            kind: self.kind.0.into(),
            flags: self.flags.into(),
            head_bytes: self.head_bytes.into(),
            payload_bytes: self.payload_bytes.into(),
            reserved: 0.into(),
        };
        transmute!(wire)
    }
}
