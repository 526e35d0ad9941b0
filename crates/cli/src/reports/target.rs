//! The place of a report that gets its name when it is whole: what a link leads to, or in place where that is no regular file.
//! Does not know what is written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

/// Where a draft is, and what becomes of it.
pub(super) struct Target {
    draft: PathBuf,
    end: End,
}

enum End {
    /// The draft gets this name.
    Name(PathBuf),
    /// What is in the draft goes into this device or FIFO.
    Contents(File),
}

impl Target {
    /// Looks at what the user named. A device or FIFO is opened at once.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub(super) fn find(path: &Path, spill: &Path) -> io::Result<Self> {
        let part = |mut name: std::ffi::OsString| {
            name.push(format!(".{}.part", std::process::id()));
            PathBuf::from(name)
        };
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => Ok(Self {
                draft: part(spill.join("manifest").into_os_string()),
                end: End::Contents(File::options().write(true).open(path)?),
            }),
            // What cannot be looked at, or is not there yet, shows when the draft is made.
            _ => {
                let place = through_links(path);
                Ok(Self {
                    draft: part(place.clone().into_os_string()),
                    end: End::Name(place),
                })
            }
        }
    }

    /// The file to write to.
    pub(super) fn draft(&self) -> &Path {
        &self.draft
    }

    /// The draft is whole and durable.
    ///
    /// # Errors
    /// There is no report then, or in a device or FIFO a part of it.
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

/// What the name leads to, whether it is there or not.
fn through_links(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&place) else {
            break;
        };
        place = match place.parent() {
            Some(parent) => parent.join(target),
            None => target,
        };
    }
    place
}
