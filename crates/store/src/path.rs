//! Owns the names of entries: byte paths relative to a storage's root, and the temporary names beside them. Opens no
//! files; the code that opens a path also makes sure that it stays beneath the root in the file system.

use crate::journal::CLAIM_BYTES;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Longest path in bytes, as in the protocol.
pub const PATH_BYTES_MAX: usize = 65_535;
/// Longest name of one component in bytes, as in every Linux file system.
pub const NAME_BYTES_MAX: usize = 255;

/// A valid path relative to a root: components without `.`, `..`, empty ones or NUL; the empty path is the root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath(Vec<u8>);

/// Reason why bytes are not a valid path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path begins with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// The path contains `//` or ends with `/`.
    #[error("the path has an empty component")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("the path has a component . or ..")]
    Dots,
    /// The path contains a zero byte.
    #[error("the path has a zero byte")]
    Nul,
    /// A component is longer than [`NAME_BYTES_MAX`].
    #[error("a name in the path is longer than {NAME_BYTES_MAX} bytes")]
    NameTooLong,
    /// The path is longer than [`PATH_BYTES_MAX`].
    #[error("the path is longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
}

impl RelPath {
    /// The root itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// The root. It reuses the memory of a path that is no longer needed.
    pub(crate) fn in_memory(mut path: Vec<u8>) -> Self {
        path.clear();
        Self(path)
    }

    /// The directory above this path with this many bytes, or the path itself.
    pub(crate) fn start(&self, length: usize) -> Self {
        Self(self.0[..length].to_vec())
    }

    /// Checks `bytes` and converts them to a path. Nothing is normalised: an invalid path is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        check(bytes)?;
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes of the path, with `/` between components.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Whether this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        self.split().map(|(parent, _)| Self(parent.to_vec()))
    }

    /// The directories above this path, the nearest first. Made one at a time, because a long path can have 32,000 of them.
    pub fn above(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// As [`Self::above`], from the root on.
    pub fn above_from_root(&self) -> impl Iterator<Item = Self> {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends = std::iter::once(0).chain(slashes.map(|(at, _)| at));
        let is_root = self.is_root();
        ends.map(|end| self.start(end)).filter(move |_| !is_root)
    }

    /// The last component; `None` for the root.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.split().map(|(_, name)| name)
    }

    /// Bytes of the parent and the last component, without a copy; `None` for the root.
    pub fn split(&self) -> Option<(&[u8], &[u8])> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        })
    }

    /// This path followed by `below`, which may have several components (or none).
    pub fn join(&self, below: &[u8]) -> Result<Self, PathError> {
        let mut joined = Self::root();
        self.join_in(below, &mut joined)?;
        Ok(joined)
    }

    /// Like [`RelPath::join`], but reuses the memory of `joined` and replaces its contents; `joined` is the root after an
    /// error.
    pub fn join_in(&self, below: &[u8], joined: &mut Self) -> Result<(), PathError> {
        joined.0.clear();
        check(below)?;
        let slash = !self.is_root() && !below.is_empty();
        let length = self.0.len() + usize::from(slash) + below.len();
        if length > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        joined.0.reserve_exact(length);
        joined.0.extend_from_slice(&self.0);
        if slash {
            joined.0.push(b'/');
        }
        joined.0.extend_from_slice(below);
        Ok(())
    }

    /// The components in order; none for the root.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0
            .split(|byte| *byte == b'/')
            .filter(|component| !component.is_empty())
    }

    /// Whether this is `other` or lies below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        other.is_root()
            || (self.0.starts_with(&other.0)
                && matches!(self.0.get(other.0.len()), None | Some(b'/')))
    }
}

fn check(bytes: &[u8]) -> Result<(), PathError> {
    match bytes.first() {
        None => return Ok(()),
        Some(b'/') => return Err(PathError::Absolute),
        Some(_) if bytes.len() > PATH_BYTES_MAX => return Err(PathError::TooLong),
        Some(_) => {}
    }
    let mut rest = bytes;
    loop {
        // One pass over the bytes finds both.
        let end = rest.iter().position(|byte| matches!(byte, b'/' | 0));
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        if after.first() == Some(&0) {
            return Err(PathError::Nul);
        }
        check_name(name)?;
        match after.split_first() {
            Some((_, below)) => rest = below,
            None => return Ok(()),
        }
    }
}

fn check_name(component: &[u8]) -> Result<(), PathError> {
    match component {
        b"" => Err(PathError::EmptyComponent),
        b"." | b".." => Err(PathError::Dots),
        name if name.len() > NAME_BYTES_MAX => Err(PathError::NameTooLong),
        _ => Ok(()),
    }
}

/// For messages: control characters, backslashes and invalid UTF-8 are escaped; the root is `.`.
impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || character == '\\' {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Prefix of every temporary name.
pub const TEMP_PREFIX: &[u8] = b".godwit-";
/// Length of every temporary name in bytes: the prefix and 16 bytes in hexadecimal.
pub const TEMP_NAME_BYTES: usize = TEMP_PREFIX.len() + 32;

/// The tag of all removals at the source. It belongs to no transfer, so only `clean` touches these names.
const REMOVAL_TAG: u64 = u64::from_be_bytes(*b"removing");

/// The name under which an entry is written until it is complete. It is in the directory of the final name, and the same
/// in every run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TempName([u8; TEMP_NAME_BYTES]);

impl Hash for TempName {
    /// Hashes only the part that differs between the names of one transfer, because each name is looked up several times.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0[TEMP_NAME_BYTES - 16..]);
    }
}

impl TempName {
    /// The temporary name of `path` in the transfer with this `tag`.
    pub fn new(tag: u64, path: &RelPath) -> Self {
        Self::of_hash(tag, &blake3::hash(path.as_bytes()))
    }

    /// A temporary name of `path` that the members of a claim with this `tag` use for one purpose. The name belongs to
    /// one member's own file of `path`, or to the file that all members share.
    pub fn of_member(tag: u64, path: &[u8], purpose: &[u8]) -> Self {
        // The length separates the path from the purpose.
        let length = (path.len() as u64).to_le_bytes();
        let hash = blake3::Hasher::new()
            .update(&length)
            .update(path)
            .update(purpose)
            .finalize();
        Self::of_hash(tag, &hash)
    }

    /// The name of the mark of a claim with this `tag` on `path`.
    pub fn of_mark(tag: u64, path: &RelPath) -> Self {
        Self::of_member(tag, path.as_bytes(), b"mark")
    }

    /// The name of the directories in which one removal at the source has each file before it goes. `text` belongs to this removal alone.
    pub fn of_removal(text: &[u8]) -> Self {
        Self::of_member(REMOVAL_TAG, text, b"removal")
    }

    /// Whether a directory of this name is one of a removal. A file in it that has another name is a user's.
    pub fn is_of_removal(name: &[u8]) -> bool {
        Self::is_ours(name, REMOVAL_TAG)
    }

    fn of_hash(tag: u64, hash: &blake3::Hash) -> Self {
        let (hash, _) = hash.as_bytes().split_at(8);
        let mut name = [0; TEMP_NAME_BYTES];
        name[..TEMP_PREFIX.len()].copy_from_slice(TEMP_PREFIX);
        for (digits, byte) in name[TEMP_PREFIX.len()..]
            .chunks_exact_mut(2)
            .zip(tag.to_be_bytes().iter().chain(hash))
        {
            digits[0] = HEX_DIGITS[usize::from(byte >> 4)];
            digits[1] = HEX_DIGITS[usize::from(byte & 15)];
        }
        Self(name)
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `name` has exactly the form of a temporary name, of any transfer.
    pub fn is_temp(name: &[u8]) -> bool {
        name.len() == TEMP_NAME_BYTES
            && name
                .strip_prefix(TEMP_PREFIX)
                .is_some_and(|hex| hex.iter().all(|digit| HEX_DIGITS.contains(digit)))
    }

    /// The tag of the transfer that uses this temporary name; `None` if the name is not a temporary one.
    pub fn tag_of(name: &[u8]) -> Option<u64> {
        let digits = name.get(TEMP_PREFIX.len()..TEMP_PREFIX.len() + 16)?;
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|_| Self::is_temp(name))?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Whether `name` is a temporary name of the transfer with this `tag`.
    pub fn is_ours(name: &[u8], tag: u64) -> bool {
        let tag = format!("{tag:016x}");
        Self::is_temp(name) && name[TEMP_PREFIX.len()..].starts_with(tag.as_bytes())
    }
}

/// The tag of the temporary files of a claim's members.
pub fn claim_tag(claim: &[u8; CLAIM_BYTES]) -> u64 {
    let hash = blake3::Hasher::new()
        .update(b"godwit claim 1")
        .update(claim)
        .finalize();
    let mut tag = [0; 8];
    tag.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(tag)
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

impl fmt::Display for TempName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for TempName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TempName({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_paths_are_distinguished() {
        for (bytes, error) in [
            (&b"/a"[..], PathError::Absolute),
            (b"/", PathError::Absolute),
            (b"a//b", PathError::EmptyComponent),
            (b"a/", PathError::EmptyComponent),
            (b"..", PathError::Dots),
            (b"a/../b", PathError::Dots),
            (b"./a", PathError::Dots),
            (b"a\0b", PathError::Nul),
            (&[b'n'; 256], PathError::NameTooLong),
            (
                &[b"n/".repeat(40_000), b"n".to_vec()].concat(),
                PathError::TooLong,
            ),
        ] {
            assert_eq!(
                RelPath::parse(bytes),
                Err(error),
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn odd_names_are_valid_and_shown_readably() {
        let path = RelPath::parse(b"-rf/new\nline/\xff\xfe/caf\xc3\xa9/..hidden/b\\s").unwrap();
        assert_eq!(
            path.to_string(),
            "-rf/new\\nline/\\xff\\xfe/café/..hidden/b\\\\s"
        );
        assert_eq!(RelPath::root().to_string(), ".");
    }

    #[test]
    fn below_is_by_component() {
        let a = RelPath::parse(b"a").unwrap();
        assert!(RelPath::parse(b"a/b").unwrap().starts_with(&a));
        assert!(a.starts_with(&a) && a.starts_with(&RelPath::root()));
        assert!(!RelPath::parse(b"ab").unwrap().starts_with(&a));
    }

    #[test]
    fn temp_names_are_recognised_by_form_and_tag() {
        let path = RelPath::parse(b"a/b").unwrap();
        let name = TempName::new(0x0123_4567_89ab_cdef, &path);
        assert!(name.to_string().starts_with(".godwit-0123456789abcdef"));
        assert!(TempName::is_temp(name.as_bytes()));
        assert!(TempName::is_ours(name.as_bytes(), 0x0123_4567_89ab_cdef));
        assert!(!TempName::is_ours(name.as_bytes(), 1));
        assert_ne!(
            name,
            TempName::new(0x0123_4567_89ab_cdef, &RelPath::parse(b"a/c").unwrap())
        );
        for other in [
            &b".godwit-"[..],
            b".godwit-0123456789ABCDEF0123456789ABCDEF",
            b".godwit-notes",
            b"xgodwit-0123456789abcdef0123456789abcdef",
        ] {
            assert!(!TempName::is_temp(other));
        }
    }

    #[test]
    fn members_share_a_name_for_one_purpose_and_have_names_of_their_own() {
        let name = |text: &[u8], purpose: &[u8]| TempName::of_member(7, text, purpose);
        assert_eq!(name(b"a", b"bc"), name(b"a", b"bc"));
        assert_ne!(name(b"a", b"bc"), name(b"ab", b"c"));
        assert_ne!(
            name(b"a", b""),
            TempName::new(7, &RelPath::parse(b"a").unwrap())
        );
        assert!(TempName::is_ours(name(b"a", b"bc").as_bytes(), 7));
    }

    proptest! {
        #[test]
        fn split_and_join_are_inverse(names in proptest::collection::vec("[^/\0.][^/\0]{0,9}", 1..6)) {
            let path = RelPath::parse(names.join("/").as_bytes()).unwrap();
            let parent = path.parent().unwrap();
            prop_assert_eq!(parent.join(path.file_name().unwrap()).unwrap(), path.clone());
            prop_assert_eq!(path.components().count(), names.len());
            prop_assert!(path.starts_with(&parent));
            let mut above: Vec<RelPath> = path.above().collect();
            prop_assert_eq!(above.len(), names.len());
            above.reverse();
            prop_assert_eq!(path.above_from_root().collect::<Vec<_>>(), above);
        }

        #[test]
        fn whatever_is_accepted_cannot_climb(bytes in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(0), any::<u8>()], 0..20)) {
            if let Ok(path) = RelPath::parse(&bytes) {
                prop_assert!(path.components().all(|name| name != b".." && name != b"." && !name.contains(&0)));
                prop_assert!(!bytes.starts_with(b"/"));
            }
        }
    }
}
