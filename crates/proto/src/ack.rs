//! Owns acknowledgements: which items are written, durable, or requested again.
//! Does not store acknowledgements. `docs/wire.md`, "ACK".

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{encode_frame, end, take};
use crate::error::WireError;
use crate::ids::{Seq, TransferId};
use crate::limits::ACK_RANGES_MAX;
use crate::prelude::FrameKind;

/// Status of an item. Unknown values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AckStatus(pub u8);

impl AckStatus {
    /// The item is in the receiver's storage: the sender's buffer is free.
    pub const WRITTEN: Self = Self(1);
    /// The item survives a power cut: the sender may forget it.
    pub const DURABLE: Self = Self(2);
    /// The item was lost before it was durable, or not accepted: the sender must send it again.
    pub const RESEND: Self = Self(3);
}

/// The items from `first` to `last`, both included, have one status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRange {
    /// First item; not 0.
    pub first: Seq,
    /// Last item; not below the first.
    pub last: Seq,
    /// Their status.
    pub status: AckStatus,
}

/// Status of items of one transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The transfer.
    pub transfer: TransferId,
    /// At most [`ACK_RANGES_MAX`] ranges, in the order of the events.
    pub items: Vec<AckRange>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    transfer: [u8; 16],
    ranges: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RangeWire {
    first: U64,
    last: U64,
    status: u8,
    reserved: [u8; 7],
}

const _: () = assert!(size_of::<Wire>() == 24 && size_of::<RangeWire>() == 24);

impl Ack {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// Too many ranges, or an invalid one; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        encode_frame(out, FrameKind::ACK, 0, |out| {
            let Some(ranges) = u32::try_from(self.items.len())
                .ok()
                .filter(|count| *count <= ACK_RANGES_MAX)
            else {
                return Err(WireError::too_long(
                    "acknowledgement",
                    u64::from(ACK_RANGES_MAX),
                ));
            };
            let wire = Wire {
                transfer: self.transfer.0,
                ranges: ranges.into(),
                reserved: 0.into(),
            };
            out.extend_from_slice(wire.as_bytes());
            for range in &self.items {
                range.validate()?;
                let wire = RangeWire {
                    first: range.first.0.into(),
                    last: range.last.0.into(),
                    status: range.status.0,
                    reserved: [0; 7],
                };
                out.extend_from_slice(wire.as_bytes());
            }
            Ok(())
        })
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let what = "an acknowledgement";
        let mut rest = head;
        let wire: Wire = take(&mut rest, what)?;
        if wire.reserved.get() != 0 {
            return Err(WireError::NonZeroReserved { what });
        }
        let count = wire.ranges.get();
        if count > ACK_RANGES_MAX {
            return Err(WireError::too_long(
                "acknowledgement",
                u64::from(ACK_RANGES_MAX),
            ));
        }
        if rest.len() / size_of::<RangeWire>() < count as usize {
            return Err(WireError::Short { what });
        }
        let mut items = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let range: RangeWire = take(&mut rest, what)?;
            if range.reserved != [0; 7] {
                return Err(WireError::NonZeroReserved { what });
            }
            let range = AckRange {
                first: Seq(range.first.get()),
                last: Seq(range.last.get()),
                status: AckStatus(range.status),
            };
            range.validate()?;
            items.push(range);
        }
        end(rest, what)?;
        Ok(Self {
            transfer: TransferId(wire.transfer),
            items,
        })
    }
}

impl AckRange {
    fn validate(&self) -> Result<(), WireError> {
        if self.first.0 == 0 {
            return Err(WireError::invalid(
                "acknowledged range",
                "begins with 0, which is no item",
            ));
        }
        if self.first > self.last {
            return Err(WireError::invalid(
                "acknowledged range",
                "ends before it begins",
            ));
        }
        Ok(())
    }
}
