//! Owns the record extensions of files that several transfers write: the part that an entry covers, and the ranges held elsewhere.
//! Does not write or combine digests. `docs/wire.md`, "Parts".

use crate::answer::HeldRange;
use crate::bytes::take_slice;
use crate::error::WireError;
use crate::extension;
use crate::ids::Digest;
use crate::record::Record;

/// The entry is a part of a file.
pub const PART: u16 = 10;
/// Ranges of the file that other transfers sent.
pub const HELD_ELSEWHERE: u16 = 11;

/// Minimum length of a part, except the last part of its file. BLAKE3 parts of this length are subtrees, and NFS clients share no
/// page.
pub const PART_BYTES_MIN: u64 = 256 << 20;

/// Most ranges that an entry names as held elsewhere; they fit into one extension. Neighbours are merged, so a whole file needs
/// one range for CRC. For BLAKE3 it needs the first, and one for each bit of its length above the minimum part.
pub const HELD_ELSEWHERE_MAX: usize = 1024;

/// A range of a file that one transfer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Offset of the part.
    pub offset: u64,
    /// Length of the part, not 0.
    pub bytes: u64,
}

impl Part {
    /// Offset of its end.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Whether a file of `file_bytes` bytes can have this part, if parts have at least `bytes_min` bytes. A part is an aligned
    /// power of two, or ends at the end of the file.
    pub fn fits(&self, file_bytes: u64, bytes_min: u64) -> bool {
        let Some(end) = self.offset.checked_add(self.bytes) else {
            return false;
        };
        if self.bytes == 0 || end > file_bytes {
            return false;
        }
        let Some(window) = self.bytes.checked_next_power_of_two() else {
            return self.offset == 0;
        };
        let window = window.max(bytes_min);
        self.offset.is_multiple_of(window) && (end == file_bytes || self.bytes == window)
    }

    /// Appends the part as an extension.
    ///
    /// # Errors
    /// The part is empty, or ends beyond the largest offset.
    pub fn push(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.check()?;
        let value = [self.offset.to_le_bytes(), self.bytes.to_le_bytes()].concat();
        extension::push(out, PART, &value)
    }

    /// The part in these extensions of an entry; `None` if it is a whole file.
    ///
    /// # Errors
    /// The extension is malformed, or occurs twice.
    pub fn find(extensions: &[u8]) -> Result<Option<Self>, WireError> {
        let Some(value) = only(extensions, PART)? else {
            return Ok(None);
        };
        let ([offset, bytes], []) = value.as_chunks::<8>() else {
            return Err(invalid("is no offset and length"));
        };
        let part = Self {
            offset: u64::from_le_bytes(*offset),
            bytes: u64::from_le_bytes(*bytes),
        };
        part.check()?;
        Ok(Some(part))
    }

    fn check(&self) -> Result<(), WireError> {
        if self.bytes == 0 || self.offset.checked_add(self.bytes).is_none() {
            return Err(invalid("is empty, or ends beyond the largest offset"));
        }
        Ok(())
    }
}

/// The part of its file that an entry covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Portion {
    /// The whole file.
    Whole,
    /// A range that this transfer sends.
    Part(Part),
    /// The whole file, assembled from ranges that other transfers sent.
    Assemble(Vec<HeldRange>),
}

impl Record {
    /// The part of its file that the entry covers.
    ///
    /// # Errors
    /// A malformed extension, or both kinds.
    pub fn portion(&self) -> Result<Portion, WireError> {
        if self.extensions.is_empty() {
            return Ok(Portion::Whole);
        }
        match (
            Part::find(&self.extensions)?,
            find_held_elsewhere(&self.extensions)?,
        ) {
            (None, None) => Ok(Portion::Whole),
            (Some(part), None) => Ok(Portion::Part(part)),
            (None, Some(ranges)) => Ok(Portion::Assemble(ranges)),
            (Some(_), Some(_)) => Err(invalid("is assembled from other parts")),
        }
    }
}

/// Appends ranges that are held elsewhere as an extension.
///
/// # Errors
/// There are none or too many, or they are empty, overlap or do not ascend.
pub fn push_held_elsewhere(ranges: &[HeldRange], out: &mut Vec<u8>) -> Result<(), WireError> {
    check_ranges(ranges)?;
    let mut value = Vec::with_capacity(ranges.len() * RANGE_BYTES);
    for range in ranges {
        value.extend_from_slice(&range.offset.to_le_bytes());
        value.extend_from_slice(&range.bytes.to_le_bytes());
        value.extend_from_slice(&range.digest.0);
    }
    extension::push(out, HELD_ELSEWHERE, &value)
}

/// The ranges held elsewhere in these extensions of an entry; `None` if there are none.
///
/// # Errors
/// The extension is malformed, or occurs twice.
pub fn find_held_elsewhere(extensions: &[u8]) -> Result<Option<Vec<HeldRange>>, WireError> {
    let Some(mut value) = only(extensions, HELD_ELSEWHERE)? else {
        return Ok(None);
    };
    let what = "a range that is held elsewhere";
    let mut ranges = Vec::with_capacity((value.len() / RANGE_BYTES).min(HELD_ELSEWHERE_MAX));
    while !value.is_empty() {
        if ranges.len() == HELD_ELSEWHERE_MAX {
            return Err(too_many());
        }
        let (numbers, digest) = take_slice(&mut value, RANGE_BYTES, what)?.split_at(16);
        let ([offset, bytes], []) = numbers.as_chunks::<8>() else {
            return Err(WireError::Short { what });
        };
        let mut range = HeldRange {
            offset: u64::from_le_bytes(*offset),
            bytes: u64::from_le_bytes(*bytes),
            digest: Digest::default(),
        };
        range.digest.0.copy_from_slice(digest);
        ranges.push(range);
    }
    check_ranges(&ranges)?;
    Ok(Some(ranges))
}

fn check_ranges(ranges: &[HeldRange]) -> Result<(), WireError> {
    if ranges.len() > HELD_ELSEWHERE_MAX {
        return Err(too_many());
    }
    if ranges.is_empty() {
        return Err(invalid("names no ranges as held elsewhere"));
    }
    let mut free = 0;
    for range in ranges {
        let end = range.offset.checked_add(range.bytes);
        let Some(end) = end.filter(|_| range.bytes > 0 && range.offset >= free) else {
            return Err(invalid(
                "has ranges that are empty, overlap or do not ascend",
            ));
        };
        free = end;
    }
    Ok(())
}

/// The value of the only extension of this type.
fn only(extensions: &[u8], wanted: u16) -> Result<Option<&[u8]>, WireError> {
    let mut found = None;
    for each in extension::iter(extensions) {
        let (kind, value) = each?;
        if kind == wanted && found.replace(value).is_some() {
            return Err(invalid("comes twice"));
        }
    }
    Ok(found)
}

fn too_many() -> WireError {
    WireError::too_long("list of ranges held elsewhere", HELD_ELSEWHERE_MAX as u64)
}

fn invalid(rule: &'static str) -> WireError {
    WireError::invalid("part of a file", rule)
}

/// Offset, length, digest.
const RANGE_BYTES: usize = 48;

const _: () = assert!(HELD_ELSEWHERE_MAX * RANGE_BYTES <= u16::MAX as usize);
const _: () = assert!(PART_BYTES_MIN.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_powers_of_two_or_the_end_of_their_file() {
        let mib = 1 << 20;
        let fits = |offset: u64, bytes: u64, file: u64| {
            let (offset, bytes) = (offset * mib, bytes * mib);
            Part { offset, bytes }.fits(file * mib, PART_BYTES_MIN)
        };
        for (offset, bytes, file, expected) in [
            (0, 256, 1000, true),
            (256, 256, 1000, true),
            (512, 488, 1000, true),
            (768, 232, 1000, true),
            (0, 1000, 1000, true),
            (0, 5, 5, true),
            (0, 128, 1000, false),
            (128, 256, 1000, false),
            (256, 512, 1000, false),
            (256, 744, 1000, false),
            (512, 400, 1000, false),
            (768, 256, 1000, false),
            (0, 0, 0, false),
        ] {
            let got = fits(offset, bytes, file);
            assert_eq!(got, expected, "{bytes} MiB at {offset} MiB of {file}");
        }
        let odd = Part {
            offset: u64::MAX,
            bytes: 2,
        };
        assert!(!odd.fits(u64::MAX, PART_BYTES_MIN));
    }
}
