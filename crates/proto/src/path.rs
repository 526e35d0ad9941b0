//! Owns the rules for paths that a peer names: relative, clean, bounded.
//! Looks at no file system; what a path means there is for the storage to guard.

use crate::error::WireError;
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, TARGET_BYTES_MAX};

/// Checks a path relative to a root: components of 1 to 255 bytes separated by single slashes, none of them `.` or
/// `..`, no NUL, 65,535 bytes at most. Any other byte is allowed, UTF-8 or not. The empty path is the root itself.
///
/// # Errors
/// The rule that the path breaks.
pub fn validate(path: &[u8]) -> Result<(), WireError> {
    if path.is_empty() {
        return Ok(());
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(WireError::too_long("path", PATH_BYTES_MAX as u64));
    }
    let mut rest = path;
    loop {
        // One look at each byte for both: every record passes here, at both ends.
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

/// Checks the target of a symbolic link: 1 to 4095 bytes without NUL. It may point anywhere; nobody follows it.
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
    use super::{validate, validate_target};

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
