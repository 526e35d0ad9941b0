//! Creates and replaces small files in the home directory: privately, completely, one writer at a time, as the home's owner.
//! Knows nothing of their content.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use godwit_sys::acting::Acting;
use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

/// The failed operation, and its file.
#[derive(Debug, Error)]
#[error("cannot {operation} {}: {source}", path.display())]
pub struct HomeError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl HomeError {
    pub(crate) fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            source,
        }
    }
}

/// Creates the directory and its parents, accessible only to the owner; leaves an existing directory unchanged.
pub(crate) fn make_home(home: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
        .map_err(|error| HomeError::new("make the directory", home, error))
}

/// The lock for replacing files in a home directory.
pub(crate) struct HomeLock {
    _file: File,
    /// A service must be able to read files that root changes in its home, and root must follow none of its links.
    _owner: Acting,
}

impl HomeLock {
    /// Waits for the lock.
    pub(crate) fn take(home: &Path) -> Result<Self, HomeError> {
        let path = home.join(LOCK_NAME);
        let owner = Acting::as_owner_of(home)
            .map_err(|error| HomeError::new("act as the owner of", home, error))?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| HomeError::new("open", &path, error))?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        _file: file,
                        _owner: owner,
                    });
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(HomeError::new("lock", &path, errno.into())),
            }
        }
    }
}

/// Replaces `name` in `home`: readers see the old or the new content, also after a power cut. Needs the [`HomeLock`].
pub(crate) fn write_atomically(home: &Path, name: &str, content: &[u8]) -> Result<(), HomeError> {
    let temporary = home.join(format!(".{name}.new"));
    let path = home.join(name);
    // The permissions of a file that a killed writer left must not be reused.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(HomeError::new("remove", &temporary, error));
        }
        _ => {}
    }
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(home)?.sync_all()
    };
    write().map_err(|error| HomeError::new("write", &path, error))
}

const LOCK_NAME: &str = ".lock";
