//! Owns notices: the receiver's reports besides its verdicts, about deleted entries and for users. Does not decide.
//! `docs/wire.md`, "NOTICE".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{encode_frame, end, take, take_slice};
use crate::error::WireError;
use crate::ids::TransferId;
use crate::limits::{MESSAGE_BYTES_MAX, NOTICES_MAX};
use crate::path;
use crate::prelude::FrameKind;
use crate::record::EntryKind;

/// Subject of a notice. Unknown kinds are kept, and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoticeKind(pub u8);

impl NoticeKind {
    /// An entry of the destination was removed, or would be in a dry run.
    pub const DELETED: Self = Self(1);
    /// A text for users.
    pub const NOTE: Self = Self(2);
}

/// One report of the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Subject of the notice.
    pub kind: NoticeKind,
    /// Kind of the entry; 0 in a note.
    pub entry: EntryKind,
    /// The root whose counterpart contained the entry; 0 in a note.
    pub root: u16,
    /// Path of the entry below its root, or the text of a note: UTF-8 of at most 1024 bytes, with any characters.
    pub text: Vec<u8>,
}

/// Consecutively numbered notices, counted from the first of the transfer, so that a repeated notice is reported
/// once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// The transfer.
    pub transfer: TransferId,
    /// Number of the first of these notices, from 1. The number after the last one must fit, too.
    pub first: u64,
    /// At most [`NOTICES_MAX`] notices.
    pub notices: Vec<Notice>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    transfer: [u8; 16],
    first: U64,
    notices: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NoticeWire {
    kind: u8,
    entry: u8,
    root: U16,
    text_bytes: U16,
    reserved: U16,
}

const _: () = assert!(size_of::<Wire>() == 32 && size_of::<NoticeWire>() == 8);

impl Notice {
    /// A note for users; a text that is too long is cut.
    pub fn note(text: &str) -> Self {
        Self {
            kind: NoticeKind::NOTE,
            text: crate::bytes::cut(text, MESSAGE_BYTES_MAX)
                .as_bytes()
                .to_vec(),
            ..Self::default()
        }
    }

    fn validate(&self) -> Result<(), WireError> {
        match self.kind {
            NoticeKind::DELETED => path::validate(&self.text),
            NoticeKind::NOTE if self.text.len() > MESSAGE_BYTES_MAX => {
                Err(WireError::too_long("note", MESSAGE_BYTES_MAX as u64))
            }
            NoticeKind::NOTE if str::from_utf8(&self.text).is_err() => {
                Err(WireError::invalid("note", "is not UTF-8"))
            }
            _ => Ok(()),
        }
    }
}

impl Notices {
    fn validate_numbers(first: u64, count: u32) -> Result<(), WireError> {
        match first > 0 && first.checked_add(count.into()).is_some() {
            true => Ok(()),
            false => Err(WireError::invalid(
                "number of a notice",
                "is 0 or too large",
            )),
        }
    }

    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// Too many notices, or an invalid one; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        encode_frame(out, FrameKind::NOTICE, 0, |out| {
            let Some(count) = u32::try_from(self.notices.len())
                .ok()
                .filter(|count| *count <= NOTICES_MAX)
            else {
                return Err(WireError::too_long(
                    "list of notices",
                    u64::from(NOTICES_MAX),
                ));
            };
            Self::validate_numbers(self.first, count)?;
            let wire = Wire {
                transfer: self.transfer.0,
                first: self.first.into(),
                notices: count.into(),
                reserved: 0.into(),
            };
            out.extend_from_slice(wire.as_bytes());
            for notice in &self.notices {
                notice.validate()?;
                let Ok(text_bytes) = u16::try_from(notice.text.len()) else {
                    return Err(WireError::too_long("notice", u64::from(u16::MAX)));
                };
                let wire = NoticeWire {
                    kind: notice.kind.0,
                    entry: notice.entry.0,
                    root: notice.root.into(),
                    text_bytes: text_bytes.into(),
                    reserved: 0.into(),
                };
                out.extend_from_slice(wire.as_bytes());
                out.extend_from_slice(&notice.text);
            }
            Ok(())
        })
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let what = "a list of notices";
        let mut rest = head;
        let wire: Wire = take(&mut rest, what)?;
        if wire.reserved.get() != 0 {
            return Err(WireError::NonZeroReserved { what });
        }
        let count = wire.notices.get();
        if count > NOTICES_MAX {
            return Err(WireError::too_long(
                "list of notices",
                u64::from(NOTICES_MAX),
            ));
        }
        Self::validate_numbers(wire.first.get(), count)?;
        let count = count as usize;
        if rest.len() / size_of::<NoticeWire>() < count {
            return Err(WireError::Short { what });
        }
        let mut notices = Vec::with_capacity(count);
        for _ in 0..count {
            let wire: NoticeWire = take(&mut rest, what)?;
            if wire.reserved.get() != 0 {
                return Err(WireError::NonZeroReserved { what });
            }
            let notice = Notice {
                kind: NoticeKind(wire.kind),
                entry: EntryKind(wire.entry),
                root: wire.root.get(),
                text: take_slice(&mut rest, wire.text_bytes.get().into(), what)?.to_vec(),
            };
            notice.validate()?;
            notices.push(notice);
        }
        end(rest, what)?;
        Ok(Self {
            transfer: TransferId(wire.transfer),
            first: wire.first.get(),
            notices,
        })
    }
}
