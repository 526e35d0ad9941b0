//! Owns the faults of the files of the state: the file, the cause, and the remedy. Does not contain
//! refusals of commands, which are `CommandError`.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::seal;

/// A failure of a file of the state.
#[derive(Debug, Error)]
#[error("{}: {kind}", file.display())]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The fault of the file.
    #[source]
    pub kind: FaultKind,
}

/// The kind of a fault of a file of the state.
#[derive(Debug, Error)]
pub enum FaultKind {
    /// The file system is full, or a quota is exhausted.
    #[error(
        "the file system is full. Nothing was changed; make room and start the node again ({0})"
    )]
    Full(String),
    /// The content is inconsistent.
    #[error(
        "the file is damaged ({0}). The file was left unchanged; restore a backup with `godwit restore`"
    )]
    Damaged(String),
    /// Inconsistent bytes were read; the file itself may be undamaged.
    #[error(
        "the data that was read is inconsistent ({0}); the disk may have failed. Restart the node: it checks the file, and says whether it is damaged"
    )]
    Unsound(String),
    /// The file does not belong to a node's state.
    #[error("this file does not belong to a node's state; name the right directory")]
    Foreign,
    /// The file is from a newer program.
    #[error(
        "the file has version {version}; this program knows versions up to {newest}. Run the newer program, \
         or restore a backup of this version"
    )]
    Newer {
        /// Version of the file.
        version: usize,
        /// Newest version that this program knows.
        newest: usize,
    },
    /// The levels of the program and the cluster are too far apart.
    #[error("{0}")]
    Level(String),
    /// Another process uses the state.
    #[error("another process uses the state; stop it first")]
    Locked,
    /// The files of the state do not belong together.
    #[error("{0}. Restore a backup with `godwit restore`")]
    Apart(String),
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// SQLite failed in another way.
    #[error("{0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl Fault {
    pub(crate) fn new(file: &Path, kind: FaultKind) -> Self {
        Self {
            file: file.to_owned(),
            kind,
        }
    }

    pub(crate) fn io(file: &Path, error: io::Error) -> Self {
        let full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let kind = if full {
            FaultKind::Full(error.to_string())
        } else {
            FaultKind::Io(error)
        };
        Self::new(file, kind)
    }

    /// A failure while the file is in use. A failing disk can also appear as inconsistent content.
    pub(crate) fn sqlite(file: &Path, error: rusqlite::Error) -> Self {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => FaultKind::Full(error.to_string()),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                FaultKind::Unsound(error.to_string())
            }
            _ => match seal::broken(&error) {
                Some(broken) => FaultKind::Unsound(broken.to_string()),
                None => FaultKind::Sqlite(error),
            },
        };
        Self::new(file, kind)
    }

    /// A failure during the check at startup.
    pub(crate) fn sqlite_opening(file: &Path, error: rusqlite::Error) -> Self {
        let fault = Self::sqlite(file, error);
        match fault.kind {
            FaultKind::Unsound(what) => Self::new(file, FaultKind::Damaged(what)),
            _ => fault,
        }
    }

    /// Whether the file system was full.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self.kind, FaultKind::Full(_))
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        let kind = if fault.is_full() {
            io::ErrorKind::StorageFull
        } else {
            io::ErrorKind::Other
        };
        Self::new(kind, fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn failed(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_the_check_at_a_start_calls_a_file_damaged() {
        let file = Path::new("state.db");
        let used = |code| Fault::sqlite(file, failed(code)).to_string();
        let opened = |code| Fault::sqlite_opening(file, failed(code)).to_string();
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            assert!(used(code).contains("Restart the node"), "{}", used(code));
            assert!(!used(code).contains("restore"), "{}", used(code));
            assert!(opened(code).contains("restore a backup"), "{code}");
        }
        // The disk has lost power, which is not an error of the file.
        for code in [
            ffi::SQLITE_IOERR_READ,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_CANTOPEN,
        ] {
            for said in [used(code), opened(code)] {
                assert!(!said.contains("damaged"), "{said}");
                assert!(!said.contains("restore"), "{said}");
            }
        }
        assert!(Fault::sqlite(file, failed(ffi::SQLITE_FULL)).is_full());
    }
}
