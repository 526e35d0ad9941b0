//! Owns the form of record extensions: a list of type, length, value, for future properties of entries. Does not
//! interpret them; unknown types are kept.

use crate::error::WireError;

/// The fault of an entry that failed at the source: a fault code (u16) and a text; in records with `SOURCE_FAILED`.
pub const FAULT: u16 = 1;

/// The first name of a link or special file with several names, below the same root; in the records of its additional
/// names.
pub const FIRST_NAME: u16 = 12;

/// Appends one extension.
///
/// # Errors
/// `value` is longer than 65,535 bytes.
pub fn push(out: &mut Vec<u8>, kind: u16, value: &[u8]) -> Result<(), WireError> {
    let Ok(length) = u16::try_from(value.len()) else {
        return Err(WireError::too_long("extension", u64::from(u16::MAX)));
    };
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// The extensions in `bytes`, each as type and value.
pub fn iter(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), WireError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = split(rest);
        rest = next.map_or(&[], |(_, _, rest)| rest);
        Some(
            next.map(|(kind, value, _)| (kind, value))
                .ok_or(WireError::Short {
                    what: "an extension",
                }),
        )
    })
}

/// Checks that `bytes` is a whole number of extensions.
///
/// # Errors
/// The last one is cut short.
pub fn validate(bytes: &[u8]) -> Result<(), WireError> {
    iter(bytes).try_for_each(|extension| extension.map(|_| ()))
}

fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((u16::from_le_bytes(*kind), value, rest))
}

#[cfg(test)]
mod tests {
    use super::{iter, push, validate};

    #[test]
    fn extensions_come_back_in_order() {
        let mut bytes = Vec::new();
        push(&mut bytes, 1, b"one").unwrap();
        push(&mut bytes, 999, b"").unwrap();
        let all: Vec<_> = iter(&bytes).collect::<Result<_, _>>().unwrap();
        assert_eq!(all, [(1, &b"one"[..]), (999, b"")]);
        assert!(
            (1..bytes.len())
                .filter(|cut| *cut != 7)
                .all(|cut| validate(&bytes[..cut]).is_err())
        );
        assert!(push(&mut bytes, 1, &[0; 65_536]).is_err());
    }
}
