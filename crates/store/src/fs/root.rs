//! Opens the directory that is the root of a storage, and says where it lies.
//! Opens nothing below it.

use super::directories::open_beneath;
use crate::error::StoreError;
use crate::handles::with_room;
use crate::path::RelPath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatVfs};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Most directories above a root that are looked at; a path has at most 4096 bytes.
const ABOVE_MAX: usize = 2048;

/// The open root of a storage.
#[derive(Debug)]
pub struct RootDirectory {
    pub(super) fd: OwnedFd,
    /// Whether the directory may be searched but not read.
    pub(super) search_only: bool,
}

/// Device and inode of a directory.
pub type DirectoryId = (u64, u64);

impl AsFd for RootDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl RootDirectory {
    /// Opens the directory at a real path: from `/` on, no part of the path may be a link.
    ///
    /// # Errors
    /// A part is missing, is not a directory, or is a link ([`Escape`](crate::StoreErrorKind::Escape)).
    pub fn real(path: &Path) -> Result<Self, StoreError> {
        Self::without_links(path, true).map_err(failed)
    }

    /// Opens the directory that a path leads to, also through links.
    pub(super) fn followed(path: &Path) -> Result<Self, StoreError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::open(|how| rustix::fs::open(path, flags | how, Mode::empty())).map_err(failed)
    }

    fn without_links(path: &Path, openat2: bool) -> Result<Self, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
        let top = with_room(|| rustix::fs::open("/", flags, Mode::empty()))?;
        let path = path.strip_prefix("/").unwrap_or(path).as_os_str();
        let path = match path.as_bytes() {
            b"" => &b"."[..],
            path => path,
        };
        Self::open(|how| {
            if openat2 {
                match open_beneath(top.as_fd(), path, how, true) {
                    // The kernel or a container does not allow the call.
                    Err(Errno::NOSYS | Errno::PERM) => {}
                    opened => return opened,
                }
            }
            open_by_parts(top.as_fd(), path, how)
        })
    }

    fn open(open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<Self, Errno> {
        let (fd, search_only) = match with_room(|| open(OFlags::RDONLY)) {
            Ok(fd) => (fd, false),
            Err(Errno::ACCESS) => (with_room(|| open(OFlags::PATH))?, true),
            Err(error) => return Err(error),
        };
        Ok(Self { fd, search_only })
    }

    /// Whether a file system is mounted at the directory, or it is `/`.
    #[must_use]
    pub fn is_mount(&self) -> bool {
        super::mount::is_mount(&self.fd)
    }

    /// Size and free space of the file system.
    ///
    /// # Errors
    /// The file system does not say.
    pub fn room(&self) -> std::io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.fd)?)
    }

    /// The directory itself and those above it, up to `/`.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn lineage(&self) -> std::io::Result<Vec<DirectoryId>> {
        let stat = rustix::fs::fstat(&self.fd)?;
        let mut found = vec![(stat.st_dev, stat.st_ino)];
        let mut up = String::new();
        while found.len() <= ABOVE_MAX {
            up.push_str("../");
            let stat = rustix::fs::statat(&self.fd, up.as_str(), AtFlags::empty())?;
            let above = (stat.st_dev, stat.st_ino);
            if found.last() == Some(&above) {
                return Ok(found);
            }
            found.push(above);
        }
        Err(Errno::NAMETOOLONG.into())
    }
}

/// Opens the directory as old kernels can: one name after the other, none of which may be a link.
fn open_by_parts(top: BorrowedFd<'_>, path: &[u8], how: OFlags) -> Result<OwnedFd, Errno> {
    let mut reached: Option<OwnedFd> = None;
    let mut names = path.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let how = names.peek().map_or(how, |_| OFlags::PATH);
        let from = reached.as_ref().map_or(top, AsFd::as_fd);
        let next = super::directories::open_component(from, name, how)?;
        reached = Some(next);
    }
    reached.ok_or(Errno::NOENT)
}

fn failed(errno: Errno) -> StoreError {
    StoreError::from_errno("open", &RelPath::root(), errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_part_of_a_real_path_is_a_link() {
        let place = tempfile::tempdir().unwrap();
        let place = std::fs::canonicalize(place.path()).unwrap();
        std::fs::create_dir_all(place.join("a/b")).unwrap();
        std::fs::write(place.join("file"), "").unwrap();
        symlink(place.join("a"), place.join("far")).unwrap();
        symlink("b", place.join("a/near")).unwrap();
        for openat2 in [true, false] {
            let open = |path: &str| RootDirectory::without_links(&place.join(path), openat2);
            let opened = open("a/b").unwrap();
            let own = opened.lineage().unwrap();
            assert_eq!(own[1..], open("a").unwrap().lineage().unwrap());
            assert!(!opened.is_mount());
            for (path, error) in [
                ("far", Errno::LOOP),
                ("far/b", Errno::LOOP),
                ("a/near", Errno::LOOP),
                ("file", Errno::NOTDIR),
                ("none", Errno::NOENT),
            ] {
                assert_eq!(open(path).err(), Some(error), "{path} {openat2}");
            }
            let top = RootDirectory::without_links(Path::new("/"), openat2).unwrap();
            assert!(top.is_mount() && top.lineage().unwrap().len() == 1);
        }
    }
}
