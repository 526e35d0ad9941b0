//! Reads a peer's bytes with bounds checks, and frames the output of every encoder. Knows no frame
//! layouts.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::WireError;
use crate::limits::PRELUDE_BYTES;
use crate::prelude::{FrameKind, Prelude};

/// Takes a fixed structure off the front of `bytes`.
pub(crate) fn take<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &mut &[u8],
    what: &'static str,
) -> Result<T, WireError> {
    match T::read_from_prefix(bytes) {
        Ok((value, rest)) => {
            *bytes = rest;
            Ok(value)
        }
        Err(_) => Err(WireError::Short { what }),
    }
}

/// Takes `count` bytes off the front of `bytes`.
pub(crate) fn take_slice<'a>(
    bytes: &mut &'a [u8],
    count: usize,
    what: &'static str,
) -> Result<&'a [u8], WireError> {
    let (taken, rest) = bytes
        .split_at_checked(count)
        .ok_or(WireError::Short { what })?;
    *bytes = rest;
    Ok(taken)
}

/// Checks that no bytes are left.
pub(crate) fn end(bytes: &[u8], what: &'static str) -> Result<(), WireError> {
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(WireError::Trailing {
            what,
            bytes: bytes.len(),
        })
    }
}

/// Appends a frame's head image; `fill` appends the head. After an error `out` is unchanged.
pub(crate) fn encode_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    payload_bytes: u32,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0; PRELUDE_BYTES]);
    let finished = fill(out).and_then(|()| {
        let limit = kind.head_bytes_max();
        let head_bytes = u32::try_from(out.len() - start - PRELUDE_BYTES)
            .ok()
            .filter(|bytes| *bytes <= limit)
            .ok_or_else(|| WireError::too_long("head", u64::from(limit)))?;
        let prelude = Prelude {
            kind,
            flags: 0,
            head_bytes,
            payload_bytes,
        };
        out[start..start + PRELUDE_BYTES].copy_from_slice(&prelude.encode());
        Ok(())
    });
    if finished.is_err() {
        out.truncate(start);
    }
    finished
}

/// Like [`encode_frame`], for a small head that cannot become too long.
pub(crate) fn encode_small(out: &mut Vec<u8>, kind: FrameKind, fill: impl FnOnce(&mut Vec<u8>)) {
    let encoded = encode_frame(out, kind, 0, |out| {
        fill(out);
        Ok(())
    });
    debug_assert!(
        encoded.is_ok(),
        "every field of a {} is bounded",
        kind.name()
    );
}

/// The longest prefix of `text` that fits into `bytes_max` and ends between two characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
