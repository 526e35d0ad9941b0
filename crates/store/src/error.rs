//! Owns the errors of a storage: the operation, the entry and the kind of the error. Does not decide whether to retry.

use crate::path::{PathError, RelPath};
use rustix::io::Errno;
use std::fmt;

/// Kind of an error; callers branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreErrorKind {
    /// No room, or the quota is used up.
    NoSpace,
    /// Not permitted to this user.
    Permission,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The entry does not exist, or no longer exists.
    NotFound,
    /// Not a regular file: a device, socket, FIFO, directory or link.
    NotRegular,
    /// The name is taken: by another name of the same transfer that this file system treats as equal, or by another program.
    Exists,
    /// An entry of another kind has the name.
    TypeConflict,
    /// A symbolic link within the path: following it could leave the root.
    Escape,
    /// The name is longer than the file system allows.
    NameTooLong,
    /// The name has the form of a temporary name.
    Reserved,
    /// The entry changed while it was read.
    Changed,
    /// The device or file system failed.
    Io,
    /// The file system cannot do this.
    Unsupported,
    /// The transfer may no longer change entries, because the claim of its job has ended.
    Fenced,
    /// Another export begins at the directory, or below it, so the directory keeps its name.
    Lasting,
}

/// A failed operation on one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// The operation that failed, as a verb: "open", "write".
    pub operation: &'static str,
    /// The entry, relative to the storage's root.
    pub path: RelPath,
    /// Kind of the error.
    pub kind: StoreErrorKind,
    /// The system's error number, if the system reported the error.
    pub errno: Option<i32>,
}

impl StoreError {
    /// A failure that we found ourselves.
    pub fn new(operation: &'static str, path: &RelPath, kind: StoreErrorKind) -> Self {
        Self {
            operation,
            path: path.clone(),
            kind,
            errno: None,
        }
    }

    /// A failure that the system reported.
    pub fn from_errno(operation: &'static str, path: &RelPath, errno: Errno) -> Self {
        Self {
            operation,
            path: path.clone(),
            kind: StoreErrorKind::of(errno),
            errno: Some(errno.raw_os_error()),
        }
    }

    /// A failure because of an invalid path.
    pub fn from_path(operation: &'static str, path: &RelPath, error: PathError) -> Self {
        let kind = match error {
            PathError::NameTooLong | PathError::TooLong => StoreErrorKind::NameTooLong,
            PathError::Absolute | PathError::Dots => StoreErrorKind::Escape,
            PathError::EmptyComponent | PathError::Nul => StoreErrorKind::Unsupported,
        };
        Self::new(operation, path, kind)
    }
}

impl StoreErrorKind {
    /// The kind of a system error number.
    pub fn of(errno: Errno) -> Self {
        match errno {
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            Errno::ACCESS | Errno::PERM => Self::Permission,
            Errno::ROFS => Self::ReadOnly,
            Errno::NOENT | Errno::STALE => Self::NotFound,
            Errno::EXIST | Errno::NOTEMPTY => Self::Exists,
            Errno::NOTDIR | Errno::ISDIR => Self::TypeConflict,
            Errno::LOOP | Errno::XDEV => Self::Escape,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NXIO | Errno::NODEV => Self::NotRegular,
            Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::FBIG
            | Errno::MLINK
            | Errno::INVAL
            | Errno::ILSEQ => Self::Unsupported,
            _ => Self::Io,
        }
    }

    /// The text of an error message.
    fn text(self) -> &'static str {
        match self {
            Self::NoSpace => "no space left",
            Self::Permission => "permission denied",
            Self::ReadOnly => "the file system is read-only",
            Self::NotFound => "not there",
            Self::NotRegular => "not a regular file",
            Self::Exists => "the name is already taken",
            Self::TypeConflict => "an entry of a different kind already exists there",
            Self::Escape => "a symbolic link is part of the path and is not followed",
            Self::NameTooLong => "the name is too long",
            Self::Reserved => {
                "the name has the form of Godwit's temporary names; if another transfer writes there, wait for it, else rename this entry, or remove it if it is a leftover"
            }
            Self::Changed => "it changed while it was read",
            Self::Io => "input/output error",
            Self::Unsupported => "not supported there",
            Self::Lasting => {
                "another export begins there or below, so this directory is neither removed, renamed nor replaced"
            }
            Self::Fenced => {
                "the claim of this job has ended at this node; the job assigns the work to a member again"
            }
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.operation,
            self.path,
            self.kind.text()
        )?;
        match self.errno {
            // These kinds cover several causes; the system's message distinguishes them.
            Some(errno)
                if matches!(self.kind, StoreErrorKind::Io | StoreErrorKind::Unsupported) =>
            {
                write!(f, " ({})", std::io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_failed_on_which_entry() {
        let path = RelPath::parse(b"run/a\nb").unwrap();
        let error = StoreError::from_errno("open", &path, Errno::ACCESS);
        assert_eq!(
            error.to_string(),
            "cannot open run/a\\nb: permission denied"
        );
        let error = StoreError::from_errno("write", &path, Errno::IO);
        assert!(error.to_string().contains("os error 5"), "{error}");
        assert_eq!(error.kind, StoreErrorKind::Io);
    }
}
