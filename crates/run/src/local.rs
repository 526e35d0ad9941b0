//! Resolves paths of a user's file system to sources and destinations: the storage, the place in it, and the name elsewhere. Reads
//! no contents and adds no access rules: a job may use all files that the process may use.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use godwit_proto::{Fault, FaultCode, Open, Preserve, Side};
use godwit_store::{Confine, FsOptions, FsStorage, RelPath, Storage, StoreErrorKind, Syncs};
pub use godwit_tree::DestinationPlace;
use godwit_tree::{TreeRoot, root_fault};

/// The reason why a path is unusable: whole sentences that include the path.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct LocalError {
    message: String,
    code: FaultCode,
    is_away: bool,
}

impl LocalError {
    /// An unusable path, with a reason that is a whole sentence and includes the path.
    #[must_use]
    pub fn new(code: FaultCode, message: String) -> Self {
        Self {
            message,
            code,
            is_away: false,
        }
    }

    /// A path in an export whose file system is unavailable now.
    #[must_use]
    pub fn away(message: String) -> Self {
        Self {
            is_away: true,
            ..Self::new(FaultCode::IO, message)
        }
    }

    /// Whether the file system of the export is unavailable now.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        self.is_away
    }

    /// Converts to the fault of the source `path`. In messages the name precedes it anyway.
    pub fn into_fault(self, path: &Path) -> Fault {
        let name = format!("{}: ", path.display());
        Fault {
            side: Side::SOURCE,
            code: self.code,
            message: match self.message.strip_prefix(&name) {
                Some(reason) => reason.to_owned(),
                None => self.message,
            },
            ..Fault::default()
        }
    }
}

/// Finds the local ends of jobs that may use exports only. Such a job's paths have the form `/EXPORT/below`.
pub trait ExportedFiles: Send + Sync {
    /// Finds a source; never leaves its export.
    ///
    /// # Errors
    /// The export does not exist, or has no readable entry there.
    fn source(&self, path: &Path, access: Access) -> Result<LocalSource, LocalError>;

    /// Finds a destination; never leaves its export.
    ///
    /// # Errors
    /// The export does not exist, or the destination cannot be opened.
    fn destination(&self, path: &Path, access: Access) -> Result<DestinationPlace, LocalError>;

    /// The absolute path of a destination, which need not exist. `None` if a link is on the path, or the export is unknown or cannot be used
    /// now.
    fn real(&self, _path: &Path) -> Option<Vec<u8>> {
        None
    }

    /// Bytes that this process may still write to the export of the path; `None` if unknown.
    fn free_bytes(&self, path: &Path) -> Option<u64>;

    /// Bytes of files at and below the path that arrived in this time since the Unix epoch, and wait in the transfer buffer.
    fn buffered(&self, _path: &Path, _arrived: &RangeInclusive<Duration>) -> u64 {
        0
    }

    /// How long the file system of this export has not responded; `None` if it responds or is not watched.
    fn silent_for(&self, _export: &str) -> Option<Duration> {
        None
    }

    /// Whether this export became usable again within the time, after it was not.
    fn returned_within(&self, _export: &str, _time: Duration) -> bool {
        false
    }

    /// The reason why only members of a job may write to these absolute paths now, if a claim covers one of them.
    fn claimed(&self, _destinations: &[Vec<u8>]) -> Option<String> {
        None
    }
}

/// Part of the message about a missing parent directory of a destination.
pub const MUST_EXIST: &str = "this directory must exist";
/// Part of the message about a parent that is not a directory.
pub const NO_DIRECTORY: &str = "this is not a directory, so it cannot contain entries";

/// A source.
pub struct LocalSource {
    /// The tree to read.
    pub root: TreeRoot,
    /// The name of the source in a destination directory; empty if only the contents are copied (`.`, `..`, `/`).
    pub name: Vec<u8>,
    /// The absolute path with all followed links resolved, so that it is the same from any directory.
    pub absolute: Vec<u8>,
    /// The user's spelling, see [`called`].
    pub shown: Vec<u8>,
}

/// Requirements of a transfer for the storage at a place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    /// The metadata to read and write.
    pub preserve: Preserve,
    /// Whether contents of large files bypass the page cache.
    pub direct: bool,
}

impl Access {
    /// The access that a client requests.
    pub fn asked(request: &Open) -> Self {
        Self {
            preserve: request.preserve.unwrap_or_default(),
            direct: request.direct,
        }
    }
}

/// Most directories with a separate storage, because each needs descriptors. Other directories share storages if possible.
const OWN_STORAGES_MAX: usize = 64;

/// Finds sources. Files in one directory share its storage.
pub struct Sources<'a> {
    spill: &'a Path,
    base: Option<&'a Path>,
    access: Access,
    /// Storages of directories that contain sources, by their real paths.
    shared: HashMap<PathBuf, Arc<dyn Storage>>,
    /// Real paths of directories, by the user's spelling.
    real: HashMap<PathBuf, PathBuf>,
    own: usize,
}

impl<'a> Sources<'a> {
    /// A finder that has opened nothing yet. Data that does not fit in memory is written to files in `spill`. Relative paths start
    /// at `base`, or at the working directory of the process.
    pub fn new(spill: &'a Path, base: Option<&'a Path>, access: Access) -> Self {
        Self {
            spill,
            base,
            access,
            shared: HashMap::new(),
            real: HashMap::new(),
            own: 0,
        }
    }

    /// Finds a source. With a trailing slash, a link to a directory is followed. Messages contain the path in the user's spelling.
    ///
    /// # Errors
    /// The source does not exist, cannot be opened, or has no name.
    pub fn find(&mut self, path: &Path) -> Result<LocalSource, LocalError> {
        let there = based(path, self.base);
        let bytes = path.as_os_str().as_bytes();
        let follow = bytes.ends_with(b"/");
        let missing = |error: std::io::Error| {
            let why = format!("{}: {error}{}", path.display(), hint(bytes));
            LocalError::new(code_of(&error), why)
        };
        let meta = if follow {
            there.metadata()
        } else {
            there.symlink_metadata()
        }
        .map_err(missing)?;
        let name = last_name(path);
        if follow && !meta.is_dir() {
            let why = format!("{}: not a directory", path.display());
            return Err(LocalError::new(FaultCode::TYPE_CONFLICT, why));
        }
        if meta.is_dir() {
            // The path is a directory or a followed link to one. The directory that the path leads to is copied.
            let real = canonical(&there)?;
            let root = self.directory(&there, &real)?;
            return Ok(LocalSource {
                root,
                name: name.unwrap_or_default(),
                absolute: real.into_os_string().into_vec(),
                shown: called(bytes),
            });
        }
        let (Some(name), Some(parent)) = (name, parent_of(&there)) else {
            let why = format!("{}: this source has no name", path.display());
            return Err(LocalError::new(FaultCode::NAME, why));
        };
        let start = parse(&name, path)?;
        let real = match self.real.get(&parent) {
            Some(real) => real.clone(),
            None => {
                let real = canonical(&parent)?;
                self.real.insert(parent.clone(), real.clone());
                real
            }
        };
        let absolute = join(&real, &name);
        let storage = self.shared(&parent, real)?;
        Ok(LocalSource {
            root: TreeRoot { storage, start },
            name,
            absolute,
            shown: bytes.to_vec(),
        })
    }

    /// A directory as a source: in a separate storage, or, if there are many, in the storage of its parent directory.
    fn directory(&mut self, path: &Path, real: &Path) -> Result<TreeRoot, LocalError> {
        if self.own >= OWN_STORAGES_MAX
            && let (Some(parent), Some(name)) = (real.parent(), last_name(real))
            && let Ok(storage) = self.shared(parent, parent.to_owned())
        {
            let start = parse(&name, path)?;
            return Ok(TreeRoot { storage, start });
        }
        self.own += 1;
        Ok(TreeRoot {
            storage: open(path, self.spill, self.access)?,
            start: RelPath::root(),
        })
    }

    fn shared(&mut self, path: &Path, real: PathBuf) -> Result<Arc<dyn Storage>, LocalError> {
        if let Some(storage) = self.shared.get(&real) {
            return Ok(Arc::clone(storage));
        }
        let storage = open(path, self.spill, self.access)?;
        self.shared.insert(real, Arc::clone(&storage));
        Ok(storage)
    }
}

/// Finds a destination: a name in an existing directory, even if the name is a directory too. Therefore the destination is the same
/// before and after the first run. A relative path starts at `base`, or at the working directory.
///
/// All destinations with the same `syncs` share the syncs of a file system.
///
/// # Errors
/// The parent directory does not exist or cannot be opened.
pub fn destination(
    path: &Path,
    base: Option<&Path>,
    spill: &Path,
    access: Access,
    syncs: &Syncs,
) -> Result<DestinationPlace, LocalError> {
    let bytes = path.as_os_str().as_bytes();
    let is_directory = bytes.ends_with(b"/") || last_name(path).is_none();
    let there = based(path, base);
    // For a link to a directory, or a path without a last name, the destination is the directory that it leads to.
    let real = if there.is_dir() {
        canonical(&there)?
    } else {
        there
    };
    let (name, parent) = match (last_name(&real), parent_of(&real)) {
        (Some(name), Some(parent)) => (name, parent),
        _ => (Vec::new(), real.clone()),
    };
    let storage_path = canonical(&parent)?;
    let name = parse(&name, path)?;
    let shown = parent_of(path)
        .filter(|_| last_name(path).is_some())
        .unwrap_or_else(|| parent.clone());
    let display = if shown == Path::new(".") && !bytes.starts_with(b".") {
        Vec::new()
    } else {
        shown.into_os_string().into_vec()
    };
    Ok(DestinationPlace {
        // Key, lock and writes concern the same directory, even if a link is changed meanwhile.
        storage: open_as(&storage_path, &parent, spill, access, syncs)?,
        storage_path: storage_path.into_os_string().into_vec(),
        base: name,
        is_directory,
        display,
    })
}

/// A guess at what the user meant by a source that does not exist.
pub fn hint(path: &[u8]) -> &'static str {
    if path.iter().any(|byte| b"*?[".contains(byte)) {
        "; patterns in names are not expanded: name the directory, and choose its entries with --include and --exclude"
    } else if path.starts_with(b"~") || path.windows(2).any(|pair| pair == b"/~") {
        "; of the forms with ~ only ~/ at the beginning is expanded, to the home directory"
    } else {
        ""
    }
}

/// Joins a path to its base. Absolute paths replace the base; a trailing slash stays.
fn based(path: &Path, base: Option<&Path>) -> PathBuf {
    base.map_or_else(|| path.to_owned(), |base| base.join(path))
}

fn open(root: &Path, spill: &Path, access: Access) -> Result<Arc<dyn Storage>, LocalError> {
    // Nothing is written to a source, so there is no sync to share.
    open_as(root, root, spill, access, &Syncs::default())
}

/// Opens `root`, with the name `shown` in messages.
fn open_as(
    root: &Path,
    shown: &Path,
    spill: &Path,
    access: Access,
    syncs: &Syncs,
) -> Result<Arc<dyn Storage>, LocalError> {
    let preserve = access.preserve;
    let options = FsOptions {
        umask_cleared: true,
        direct: access.direct,
        // These bits make a program run as the file's owner. Only a copy that keeps owners has the right owner.
        allow_set_id: preserve.owner && preserve.group,
        read_xattrs: preserve.xattrs,
        read_acls: preserve.acls,
        syncs: syncs.clone(),
        ..FsOptions::new(Confine::Local)
    };
    let storage = FsStorage::open_with(root, spill, options).map_err(|error| {
        let root = shown.display();
        let why = match error.kind {
            StoreErrorKind::TypeConflict => {
                format!("{root}: {NO_DIRECTORY}")
            }
            _ => format!("{root}: {error}"),
        };
        LocalError::new(root_fault(&error).code, why)
    })?;
    Ok(Arc::new(storage))
}

/// The last component, if it is a name: not `.`, `..` or nothing.
pub fn last_name(path: &Path) -> Option<Vec<u8>> {
    let bytes = trimmed(path.as_os_str().as_bytes());
    let last = bytes.rsplit(|byte| *byte == b'/').next()?;
    (!matches!(last, b"" | b"." | b"..")).then(|| last.to_vec())
}

fn parent_of(path: &Path) -> Option<PathBuf> {
    let bytes = trimmed(path.as_os_str().as_bytes());
    let at = bytes.iter().rposition(|byte| *byte == b'/');
    Some(match at {
        Some(0) => PathBuf::from("/"),
        Some(at) => PathBuf::from(OsStr::from_bytes(&bytes[..at])),
        None => PathBuf::from("."),
    })
}

/// Prefix of the names below a directory in messages: without slashes at its end, nor the `/.` that means "its contents".
pub fn called(path: &[u8]) -> Vec<u8> {
    let mut called = trimmed(path);
    while let Some(rest) = called.strip_suffix(b"/.") {
        called = trimmed(rest);
    }
    if called.is_empty() && !path.is_empty() {
        called.push(b'/');
    }
    called
}

/// Removes slashes at the end.
fn trimmed(bytes: &[u8]) -> Vec<u8> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    bytes[..end].to_vec()
}

fn canonical(path: &Path) -> Result<PathBuf, LocalError> {
    std::fs::canonicalize(path).map_err(|error| {
        let shown = if path == Path::new("") {
            ".".to_owned()
        } else {
            path.display().to_string()
        };
        let why = format!("{shown}: {error}; {MUST_EXIST}");
        LocalError::new(code_of(&error), why)
    })
}

fn parse(name: &[u8], path: &Path) -> Result<RelPath, LocalError> {
    RelPath::parse(name)
        .map_err(|error| LocalError::new(FaultCode::NAME, format!("{}: {error}", path.display())))
}

fn code_of(error: &std::io::Error) -> FaultCode {
    match error.kind() {
        ErrorKind::NotFound => FaultCode::NOT_FOUND,
        ErrorKind::PermissionDenied => FaultCode::PERMISSION,
        ErrorKind::NotADirectory => FaultCode::TYPE_CONFLICT,
        _ => FaultCode::IO,
    }
}

fn join(parent: &Path, name: &[u8]) -> Vec<u8> {
    parent
        .join(OsStr::from_bytes(name))
        .into_os_string()
        .into_vec()
}
