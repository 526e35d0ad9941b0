//! Owns the opening of files and directories of a data set. Follows no link in any part of a path: another user may own a directory above,
//! and put a link in its place at any time.
//! Reads and writes no content.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, statat};
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

/// Calls `take` with each name in a directory, and with whether a directory itself has it, until it returns false. The path is absolute and
/// without links.
pub(crate) fn each_name(path: &Path, take: &mut dyn FnMut(&OsStr, bool) -> bool) -> io::Result<()> {
    let opened = open_directory(path)?;
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Not all file systems say it here.
            FileType::Unknown => statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |about| {
                    FileType::from_raw_mode(about.st_mode)
                }),
            known => known,
        };
        if !take(OsStr::from_bytes(name.to_bytes()), kind.is_dir()) {
            break;
        }
    }
    Ok(())
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
        let names = |path: &str| {
            let mut names = Vec::new();
            let mut take = |name: &OsStr, is_directory: bool| {
                names.push((name.to_string_lossy().into_owned(), is_directory));
                true
            };
            each_name(&root.join(path), &mut take).map(|()| names)
        };
        for led in ["link", "link/ascmhl"] {
            assert!(names(led).is_err(), "{led}");
        }
        let good = names("other").expect("read");
        assert_eq!(good, [("ascmhl".to_owned(), true)]);
        let mut good = names("other/ascmhl").expect("read");
        good.sort();
        let expected = ["file", "last"].map(|name| (name.to_owned(), false));
        assert_eq!(good, expected);
    }
}
