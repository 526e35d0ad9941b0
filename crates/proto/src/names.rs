//! Owns the parts of a list of names that a client streams to a daemon, and the message with which the daemon requests more.
//! Does not check the names. `docs/wire.md`, "SELECTION".

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{encode_frame, end, take, take_slice};
use crate::error::WireError;
use crate::ids::TransferId;
use crate::limits::{NAMES_BYTES_MAX, PATH_BYTES_MAX};
use crate::prelude::FrameKind;

/// A part of the list, from the client; or the number of taken parts, from the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList {
    /// The transfer.
    pub transfer: TransferId,
    /// Number of this part, from 1; 0 from the daemon.
    pub part: u64,
    /// From the daemon: this part and all earlier ones are taken; 0 from the client.
    pub taken: u64,
    /// This part is the last one.
    pub last: bool,
    /// The names, each followed by a zero byte; at most [`NAMES_BYTES_MAX`] bytes. The daemon always sends an empty list.
    pub names: Vec<u8>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    transfer: [u8; 16],
    part: U64,
    taken: U64,
    names_bytes: U32,
    last: u8,
    reserved: [u8; 3],
}

const _: () = assert!(size_of::<Wire>() == 40);

impl NameList {
    /// The daemon's message that parts up to `taken` are taken.
    pub fn taken(transfer: TransferId, taken: u64) -> Self {
        Self {
            transfer,
            taken,
            ..Self::default()
        }
    }

    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// The message breaks a rule; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        encode_frame(out, FrameKind::SELECTION, 0, |out| {
            self.validate()?;
            let names_bytes = u32::try_from(self.names.len())
                .map_err(|_error| WireError::too_long("names", NAMES_BYTES_MAX as u64))?;
            let wire = Wire {
                transfer: self.transfer.0,
                part: self.part.into(),
                taken: self.taken.into(),
                names_bytes: names_bytes.into(),
                last: self.last.into(),
                reserved: [0; 3],
            };
            out.extend_from_slice(wire.as_bytes());
            out.extend_from_slice(&self.names);
            Ok(())
        })
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let what = "a part of a list";
        let mut rest = head;
        let wire: Wire = take(&mut rest, what)?;
        if wire.reserved != [0; 3] {
            return Err(WireError::NonZeroReserved { what });
        }
        if wire.last > 1 {
            return Err(WireError::Unknown {
                field: "mark of the last part",
                value: wire.last.into(),
            });
        }
        let names_bytes = wire.names_bytes.get() as usize;
        if names_bytes > NAMES_BYTES_MAX {
            return Err(WireError::too_long("names", NAMES_BYTES_MAX as u64));
        }
        let names = take_slice(&mut rest, names_bytes, what)?;
        end(rest, what)?;
        let list = Self {
            transfer: TransferId(wire.transfer),
            part: wire.part.get(),
            taken: wire.taken.get(),
            last: wire.last == 1,
            names: names.to_vec(),
        };
        list.validate()?;
        Ok(list)
    }

    /// The names, in order, without the zero bytes.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        split(&self.names)
    }

    fn validate(&self) -> Result<(), WireError> {
        if self.part == 0 {
            if self.last || !self.names.is_empty() {
                return Err(WireError::invalid(
                    "list of names",
                    "has names or an end in a message that is not a part",
                ));
            }
            return Ok(());
        }
        if self.taken != 0 {
            return Err(WireError::invalid(
                "list of names",
                "is a part and takes parts, too",
            ));
        }
        if self.names.len() > NAMES_BYTES_MAX {
            return Err(WireError::too_long("names", NAMES_BYTES_MAX as u64));
        }
        if self.names.last().is_some_and(|byte| *byte != 0) {
            return Err(WireError::Short {
                what: "the last name of a list",
            });
        }
        for name in split(&self.names) {
            if name.is_empty() {
                return Err(WireError::invalid("list of names", "has an empty name"));
            }
            if name.len() > PATH_BYTES_MAX {
                return Err(WireError::too_long("name in a list", PATH_BYTES_MAX as u64));
            }
        }
        Ok(())
    }
}

/// Splits names that are each followed by a zero byte.
pub fn split(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names
        .split_inclusive(|byte| *byte == 0)
        .map(|name| name.strip_suffix(&[0]).unwrap_or(name))
}
