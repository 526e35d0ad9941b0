//! Owns the making of a volume on a device, in a file or in a directory, and the reasons to refuse: use by others, and data of others.
//! Asks no user; the caller names the serial that permits the loss of data.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backing::Backing;
use crate::device::{Access, Device};
use crate::directory::Directory;
use crate::foreign;
use crate::in_use::{self, Places};
use crate::inspect::survey;
use crate::layout::SLOTS_MIN;
use crate::superblock::Superblock;
use crate::volume::{Format, format};

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block device.
    Device,
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

impl Kind {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::File => "file",
            Self::Directory => "directory",
        }
    }
}

/// A volume to make.
#[derive(Clone, Debug)]
pub struct Request {
    /// The place.
    pub path: PathBuf,
    /// Size; needed for a directory.
    pub bytes: Option<u64>,
    /// Size of an extent.
    pub extent_bytes: u32,
    /// Identity of the node that will own the volume.
    pub node: String,
    /// The serial of the device whose data may be lost; the path if it has no serial.
    pub force: Option<String>,
    /// Names the volume; random.
    pub id: [u8; 16],
    /// Marks its frames; random.
    pub salt: u64,
    /// The time, since the Unix epoch.
    pub now: Duration,
}

/// Why a volume was not made.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The place is in use.
    #[error("in use: {0}")]
    InUse(String),
    /// The place holds data.
    #[error("holds {what}; to lose it, add --force-format {serial}")]
    Foreign {
        /// The data.
        what: String,
        /// The word that permits its loss.
        serial: String,
    },
    /// The caller named another serial.
    #[error("holds {what}, and --force-format names {named}; the serial of this place is {serial}")]
    OtherSerial {
        /// The data.
        what: String,
        /// The named serial.
        named: String,
        /// The right one.
        serial: String,
    },
    /// A directory has names that belong to no buffer.
    #[error("the directory is not empty: it has {0}; name a new or an empty directory")]
    NotEmpty(String),
    /// A directory has no size.
    #[error("a directory needs a bound: add --bytes")]
    NoBytes,
    /// The place is smaller.
    #[error("has room for {0} bytes only")]
    TooLarge(u64),
    /// Too few extents fit.
    #[error("too small: a transfer buffer has at least {SLOTS_MIN} extents, and its log")]
    TooSmall,
}

/// Finds out what kind of place a path is. A path without anything becomes a directory.
///
/// # Errors
/// The kernel's error; `InvalidInput` if it is another kind.
pub fn kind(path: &Path) -> io::Result<Kind> {
    let kind = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kind::Directory),
        meta => meta?.file_type(),
    };
    match () {
        () if kind.is_block_device() => Ok(Kind::Device),
        () if kind.is_file() => Ok(Kind::File),
        () if kind.is_dir() => Ok(Kind::Directory),
        () => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is neither a block device nor a file nor a directory",
        )),
    }
}

/// Opens the bytes of a volume.
///
/// # Errors
/// As [`Device::open`] and [`Directory::open`].
pub fn open(path: &Path, access: Access) -> io::Result<Box<dyn Backing>> {
    Ok(match kind(path)? {
        Kind::Directory => Box::new(Directory::open(path, access)?),
        Kind::Device | Kind::File => Box::new(Device::open(path, access)?),
    })
}

/// Makes a volume. All data at the place is lost.
///
/// # Errors
/// See [`Refusal`].
pub fn make(request: &Request, places: &Places) -> Result<Superblock, Refusal> {
    match kind(&request.path)? {
        Kind::Directory => in_directory(request),
        Kind::Device | Kind::File => on_device(request, places),
    }
}

fn on_device(request: &Request, places: &Places) -> Result<Superblock, Refusal> {
    let path = &request.path;
    if let Some(reason) = in_use::reason(path, places)? {
        return Err(Refusal::InUse(reason));
    }
    let mut device = Device::open(path, Access::Own).map_err(busy)?;
    let serial = in_use::serial(path, places);
    let serial = serial.unwrap_or_else(|| path.display().to_string());
    if let Some(what) = foreign::find(&device, device.bytes())? {
        permit(request, &serial, &described(what, &device))?;
    }
    let bytes = request.bytes.unwrap_or_else(|| device.bytes());
    device.close_to_others()?;
    device.extend(bytes)?;
    if bytes > device.bytes() {
        return Err(Refusal::TooLarge(device.bytes()));
    }
    write(&device, request, serial, bytes)
}

fn in_directory(request: &Request) -> Result<Superblock, Refusal> {
    let path = &request.path;
    let bytes = request.bytes.ok_or(Refusal::NoBytes)?;
    let serial = path.display().to_string();
    if path.exists() {
        if let Some(stranger) = Directory::strangers(path)?.first() {
            return Err(Refusal::NotEmpty(stranger.clone()));
        }
        match Directory::open(path, Access::Own) {
            Ok(old) => {
                let what = described("a transfer buffer", &old);
                permit(request, &serial, &what)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(busy(error)),
        }
    }
    let above = match path.parent() {
        _ if path.exists() => path.as_path(),
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let room = rustix::fs::statvfs(above).map_err(io::Error::from)?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if bytes > free {
        return Err(Refusal::TooLarge(free));
    }
    if crate::layout::Layout::of(bytes, request.extent_bytes).is_none() {
        return Err(Refusal::TooSmall);
    }
    let directory = Directory::make(path).map_err(busy)?;
    write(&directory, request, serial, bytes)
}

fn write(
    backing: &dyn Backing,
    request: &Request,
    serial: String,
    bytes: u64,
) -> Result<Superblock, Refusal> {
    let wanted = Format {
        id: request.id,
        salt: request.salt,
        node: request.node.clone(),
        serial,
        bytes,
        extent_bytes: request.extent_bytes,
        made: request.now,
    };
    format(backing, &wanted).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Refusal::TooSmall,
        _ => error.into(),
    })
}

/// Whether the caller has named the place whose data is to be lost.
fn permit(request: &Request, serial: &str, what: &str) -> Result<(), Refusal> {
    let (what, serial) = (what.to_owned(), serial.to_owned());
    match &request.force {
        Some(named) if *named == serial => Ok(()),
        Some(named) => Err(Refusal::OtherSerial {
            what,
            named: named.clone(),
            serial,
        }),
        None => Err(Refusal::Foreign { what, serial }),
    }
}

/// Describes the data that would be lost; for a buffer, also its owner.
fn described(what: &str, backing: &dyn Backing) -> String {
    let Ok(found) = survey(backing) else {
        return what.to_owned();
    };
    let dirty = found.extents.iter().filter(|extent| extent.is_dirty);
    let node = &found.superblock.node;
    match dirty.count() {
        0 => format!("a transfer buffer of {node}"),
        dirty => format!(
            "a transfer buffer of {node}, with {dirty} extents that slow storage does not have"
        ),
    }
}

fn busy(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ResourceBusy => Refusal::InUse("another process uses it".to_owned()),
        _ => error.into(),
    }
}
