//! Owns faults: an entry's failure, the side where it happened, and the frame that reports it.
//! Does not decide what follows from a fault. `docs/wire.md`, "ENTRY_FAILED".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{cut, encode_frame, end, take, take_slice};
use crate::error::WireError;
use crate::ids::{EntryId, Seq, TransferId};
use crate::limits::{MESSAGE_BYTES_MAX, PATH_BYTES_MAX};
use crate::path;
use crate::prelude::FrameKind;

/// The end where a fault happened. Unknown values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side(pub u8);

impl Side {
    /// The end that sends the data.
    pub const SOURCE: Self = Self(1);
    /// The end that receives the data.
    pub const DESTINATION: Self = Self(2);
}

/// The kind of failure. Unknown codes are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultCode(pub u16);

impl FaultCode {
    /// Reading or writing failed.
    pub const IO: Self = Self(1);
    /// The storage or a quota is full.
    pub const NO_SPACE: Self = Self(2);
    /// Not permitted.
    pub const PERMISSION: Self = Self(3);
    /// The file system is read-only.
    pub const READ_ONLY: Self = Self(4);
    /// The entry does not exist, or no longer exists.
    pub const NOT_FOUND: Self = Self(5);
    /// The entry kept changing while it was read.
    pub const CHANGED: Self = Self(6);
    /// The entry is a device, socket or pipe.
    pub const NOT_REGULAR: Self = Self(7);
    /// Another entry has the name, perhaps in another spelling.
    pub const COLLISION: Self = Self(8);
    /// The name is not possible at the destination.
    pub const NAME: Self = Self(9);
    /// A file has the name of a required directory, or the reverse.
    pub const TYPE_CONFLICT: Self = Self(10);
    /// The path leaves the export.
    pub const ESCAPE: Self = Self(11);
    /// The received data differs from the data that was read.
    pub const DIGEST: Self = Self(12);
    /// A limit of this program was reached.
    pub const LIMIT: Self = Self(13);
    /// The storage does not support the operation.
    pub const UNSUPPORTED: Self = Self(14);
    /// Found by a verification: the size differs.
    pub const SIZE: Self = Self(32);
    /// Found by a verification: mode, time or link target differ.
    pub const METADATA: Self = Self(33);

    /// All codes known here.
    pub const ALL: [Self; 16] = [
        Self::IO,
        Self::NO_SPACE,
        Self::PERMISSION,
        Self::READ_ONLY,
        Self::NOT_FOUND,
        Self::CHANGED,
        Self::NOT_REGULAR,
        Self::COLLISION,
        Self::NAME,
        Self::TYPE_CONFLICT,
        Self::ESCAPE,
        Self::DIGEST,
        Self::LIMIT,
        Self::UNSUPPORTED,
        Self::SIZE,
        Self::METADATA,
    ];
}

/// The failure of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The entry.
    pub entry: EntryId,
    /// The end where it happened.
    pub side: Side,
    /// The kind of failure, for programs.
    pub code: FaultCode,
    /// The operating system's number; never 0.
    pub errno: Option<u16>,
    /// Description for users; at most [`MESSAGE_BYTES_MAX`] bytes are sent. From a peer it may contain any
    /// character.
    pub message: String,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    entry: U64,
    code: U16,
    errno: U16,
    message_bytes: U16,
    side: u8,
    reserved: u8,
}

const _: () = assert!(size_of::<Wire>() == 16);

impl Fault {
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        let message = cut(&self.message, MESSAGE_BYTES_MAX);
        let message_bytes =
            u16::try_from(message.len()).expect("a message was cut to a length far below 16 bits");
        let wire = Wire {
            entry: self.entry.0.into(),
            code: self.code.0.into(),
            errno: self.errno.unwrap_or(0).into(),
            message_bytes: message_bytes.into(),
            side: self.side.0,
            reserved: 0,
        };
        out.extend_from_slice(wire.as_bytes());
        out.extend_from_slice(message.as_bytes());
    }

    pub(crate) fn take(bytes: &mut &[u8]) -> Result<Self, WireError> {
        let wire: Wire = take(bytes, "a fault")?;
        if wire.reserved != 0 {
            return Err(WireError::NonZeroReserved { what: "a fault" });
        }
        let message_bytes = usize::from(wire.message_bytes.get());
        if message_bytes > MESSAGE_BYTES_MAX {
            return Err(WireError::too_long("message", MESSAGE_BYTES_MAX as u64));
        }
        let Ok(message) = str::from_utf8(take_slice(bytes, message_bytes, "a fault")?) else {
            return Err(WireError::invalid("message", "is not UTF-8"));
        };
        Ok(Self {
            entry: EntryId(wire.entry.get()),
            side: Side(wire.side),
            code: FaultCode(wire.code.get()),
            errno: Some(wire.errno.get()).filter(|errno| *errno != 0),
            message: message.to_owned(),
        })
    }
}

/// An entry failed at the receiver while one of its items was written or made durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFailed {
    /// The transfer.
    pub transfer: TransferId,
    /// The item in which the fault happened; 0 if in none.
    pub seq: Seq,
    /// Index of the source that the entry is below; 0 if the fault concerns no entry.
    pub root: u16,
    /// Path of the entry below its root; empty for the root itself, and if the fault concerns no entry.
    pub path: Vec<u8>,
    /// The fault.
    pub fault: Fault,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FailedWire {
    transfer: [u8; 16],
    seq: U64,
    root: U16,
    path_bytes: U16,
    reserved: U32,
}

const _: () = assert!(size_of::<FailedWire>() == 32);

impl EntryFailed {
    /// Appends the frame's head image to `out`. A message that is too long is cut.
    ///
    /// # Errors
    /// The path is invalid; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        encode_frame(out, FrameKind::ENTRY_FAILED, 0, |out| {
            path::validate(&self.path)?;
            let Ok(path_bytes) = u16::try_from(self.path.len()) else {
                return Err(WireError::too_long("path", PATH_BYTES_MAX as u64));
            };
            let wire = FailedWire {
                transfer: self.transfer.0,
                seq: self.seq.0.into(),
                root: self.root.into(),
                path_bytes: path_bytes.into(),
                reserved: 0.into(),
            };
            out.extend_from_slice(wire.as_bytes());
            out.extend_from_slice(&self.path);
            self.fault.push(out);
            Ok(())
        })
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let mut rest = head;
        let what = "a failed entry";
        let wire: FailedWire = take(&mut rest, what)?;
        if wire.reserved.get() != 0 {
            return Err(WireError::NonZeroReserved { what });
        }
        let path = take_slice(&mut rest, usize::from(wire.path_bytes.get()), what)?;
        path::validate(path)?;
        let path = path.to_vec();
        let fault = Fault::take(&mut rest)?;
        end(rest, what)?;
        Ok(Self {
            transfer: TransferId(wire.transfer),
            seq: Seq(wire.seq.get()),
            root: wire.root.get(),
            path,
            fault,
        })
    }
}
