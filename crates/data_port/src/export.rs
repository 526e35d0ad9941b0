//! An export: a directory with a name, and the changes that peers may make to its entries. Does not know peers (`allow`).

mod own;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use godwit_api::endpoint::NodePlace;
use godwit_api::watched::{Room, Watched};
use godwit_store::digest::{DigestKind, digest_slice};
use godwit_store::{
    Confine, FsOptions, FsStorage, RelPath, RootDirectory, Storage, StoreError, StoreErrorKind,
    Syncs,
};

use godwit_run::Process;
use godwit_run::local::Access;
use godwit_tree::arriving::Arrivals;

pub use own::OwnPlaces;

/// A directory that peers may be granted access to.
#[derive(Clone, Debug)]
pub struct Export {
    /// Name of the export, as in `godwit://host/NAME/…`.
    pub name: String,
    /// The directory. Its path is absolute and real: a link in it is not followed.
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
    /// The files that go to the export through the transfer buffer of the node; see [`Self::arrive`].
    pub arrivals: Option<Arrivals>,
    /// Places that peers never reach or change through this export.
    pub bounds: ExportBounds,
}

/// Places that no access rule opens.
#[derive(Clone, Debug, Default)]
pub struct ExportBounds {
    /// The node's own places, which the directory must not reach.
    pub own: OwnPlaces,
    /// Directories of other exports below this one, which stay where they are.
    pub lasting: Arc<[RelPath]>,
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
    /// A link was put on the path to the directory.
    #[error(
        "the export {name:?} cannot be used: a symbolic link was put in the path of its directory, and is not followed; if its operator did so, start the node again"
    )]
    Led {
        /// Name of the export.
        name: String,
    },
    /// The directory overlaps the node's own files.
    #[error(
        "the export {name:?} cannot be used: its directory now overlaps the files that decide the rights at this node"
    )]
    Own {
        /// Name of the export.
        name: String,
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
    /// According to the cluster, the export is another file system here than at the other nodes.
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
        if self.watched.is_closed() {
            let message =
                "its directory must not be exported, as the log of the node says".to_owned();
            return Err(ExportError::Closed { name, message });
        }
        if let Some(lasts) = self.watched.hangs_for(Instant::now()) {
            let seconds = lasts.as_secs();
            return Err(ExportError::Silent { name, seconds });
        }
        match self.watched.is_odd() {
            true => Err(ExportError::Odd { name }),
            false => Ok(()),
        }
    }

    /// From now on no request to one of these exports moves, removes or replaces the directory of another one, nor a directory above it.
    pub fn keep_places(exports: &mut [Self]) {
        let paths: Vec<PathBuf> = exports.iter().map(|export| export.path.clone()).collect();
        for export in exports {
            let below = paths.iter().filter_map(|other| {
                let below = other.strip_prefix(&export.path).ok()?;
                RelPath::parse(below.as_os_str().as_bytes()).ok()
            });
            export.bounds.lasting = below.filter(|below| !below.is_root()).collect();
        }
    }

    /// The free space of its file system at the latest check.
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        self.watched.room_or(|| self.room_now())
    }

    /// The free space of its file system; `None` if the export cannot be used. Blocks for as long as the file system does.
    pub(crate) fn room_now(&self) -> Option<Room> {
        let room = self.usable().ok()?.room().ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(room.f_frsize);
        Some(Room {
            free: bytes(room.f_bavail),
            total: bytes(room.f_blocks),
        })
    }

    /// Opens its directory. All use of the export begins here: a writer above the directory, on this machine or through another export,
    /// may have put another one in its place.
    ///
    /// # Errors
    /// The directory is missing, a link leads to it, or the node's own files can be reached by it.
    pub fn directory(&self) -> Result<RootDirectory, ExportError> {
        let name = || self.name.clone();
        let closed = |message: String| ExportError::Closed {
            name: name(),
            message,
        };
        let opened = RootDirectory::real(&self.path);
        let opened = opened.map_err(|error: StoreError| match error.kind {
            StoreErrorKind::Escape => ExportError::Led { name: name() },
            _ => closed(error.to_string()),
        })?;
        let meets = self.bounds.own.meet(&opened);
        match meets.map_err(|error| closed(error.to_string()))? {
            true => Err(ExportError::Own { name: name() }),
            false => Ok(opened),
        }
    }

    /// Opens its directory if a file system is mounted there, or need not be.
    fn usable(&self) -> Result<RootDirectory, ExportError> {
        let directory = self.directory()?;
        match self.require_mount && !directory.is_mount() {
            true => Err(ExportError::NotMounted {
                name: self.name.clone(),
            }),
            false => Ok(directory),
        }
    }

    /// The name under which copies of its contents are kept: another one if the export gets another name or directory.
    #[must_use]
    pub fn origin(&self) -> [u8; 16] {
        let path = self.path.as_os_str().as_bytes();
        let name = self.name.as_bytes();
        // No name of an export contains a zero.
        let text = [name, b"\0".as_slice(), path].concat();
        let bytes = text.len() as u64;
        let digest = digest_slice(DigestKind::Blake3, 0, bytes, &text);
        digest.0.first_chunk().copied().unwrap_or_default()
    }

    /// From now on files that wait in the buffer of the process count as files of the export. With `takes`, arriving files go there.
    pub fn arrive(&mut self, process: &Process, takes: bool) {
        let buffer = process.buffer.as_ref();
        let arrivals = buffer.map(|buffer| Arrivals::new(buffer, &self.name, self.origin(), takes));
        self.arrivals = arrivals;
    }

    /// Sets whether other nodes serve the export, too: they do not see files that wait here, so arriving ones then go there at once. Returns
    /// whether that is news for an export whose files would arrive on flash.
    #[must_use]
    pub fn share(&self, is_shared: bool) -> bool {
        let arrivals = self.arrivals.as_ref();
        arrivals.is_some_and(|arrivals| arrivals.share(is_shared))
    }

    /// Opens the export for a transfer with this access. Also returns the path of its directory.
    pub(crate) fn open(
        &self,
        spill: &Path,
        access: Access,
        syncs: &Syncs,
    ) -> Result<(Arc<dyn Storage>, Vec<u8>), ExportError> {
        let storage = self.open_itself(spill, access, syncs)?;
        let storage = match &self.arrivals {
            Some(arrivals) => arrivals.wrap(storage),
            None => storage,
        };
        Ok((storage, self.path.as_os_str().as_bytes().to_vec()))
    }

    /// Opens the export without the files that wait in the buffer.
    pub(crate) fn open_itself(
        &self,
        spill: &Path,
        access: Access,
        syncs: &Syncs,
    ) -> Result<Arc<dyn Storage>, ExportError> {
        self.check()?;
        let directory = self.usable()?;
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
            lasting: Arc::clone(&self.bounds.lasting),
            syncs: syncs.clone(),
            origin: Some(self.origin()),
            ..FsOptions::new(Confine::Export)
        };
        let storage =
            FsStorage::below(directory, spill, options).map_err(|error| ExportError::Closed {
                name: self.name.clone(),
                message: error.to_string(),
            })?;
        Ok(Arc::new(storage))
    }
}
