//! An export: a directory with a name, and the changes that peers may make to its entries. Does not know peers (`allow`).

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use godwit_api::endpoint::NodePlace;
use godwit_api::watched::{Room, Watched};
use godwit_store::{Confine, FsOptions, FsStorage, RelPath, Storage, Syncs};

use godwit_run::local::Access;

/// A directory that peers may be granted access to.
#[derive(Clone, Debug)]
pub struct Export {
    /// Name of the export, as in `godwit://host/NAME/…`.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// Whether set-user-ID and set-group-ID bits are applied.
    pub set_id: bool,
    /// Whether owner and group are applied: by name if a peer requests it, otherwise by number.
    pub owner: bool,
    /// Whether `security.*` and `trusted.*` attributes are read and applied, if a peer requests it.
    pub security_xattrs: bool,
    /// Whether device nodes are made, if a peer requests it.
    pub devices: bool,
    /// Whether the directory is used only if a file system is mounted at it.
    pub require_mount: bool,
    /// The watch of the export's file system.
    pub watched: Watched,
}

/// Reason why a path in an export cannot be used. Peers and users read it, so it does not contain the path of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// No export has this name, or none was named.
    #[error("this daemon has no export {0:?}; it has: {1}")]
    Unknown(String, String),
    /// The path is invalid.
    #[error("{0:?} is not a path in an export")]
    Path(String),
    /// The directory of the export cannot be opened.
    #[error("the export {name:?} cannot be used: {message}")]
    Closed {
        /// Name of the export.
        name: String,
        /// Description of the error.
        message: String,
    },
    /// The file system of the export does not respond now.
    #[error(
        "the file system of the export {name:?} has not answered this node for {seconds} s; check its mount there"
    )]
    Silent {
        /// Name of the export.
        name: String,
        /// How long the file system has not responded.
        seconds: u64,
    },
    /// According to the cluster, it is another file system than at the other nodes.
    #[error(
        "the export {name:?} is a different file system at this node than at most nodes of its cluster, or is not mounted; mount it there as at the other nodes"
    )]
    Odd {
        /// Name of the export.
        name: String,
    },
    /// The export must be a mount, but no file system is mounted.
    #[error(
        "nothing is mounted at the directory of the export {name:?}, which must be a mount (require-mount); mount its file system"
    )]
    NotMounted {
        /// Name of the export.
        name: String,
    },
}

/// A place of the form `NAME/below`, memory or nothing.
pub(crate) enum ExportPath<'a> {
    /// `null:`
    Null,
    /// `mem:SIZE`
    Memory(u64),
    /// A path in an export.
    Below(&'a Export, RelPath),
}

impl ExportPath<'_> {
    /// The name and the path for which a right is required. Memory has names that no export can have.
    pub(crate) fn named(&self) -> (&str, RelPath) {
        match self {
            Self::Null => ("null:", RelPath::root()),
            Self::Memory(_) => ("mem:", RelPath::root()),
            Self::Below(export, below) => (&export.name, below.clone()),
        }
    }
}

/// Finds the place that a path names. An error contains the names of exports, so it is only for peers with a grant.
pub(crate) fn locate<'a>(
    exports: &'a [Export],
    path: &[u8],
) -> Result<ExportPath<'a>, ExportError> {
    let text = || String::from_utf8_lossy(path).into_owned();
    match NodePlace::from_wire(path).map_err(|_error| ExportError::Path(text()))? {
        NodePlace::Null => Ok(ExportPath::Null),
        NodePlace::Memory { bytes } => Ok(ExportPath::Memory(bytes)),
        NodePlace::Export {
            name, path: below, ..
        } => {
            let export = exports
                .iter()
                .find(|export| export.name == name)
                .ok_or_else(|| {
                    let names: Vec<&str> =
                        exports.iter().map(|export| export.name.as_str()).collect();
                    ExportError::Unknown(name.clone(), names.join(", "))
                })?;
            let below = RelPath::parse(&below).map_err(|_error| ExportError::Path(text()))?;
            Ok(ExportPath::Below(export, below))
        }
    }
}

impl ExportError {
    /// Whether the error may disappear without a change of the node's settings.
    pub(crate) const fn passes(&self) -> bool {
        matches!(
            self,
            Self::Silent { .. } | Self::Odd { .. } | Self::NotMounted { .. }
        )
    }
}

impl Export {
    /// Refuses an export whose use would hang or whose mount is missing, without using the file system.
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        let name = self.name.clone();
        if let Some(lasts) = self.watched.hangs_for(Instant::now()) {
            let seconds = lasts.as_secs();
            return Err(ExportError::Silent { name, seconds });
        }
        match self.watched.is_odd() {
            true => Err(ExportError::Odd { name }),
            false => Ok(()),
        }
    }

    /// The free space of its file system at the latest check.
    pub(crate) fn room(&self) -> Option<Room> {
        self.watched.room_or(|| crate::watch::room_of(&self.path))
    }

    /// Opens the export for a transfer with this access. Also returns the real path of the opened directory, because a link above it
    /// may change later.
    pub(crate) fn open(
        &self,
        spill: &Path,
        access: Access,
        syncs: &Syncs,
    ) -> Result<(Arc<dyn Storage>, Vec<u8>), ExportError> {
        self.check()?;
        if self.require_mount && !is_mount(&self.path) {
            return Err(ExportError::NotMounted {
                name: self.name.clone(),
            });
        }
        // If the real path cannot be determined, opening the directory fails with a reason.
        let real = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let preserve = access.preserve;
        let options = FsOptions {
            direct: access.direct,
            allow_set_id: self.set_id,
            allow_owner: self.owner,
            allow_privileged_xattrs: self.security_xattrs,
            allow_devices: self.devices,
            read_xattrs: preserve.xattrs,
            read_acls: preserve.acls,
            umask_cleared: true,
            syncs: syncs.clone(),
            ..FsOptions::new(Confine::Export)
        };
        let storage =
            FsStorage::open_with(&real, spill, options).map_err(|error| ExportError::Closed {
                name: self.name.clone(),
                message: error.to_string(),
            })?;
        Ok((Arc::new(storage), real.into_os_string().into_vec()))
    }
}

/// Whether a file system is mounted at the directory: its device differs from its parent's, or it is the root.
fn is_mount(path: &Path) -> bool {
    let above = path.parent().map_or(path, |above| above);
    match (std::fs::metadata(path), std::fs::metadata(above)) {
        (Ok(own), Ok(above)) => own.dev() != above.dev() || own.ino() == above.ino(),
        _ => false,
    }
}
