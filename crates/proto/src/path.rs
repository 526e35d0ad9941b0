//! Owns the rules for paths from a peer: relative, clean, bounded. Uses no file system; the storage checks where a path
//! leads.

use crate::error::WireError;
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, TARGET_BYTES_MAX};

/// Checks a path relative to a root: components of 1 to 255 bytes separated by single slashes, none of them `.` or
/// `..`, no NUL, 65,535 bytes at most. Any other byte is allowed, UTF-8 or not. The empty path is the root itself.
///
/// # Errors
/// The rule that the path breaks.
pub fn validate(path: &[u8]) -> Result<(), WireError> {
    if is_clean_at_a_glance(path) {
        return Ok(());
    }
    validate_each_byte(path)
}

fn validate_each_byte(path: &[u8]) -> Result<(), WireError> {
    if path.is_empty() {
        return Ok(());
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(WireError::too_long("path", PATH_BYTES_MAX as u64));
    }
    let mut rest = path;
    loop {
        // One pass over the bytes finds both.
        let end = rest.iter().position(|byte| matches!(byte, b'/' | 0));
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        if after.first() == Some(&0) {
            return Err(WireError::invalid("path", "contains NUL"));
        }
        validate_name(name)?;
        match after.split_first() {
            Some((_, below)) => rest = below,
            None => return Ok(()),
        }
    }
}

const WORD: usize = size_of::<u64>();

/// Whether the path is certainly clean, by a check of eight bytes at a time; every entry passes this check, at both
/// ends. The slower check of each byte decides about a component that begins with a dot, and about very short or long
/// paths.
fn is_clean_at_a_glance(path: &[u8]) -> bool {
    let (Some(last), Some(first_byte)) = (path.last_chunk(), path.first()) else {
        return false;
    };
    if path.len() > NAME_BYTES_MAX || first_byte | 1 == b'/' || last[WORD - 1] == b'/' {
        return false;
    }
    let (mut rest, mut oddities) = (path, oddities_of(last));
    // Each word begins with the last byte of the previous one, so that any two neighbours are in one word.
    while let Some(word) = rest.first_chunk() {
        oddities |= oddities_of(word);
        rest = &rest[WORD - 1..];
    }
    oddities == 0
}

/// Not 0 if `word` contains a zero byte, or a slash followed by a slash or a dot.
fn oddities_of(word: &[u8; WORD]) -> u64 {
    let word = u64::from_le_bytes(*word);
    let slashes = zero_bytes(word ^ repeated(b'/'));
    // A dot is one less than a slash.
    let slashes_or_dots = zero_bytes((word | repeated(1)) ^ repeated(b'/'));
    zero_bytes(word) | (slashes << 8) & slashes_or_dots
}

const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD])
}

/// A word with the highest bit of each zero byte of `word` set, and perhaps the highest bits of bytes above a zero byte.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

fn validate_name(name: &[u8]) -> Result<(), WireError> {
    match name {
        b"" => Err(WireError::invalid(
            "path",
            "has an empty component or a slash at an end",
        )),
        b"." | b".." => Err(WireError::invalid("path", "has a component . or ..")),
        _ if name.len() > NAME_BYTES_MAX => {
            Err(WireError::too_long("path component", NAME_BYTES_MAX as u64))
        }
        _ => Ok(()),
    }
}

/// Checks the target of a symbolic link: 1 to 4095 bytes without NUL. The target may point anywhere; this program does
/// not follow it.
///
/// # Errors
/// The rule that the target breaks.
pub fn validate_target(target: &[u8]) -> Result<(), WireError> {
    if target.is_empty() {
        return Err(WireError::invalid("link target", "is empty"));
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(WireError::too_long("link target", TARGET_BYTES_MAX as u64));
    }
    if target.contains(&0) {
        return Err(WireError::invalid("link target", "contains NUL"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{is_clean_at_a_glance, validate, validate_each_byte, validate_target};
    use proptest::prelude::*;

    #[test]
    fn usual_paths_need_no_second_look() {
        for path in [
            &b"src/00/d000999/f000123456"[..],
            b"a.b/c..d/e-f.txt",
            b"12345678",
        ] {
            assert!(is_clean_at_a_glance(path), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn a_path_that_passes_the_quick_check_passes_the_full_check(
            path in proptest::collection::vec(prop_oneof![
                4 => Just(b'a'), 1 => Just(b'/'), 1 => Just(b'.'), 1 => Just(b'0'), 1 => Just(b'-'), 1 => 0..=2_u8, 1 => any::<u8>(),
            ], 0..40),
        ) {
            prop_assert!(!is_clean_at_a_glance(&path) || validate_each_byte(&path).is_ok());
        }
    }

    #[test]
    fn clean_relative_paths_pass() {
        let long = [b'n'; 255];
        let odd = b"a/-rf/\xff\xfe/line\nbreak/...";
        for path in [&b""[..], b"a", b"a/b", b".hidden", b"a..b", odd, &long] {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn paths_that_could_leave_or_confuse_do_not() {
        let long_name = [b'n'; 256];
        let long_path = b"a/".repeat(40_000);
        let bad = [
            &b"/"[..],
            b"/a",
            b"a/",
            b"a//b",
            b".",
            b"..",
            b"a/..",
            b"../a",
            b"a/./b",
            b"a\0b",
            &long_name,
            &long_path,
        ];
        for path in bad {
            assert!(validate(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn targets_are_free_but_bounded() {
        assert_eq!(validate_target(b"../../etc/passwd"), Ok(()));
        assert_eq!(validate_target(&[b'x'; 4095]), Ok(()));
        assert!(validate_target(&[b'x'; 4096]).is_err());
        assert!(validate_target(b"").is_err());
        assert!(validate_target(b"a\0").is_err());
    }
}
