//! The destination file of a report that gets its name when it is complete: the target of a link, or the path itself if it is not a
//! regular file. Does not know the contents.
//!
//! A report is a draft until the run ends, so that the file that it replaces can be read until then.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

/// A draft may have to be emptied and written again.
const OWNER_WRITES: u32 = 0o200;

/// Mode of a new file, before the umask.
const READ_AND_WRITE: u32 = 0o666;

/// Number of drafts made by this process.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Most followed links, as in the kernel.
const LINKS_MAX: usize = 40;

/// The path of a draft, and its final destination.
pub(super) struct Target {
    draft: PathBuf,
    umask: u32,
    end: End,
}

enum End {
    /// The draft is renamed to this path.
    Name(PathBuf),
    /// The contents of the draft are copied to this device or FIFO, or to the open output of this process.
    Contents(File),
}

impl Target {
    /// Examines the path that the user named. Opens a device or FIFO at once; its draft is in `spill`, named after `what`.
    ///
    /// # Errors
    /// The path cannot be written.
    pub(super) fn find(path: &Path, spill: &Path, umask: u32, what: &str) -> io::Result<Self> {
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let part = |mut name: std::ffi::OsString| {
            // Two jobs of one process may write to one path.
            name.push(match number {
                0 => format!(".{}.part", std::process::id()),
                number => format!(".{}-{number}.part", std::process::id()),
            });
            PathBuf::from(name)
        };
        let into = |file: File| Self {
            draft: part(spill.join(what).into_os_string()),
            umask,
            end: End::Contents(file),
        };
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => Ok(into(File::options().write(true).open(path)?)),
            // A path that is missing or unreadable causes an error later, when the draft is made.
            _ => match through_links(path) {
                Led::Place(place) => Ok(Self {
                    draft: part(place.clone().into_os_string()),
                    umask,
                    end: End::Name(place),
                }),
                Led::Descriptor(place) => Ok(into(open_again(&place)?)),
            },
        }
    }

    /// The file to write to.
    pub(super) fn draft(&self) -> &Path {
        &self.draft
    }

    /// Creates the draft, or empties it. Like the final file, the draft has no mode bits that the umask removes.
    ///
    /// # Errors
    /// The draft cannot be made. If the target is a link, the link is not followed.
    pub(super) fn create(&self) -> io::Result<File> {
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        options.mode(READ_AND_WRITE & !self.umask);
        let file = options.custom_flags(no_link).open(&self.draft)?;
        if let End::Name(place) = &self.end
            && let Ok(earlier) = fs::metadata(place)
        {
            let mode = earlier.permissions().mode() & 0o777 | OWNER_WRITES;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(file)
    }

    /// The draft, and its final name.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let mut places = vec![self.draft.clone()];
        if let End::Name(place) = &self.end {
            places.push(place.clone());
        }
        places
    }

    /// Whether the report is a file with this name, which may have other files beside it.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.end, End::Name(_))
    }

    /// Finishes the draft, which must be complete.
    ///
    /// # Errors
    /// The report does not exist then, or a device or FIFO contains a part of it.
    pub(super) fn finish(&self) -> io::Result<()> {
        match &self.end {
            End::Name(place) => fs::rename(&self.draft, place),
            End::Contents(file) => {
                let mut file = file;
                io::copy(&mut File::open(&self.draft)?, &mut file)?;
                fs::remove_file(&self.draft)
            }
        }
    }
}

/// The end of a chain of links.
pub(super) enum Led {
    /// A path, whether it exists or not.
    Place(PathBuf),
    /// An open file of a process, by its name in `/proc`. A new file with the old name would not reach the process that has opened
    /// it.
    Descriptor(PathBuf),
}

/// Follows the links of the last component.
pub(super) fn through_links(path: &Path) -> Led {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&place) else {
            break;
        };
        if is_descriptor(&place) {
            return Led::Descriptor(place);
        }
        place = match place.parent() {
            Some(parent) => parent.join(target),
            None => target,
        };
    }
    Led::Place(place)
}

fn is_descriptor(place: &Path) -> bool {
    let parent = place.parent().and_then(|parent| parent.canonicalize().ok());
    parent.is_some_and(|parent| {
        parent.starts_with("/proc") && parent.file_name() == Some(OsStr::new("fd"))
    })
}

/// Opens the path for appending. For standard output and error, writing continues at their position.
fn open_again(place: &Path) -> io::Result<File> {
    let own = match place.file_name().and_then(OsStr::to_str) {
        Some("1") => Some(rustix::stdio::stdout()),
        Some("2") => Some(rustix::stdio::stderr()),
        _ => None,
    };
    match own {
        Some(descriptor) => Ok(File::from(rustix::io::dup(descriptor)?)),
        None => File::options().append(true).open(place),
    }
}
