//! Owns the opening of files and directories of a data set. Follows no link in any part of a path: another user may own a directory above,
//! and put a link in its place at any time.
//! Reads and writes no content.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens a file, and neither what a link leads to nor a FIFO, which would block. The path is absolute and without links.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no file")),
    }
}

/// Opens a directory. The path is absolute and without links.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::RDONLY | OFlags::DIRECTORY)?)
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // The kernel or a container does not allow the call.
        Err(Errno::NOSYS | Errno::PERM) => by_parts(path, flags),
        opened => opened,
    }
}

/// Opens one part of the path after the other.
fn by_parts(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return rustix::fs::open(path, flags, Mode::empty());
    };
    let first = if above.is_absolute() { "/" } else { "." };
    let mut at = rustix::fs::open(first, way, Mode::empty())?;
    for part in above.components() {
        match part {
            Component::Normal(name) => at = rustix::fs::openat(&at, name, way, Mode::empty())?,
            Component::ParentDir => return Err(Errno::INVAL),
            _ => {}
        }
    }
    rustix::fs::openat(&at, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_in_any_part_of_a_path_is_not_followed() {
        let directory = tempfile::tempdir().expect("made");
        let root = fs::canonicalize(directory.path()).expect("there");
        fs::create_dir_all(root.join("other/ascmhl")).expect("made");
        fs::write(root.join("other/ascmhl/file"), "text").expect("written");
        symlink("other", root.join("link")).expect("made");
        symlink("file", root.join("other/ascmhl/last")).expect("made");
        let by_parts = |path: &Path| by_parts(path, OFlags::RDONLY | OFlags::NOFOLLOW);
        let good = root.join("other/ascmhl/file");
        assert!(open_file(&good).is_ok() && by_parts(&good).is_ok());
        assert!(open_directory(&root.join("other/ascmhl")).is_ok());
        for led in ["link/ascmhl/file", "other/ascmhl/last"] {
            let led = root.join(led);
            assert!(fs::read(&led).is_ok(), "{}", led.display());
            assert!(open_file(&led).is_err(), "{}", led.display());
            assert!(by_parts(&led).is_err(), "{}", led.display());
        }
        assert!(open_directory(&root.join("link/ascmhl")).is_err());
    }
}
