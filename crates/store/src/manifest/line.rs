//! Owns one line of a manifest: fields separated by tabs, names escaped; each entry has exactly one form. Does
//! not depend on other lines.

use std::fmt::Write as _;

use super::{EntryType, ManifestEntry};
use crate::digest::{Digest, DigestKind};
use crate::meta::Timestamp;
use crate::path::{PATH_BYTES_MAX, PathError, RelPath};

/// Longest line: two names in which each byte is escaped by four bytes, and the fields before them.
pub const LINE_BYTES_MAX: usize = 2 * 4 * PATH_BYTES_MAX + 256;

/// Longest target of a symbolic link, as on the wire.
const TARGET_BYTES_MAX: usize = 4095;

/// The error in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line has fewer or more fields than its type requires.
    #[error("it has {found} fields instead of {expected}")]
    Fields {
        /// Number of fields found.
        found: usize,
        /// Number of fields required.
        expected: usize,
    },
    /// A field has an invalid value.
    #[error("its {field} {text:?} is not valid")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Invalid text, for the message.
        text: String,
    },
    /// The name is invalid.
    #[error("its name is not valid: {0}")]
    Name(#[from] PathError),
    /// A value is not spelled in its only valid form.
    #[error("it is not written as this program writes it: {0:?} is expected")]
    Form(String),
}

/// Appends the line of an entry, with its newline.
pub fn encode_entry(entry: &ManifestEntry, kind: DigestKind, out: &mut Vec<u8>) {
    let mut head = String::with_capacity(128);
    // Writing to a String cannot fail.
    let _ = match entry.kind {
        EntryType::File => write!(head, "f\t{}", entry.bytes),
        other => write!(head, "{}\t-", char::from(other.letter())),
    };
    let _ = write!(
        head,
        "\t{}.{:09}\t{:04o}\t",
        entry.mtime.seconds, entry.mtime.nanoseconds, entry.mode
    );
    match entry.digest.filter(|_| entry.kind == EntryType::File) {
        Some(digest) => push_digest(&mut head, kind, &digest),
        None => head.push('-'),
    }
    out.extend_from_slice(head.as_bytes());
    out.push(b'\t');
    push_name(entry.path.as_bytes(), out);
    if entry.kind.has_target() {
        out.push(b'\t');
        escape(&entry.target, out);
    }
    out.push(b'\n');
}

/// Reads a line without its newline.
///
/// # Errors
/// The error in the line; also for a line that this program would write differently.
pub fn decode_entry(line: &[u8], kind: DigestKind) -> Result<ManifestEntry, LineError> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
    let letter = fields.first().copied().unwrap_or_default();
    let invalid = |field: &'static str, text: &[u8]| LineError::Field {
        field,
        text: String::from_utf8_lossy(text).into_owned(),
    };
    let entry_type = match letter {
        [letter] => EntryType::from_letter(*letter),
        _ => None,
    }
    .ok_or_else(|| invalid("type", letter))?;
    let expected = if entry_type.has_target() { 7 } else { 6 };
    if fields.len() != expected {
        return Err(LineError::Fields {
            found: fields.len(),
            expected,
        });
    }
    let bytes = match (entry_type, fields[1]) {
        (EntryType::File, text) => number(text).ok_or_else(|| invalid("size", text))?,
        (_, b"-") => 0,
        (_, text) => return Err(invalid("size", text)),
    };
    let mtime = time(fields[2]).ok_or_else(|| invalid("time", fields[2]))?;
    let mode = std::str::from_utf8(fields[3])
        .ok()
        .and_then(|text| u32::from_str_radix(text, 8).ok())
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| invalid("mode", fields[3]))?;
    let digest = match (entry_type, fields[4]) {
        (EntryType::File, text) => Some(digest(kind, text).ok_or_else(|| invalid("digest", text))?),
        (_, b"-") => None,
        (_, text) => return Err(invalid("digest", text)),
    };
    let path = match fields[5] {
        b"." => RelPath::root(),
        text => {
            let name = unescape(text).filter(|name| !name.is_empty());
            RelPath::parse(&name.ok_or_else(|| invalid("name", text))?)?
        }
    };
    let target = match fields.get(6) {
        Some(text) => unescape(text).ok_or_else(|| invalid("target", text))?,
        None => Vec::new(),
    };
    let target_is_valid = match entry_type {
        EntryType::Symlink => {
            (1..=TARGET_BYTES_MAX).contains(&target.len()) && !target.contains(&0)
        }
        EntryType::HardLink => !target.is_empty() && RelPath::parse(&target).is_ok(),
        _ => true,
    };
    if !target_is_valid {
        return Err(invalid(
            "target",
            fields.get(6).copied().unwrap_or_default(),
        ));
    }
    let entry = ManifestEntry {
        kind: entry_type,
        bytes,
        mtime,
        mode,
        digest,
        path,
        target,
    };
    let mut again = Vec::with_capacity(line.len() + 1);
    encode_entry(&entry, kind, &mut again);
    again.pop();
    if again == line {
        Ok(entry)
    } else {
        Err(LineError::Form(
            String::from_utf8_lossy(&again).into_owned(),
        ))
    }
}

/// Appends bytes as one field: backslashes, control characters and invalid UTF-8 are escaped.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                other => {
                    let mut buffer = [0; 4];
                    let text = other.encode_utf8(&mut buffer).as_bytes();
                    if other.is_control() {
                        push_hex(text, out);
                    } else {
                        out.extend_from_slice(text);
                    }
                }
            }
        }
        push_hex(chunk.invalid(), out);
    }
}

/// Reverses [`escape`]; `None` if a backslash begins no valid escape.
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (kind, tail) = rest.split_first()?;
        rest = tail;
        out.push(match kind {
            b'\\' => b'\\',
            b't' => b'\t',
            b'n' => b'\n',
            b'x' => {
                let (digits, tail) = rest.split_first_chunk::<2>()?;
                rest = tail;
                hex_digit(digits[0])? << 4 | hex_digit(digits[1])?
            }
            _ => return None,
        });
    }
    Some(out)
}

fn push_name(path: &[u8], out: &mut Vec<u8>) {
    if path.is_empty() {
        out.push(b'.');
    } else {
        escape(path, out);
    }
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend_from_slice(b"\\x");
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// In the usual notation: a CRC is a number, most significant digit first.
fn push_digest(out: &mut String, kind: DigestKind, digest: &Digest) {
    let bytes = &digest.0[..kind.digest_bytes()];
    let mut push = |byte: &u8| {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    };
    match kind {
        DigestKind::Crc64Nvme => bytes.iter().rev().for_each(&mut push),
        DigestKind::Blake3 => bytes.iter().for_each(&mut push),
    }
}

fn digest(kind: DigestKind, text: &[u8]) -> Option<Digest> {
    let bytes = kind.digest_bytes();
    if text.len() != bytes * 2 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, digits) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = hex_digit(digits[0])? << 4 | hex_digit(digits[1])?;
    }
    if kind == DigestKind::Crc64Nvme {
        digest[..bytes].reverse();
    }
    Some(Digest(digest))
}

fn time(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, nanoseconds) = text.split_once('.')?;
    if nanoseconds.len() != 9 || !nanoseconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Timestamp {
        seconds: seconds.parse().ok()?,
        nanoseconds: nanoseconds.parse().ok()?,
    })
}

pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let canonical = text == b"0" || text.first() != Some(&b'0');
    std::str::from_utf8(text)
        .ok()
        .filter(|_| digits && canonical)
        .and_then(|text| text.parse().ok())
}

pub(super) fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
