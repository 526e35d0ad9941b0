//! Finds the manifest of a verification: a file of the user, or one in an export of this node. Does
//! not parse the manifest.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use godwit_api::failure::{Failure, FailureCode};
use godwit_store::{Meta, ReadFile, RelPath};
use godwit_tree::TreeRoot;

use crate::env::Env;
use crate::local::Access;

/// A manifest that can be opened more than once.
pub(super) struct ManifestFile {
    /// The path in messages.
    pub(super) shown: String,
    place: ManifestSource,
}

enum ManifestSource {
    /// A file that this process may open.
    Path(PathBuf),
    /// A file that only its storage may open, so that links on the path are not followed.
    Stored(TreeRoot),
}

impl ManifestFile {
    /// Finds the manifest. A job that is limited to exports finds it only in an export.
    pub(super) fn find(env: &Env, path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let place = match &env.exports {
            None => ManifestSource::Path(env.resolve(path)),
            Some(exports) => {
                let found = exports.source(path, Access::default());
                let found = found.map_err(|error| {
                    Failure::new(FailureCode::InputUnusable, error).about(&shown)
                })?;
                ManifestSource::Stored(found.root)
            }
        };
        Ok(Self { shown, place })
    }

    /// A manifest that the node keeps itself, in no export.
    pub(super) fn of_node(path: &Path) -> Self {
        Self {
            shown: "the manifest".to_owned(),
            place: ManifestSource::Path(path.to_owned()),
        }
    }

    /// Opens the manifest at its beginning.
    pub(super) fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.place {
            ManifestSource::Path(path) => Box::new(File::open(path)?),
            ManifestSource::Stored(root) => {
                let file = root.storage.open(&root.start).map_err(io::Error::other)?;
                Box::new(FromStorage { file, at: 0 })
            }
        })
    }

    /// Device and inode of the manifest.
    pub(super) fn key(&self) -> Option<(u64, u64)> {
        match &self.place {
            ManifestSource::Path(path) => path.metadata().ok().map(key),
            ManifestSource::Stored(root) => stored_key(root, &root.start),
        }
    }

    /// Device and inode of the manifest's directory.
    pub(super) fn directory_key(&self) -> Option<(u64, u64)> {
        match &self.place {
            ManifestSource::Path(path) => {
                let real = path.canonicalize().ok()?;
                real.parent()?.metadata().ok().map(key)
            }
            ManifestSource::Stored(root) => stored_key(root, &root.start.parent()?),
        }
    }
}

fn key(there: Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

fn stored_key(root: &TreeRoot, path: &RelPath) -> Option<(u64, u64)> {
    let key = |there: Meta| (there.device, there.inode);
    root.storage.stat(path).ok().flatten().map(key)
}

/// A file of a storage, read from start to end.
struct FromStorage {
    file: Box<dyn ReadFile>,
    at: u64,
}

impl Read for FromStorage {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.at, buffer);
        let bytes = read.map_err(io::Error::other)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}
