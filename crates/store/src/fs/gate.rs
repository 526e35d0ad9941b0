//! Owns the gate of a storage, and the removal of names. The gate is checked before each call that adds or removes a name, or changes a
//! named entry. Does not know why a gate is shut.
//!
//! A call that hangs in the kernel has passed the gate, and takes effect late, even if its process is killed. Therefore no entry is removed
//! by its own name. The entry is first moved into a directory that only this storage uses, then the gate is asked again. If the gate is
//! shut by then, the entry is moved back. The next node removes that directory, so a late call finds no directory to move an entry into.
//!
//! Three late calls cannot be fenced. A call that changes a directory's attributes takes effect late, because a directory keeps its inode.
//! A directory that is created late stays, empty, if its process is killed before it removes the directory. An empty directory on another
//! file system than the base is removed by its own name, perhaps late.

use super::directories::{Directories, Directory, Trouble};
use crate::error::StoreErrorKind;
use crate::path::{RelPath, TempName};
use crate::storage::May;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Always open, unless a transfer sets a check.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<OnceLock<Set>>);

/// Settings of a transfer.
struct Set {
    may: May,
    tag: u64,
    /// The directory for removed entries is created in this directory.
    base: RelPath,
    aside: OnceLock<Option<Aside>>,
    moved: AtomicU64,
}

/// A directory for removed entries.
struct Aside {
    name: TempName,
    fd: OwnedFd,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate(set: {})", self.is_set())
    }
}

impl Gate {
    /// From now on `may` is asked. Entries to be removed are moved to names with this tag, in a directory in `base`.
    pub(super) fn set(&self, may: May, tag: u64, base: &RelPath) {
        let set = Set {
            may,
            tag,
            base: base.clone(),
            aside: OnceLock::new(),
            moved: AtomicU64::new(0),
        };
        // A storage has only one transfer.
        let _ = self.0.set(set);
    }

    /// Whether the gate has a check and can be shut.
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Fails once the gate is shut.
    pub(super) fn hold(&self) -> Result<(), Trouble> {
        match self.0.get() {
            Some(set) if !(set.may)() => Err(StoreErrorKind::Fenced.into()),
            _ => Ok(()),
        }
    }

    /// The result of a call; the fence error if the gate is shut and the call failed.
    pub(super) fn shut_or<T>(&self, said: Result<T, Trouble>) -> Result<T, Trouble> {
        said.or_else(|trouble| self.hold().and(Err(trouble)))
    }

    /// Removes an entry by moving it to another name first; `None` if the gate has no check. An absent entry is fine.
    pub(super) fn remove(
        &self,
        directories: &Directories,
        path: &RelPath,
        (parent, name): (&Directory, &[u8]),
        is_directory: bool,
    ) -> Option<Result<(), Trouble>> {
        let set = self.0.get()?;
        if TempName::is_ours(name, set.tag) {
            // Only this transfer uses such a name, so a late removal does no harm.
            return Some(self.hold().and_then(|()| remove_ours(parent, name)));
        }
        let removed = || {
            self.hold()?;
            if set.base.starts_with(path) {
                if let (Some(Some(aside)), Ok((base, _))) =
                    (set.aside.get(), directories.get(set.base.as_bytes()))
                {
                    let _ = rustix::fs::unlinkat(&*base, aside.name.as_bytes(), AtFlags::REMOVEDIR);
                }
                return take(parent, name, is_directory);
            }
            if is_directory && !is_empty(parent, name)? {
                return Err(Errno::NOTEMPTY.into());
            }
            let number = set.moved.fetch_add(1, Ordering::Relaxed);
            let temp = TempName::of_member(set.tag, name, &number.to_le_bytes());
            if let Some(aside) = self.aside(set, directories)? {
                match self.remove_by(parent, name, &aside.fd, &temp, is_directory) {
                    // The entry is on another file system, such as a mount, or its owner may remove the directory but not move it.
                    Err(Trouble::Errno(
                        Errno::XDEV | Errno::PERM | Errno::ACCESS | Errno::INVAL,
                    ))
                    | Ok(None) => {}
                    removed => return removed.map(drop),
                }
            }
            self.hold()?;
            if is_directory {
                return take(parent, name, is_directory);
            }
            let removed = self.remove_by(parent, name, parent, &temp, is_directory)?;
            removed.ok_or_else(|| Errno::NOENT.into())
        };
        Some(removed())
    }

    /// Moves an entry into `aside` and removes it there; `None` if `aside` no longer exists.
    fn remove_by(
        &self,
        parent: &Directory,
        name: &[u8],
        aside: impl AsFd,
        temp: &TempName,
        is_directory: bool,
    ) -> Result<Option<()>, Trouble> {
        let aside = aside.as_fd();
        match rustix::fs::renameat(parent, name, aside, temp.as_bytes()) {
            Err(Errno::NOENT | Errno::STALE) => {
                // `aside` no longer exists if another node has taken over.
                self.hold()?;
                return match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) if !parent.is_gone() => Ok(Some(())),
                    found => found.map(|_| None).map_err(Trouble::from),
                };
            }
            renamed => renamed?,
        }
        let removed = self.hold().and_then(|()| {
            let removed = rustix::fs::unlinkat(aside, temp.as_bytes(), flags_of(is_directory));
            Ok(removed?)
        });
        if removed.is_err() {
            // If another entry has the name by now, the moved entry keeps its temporary name.
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(aside, temp.as_bytes(), parent, name, flags) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
                    if there.is_err_and(|error| error == Errno::NOENT) {
                        rustix::fs::renameat(aside, temp.as_bytes(), parent, name)?;
                    }
                }
                given => given?,
            }
        }
        removed.map(Some)
    }

    /// The directory for removed entries, made on first use; `None` if it cannot be made.
    fn aside<'a>(
        &self,
        set: &'a Set,
        directories: &Directories,
    ) -> Result<Option<&'a Aside>, Trouble> {
        if set.aside.get().is_none() {
            let made = self.make_aside(set, directories)?;
            let _ = set.aside.set(made);
        }
        Ok(set.aside.get().and_then(Option::as_ref))
    }

    fn make_aside(&self, set: &Set, directories: &Directories) -> Result<Option<Aside>, Trouble> {
        let Ok((base, _)) = directories.get(set.base.as_bytes()) else {
            return Ok(None);
        };
        // The time makes the name unique: a late move must not find the directory of an earlier storage.
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let purpose = [&std::process::id().to_le_bytes()[..], &nanos.to_le_bytes()].concat();
        let name = TempName::of_member(set.tag, ASIDE, &purpose);
        if rustix::fs::mkdirat(&*base, name.as_bytes(), Mode::RWXU).is_err() {
            return Ok(None);
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
        let fd = rustix::fs::openat(&*base, name.as_bytes(), flags, Mode::empty());
        // The last check before the move.
        self.hold().inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&*base, name.as_bytes(), AtFlags::REMOVEDIR);
        })?;
        Ok(fd.ok().map(|fd| Aside { name, fd }))
    }

    /// Creates a directory, and removes it again if the gate was shut meanwhile.
    pub(super) fn make_directory(
        &self,
        parent: &Directory,
        name: &[u8],
        mode: Mode,
    ) -> Result<(), Trouble> {
        self.hold()?;
        rustix::fs::mkdirat(parent, name, mode)?;
        self.hold().inspect_err(|_| {
            // If the directory is not empty, another program uses it, and it stays.
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        })
    }
}

/// Whether a directory seems to be empty. A directory with contents does not move, because its users would miss it for a moment.
fn is_empty(parent: &Directory, name: &[u8]) -> Result<bool, Trouble> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let listing = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(fd) => Dir::new(fd)?,
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    for entry in listing {
        let entry = entry?;
        if ![&b"."[..], b".."].contains(&entry.file_name().to_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes an entry by its own name.
fn take(parent: &Directory, name: &[u8], is_directory: bool) -> Result<(), Trouble> {
    match rustix::fs::unlinkat(parent, name, flags_of(is_directory)) {
        Err(Errno::NOENT) if !parent.is_gone() => Ok(()),
        removed => Ok(removed?),
    }
}

fn flags_of(is_directory: bool) -> AtFlags {
    match is_directory {
        true => AtFlags::REMOVEDIR,
        false => AtFlags::empty(),
    }
}

/// Removes an entry with a temporary name. A directory with such a name holds removed entries, which are removed as well.
fn remove_ours(parent: &Directory, name: &[u8]) -> Result<(), Trouble> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) if !parent.is_gone() => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        removed => return Ok(removed?),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let listing = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&listing)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if [&b"."[..], b".."].contains(&name) {
            continue;
        }
        match rustix::fs::unlinkat(&listing, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                rustix::fs::unlinkat(&listing, name, AtFlags::REMOVEDIR)?;
            }
            Err(Errno::NOENT) => {}
            removed => removed?,
        }
    }
    take(parent, name, true)
}

/// Distinguishes the name of that directory from the names of files being written.
const ASIDE: &[u8] = b"aside";
