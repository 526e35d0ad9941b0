//! `GODWIT_HOME`: the one directory of keys, known peers, grants, journals and the settings file. Knows
//! the locations of files, not their contents.

use godwit_api::failure::{Failure, FailureCode};
use godwit_net::Identity;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory; it exists and, if it was created here, only its owner may enter.
#[derive(Clone, Debug)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// The directory at this path, which is absolute; it may be missing.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Creates the directory if it is missing.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn make(&self) -> Result<(), Failure> {
        make(&self.path)
    }

    /// The identity of this node; the first call creates the key.
    ///
    /// # Errors
    /// The key cannot be read or made.
    pub fn identity(&self) -> Result<Identity, Failure> {
        Identity::load_or_create(self.path()).map_err(|error| {
            Failure::new(FailureCode::HomeUnusable, error).about(self.path().display())
        })
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The settings file, which may be absent.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// Directory of the receivers' journals.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn journals(&self) -> Result<PathBuf, Failure> {
        self.directory("journals")
    }

    /// Directory of data that scans spill from memory.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn spill(&self) -> Result<PathBuf, Failure> {
        self.directory("spill")
    }

    /// Directory of the sockets of running transfers.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn running(&self) -> Result<PathBuf, Failure> {
        self.directory("running")
    }

    fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        make(&path)?;
        Ok(path)
    }
}

fn make(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| {
            Failure::new(FailureCode::HomeUnusable, format!(
                "{}: this directory for keys and journals cannot be made: {error}; set GODWIT_HOME to a directory that you may write to",
                path.display()
            ))
        })
}
