//! Opens directories beneath the root, every handle without following a link, and keeps the most used handles. Does not touch the
//! contents of a directory; callers do that relative to its handle.

use super::gate::Gate;
use super::kept::Kept;
use super::medium;
use super::root::{DirectoryId, RootDirectory};
use super::syncs::{Member, Syncs};
use crate::error::{StoreError, StoreErrorKind};
use crate::extended::Lost;
use crate::handles::{self, HandleCache, with_room};
use crate::path::RelPath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Longest part of a path that is resolved in one call, below the kernel's PATH_MAX of 4096 with its terminating zero.
const STEP_BYTES_MAX: usize = 4000;
/// How often a resolution is repeated if it raced with a rename.
const RACES_MAX: u32 = 16;
/// Most file systems below one root that are synced as a whole.
const DEVICES_MAX: usize = 64;

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open directory.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    /// Whether the directory may be searched but not read: such a handle cannot list, sync or change modes.
    search_only: bool,
    device: u64,
    default_acl: OnceLock<bool>,
    /// Whether the file system of the directory keeps all data in memory, once this is known.
    in_memory: OnceLock<bool>,
    keeps: AtomicBool,
    gate: Gate,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Number of open directories in this process.
static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Drop for Directory {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Directory {
    fn new(fd: OwnedFd, search_only: bool, gate: &Gate) -> Result<Self, Errno> {
        let device = rustix::fs::fstat(&fd)?.st_dev;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            fd,
            search_only,
            device,
            default_acl: OnceLock::new(),
            in_memory: OnceLock::new(),
            keeps: AtomicBool::new(false),
            gate: gate.clone(),
        })
    }

    /// The gate to pass before a name is added or removed in the directory.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether the directory was removed since it was opened.
    pub(super) fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether this handle cannot list or sync.
    pub(super) fn is_search_only(&self) -> bool {
        self.search_only
    }

    /// Whether the file system of the directory keeps all data in memory: nothing outlasts the machine, and nothing can be synced.
    pub(super) fn is_in_memory(&self) -> bool {
        *self.in_memory.get_or_init(|| medium::is_in_memory(self))
    }

    /// Whether an entry in this directory has shown that the file system keeps modes and times.
    pub(super) fn keeps(&self) -> &AtomicBool {
        &self.keeps
    }

    /// Whether new files in this directory get other modes than requested, because the directory has a default access list.
    pub(super) fn has_default_acl(&self) -> bool {
        *self.default_acl.get_or_init(|| {
            let absent = [Errno::NODATA, Errno::OPNOTSUPP, Errno::NOSYS];
            let answer =
                rustix::fs::fgetxattr(&self.fd, "system.posix_acl_default", &mut [0_u8; 0][..]);
            !answer.is_err_and(|error| absent.contains(&error))
        })
    }
}

/// Error of an operation within a directory, before the name is added.
#[derive(Debug)]
pub(super) enum Trouble {
    /// An error of the system.
    Errno(Errno),
    /// An error that we found.
    Kind(StoreErrorKind),
    /// Only these attributes were lost, but the caller allows no loss.
    Lost(Lost),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<StoreErrorKind> for Trouble {
    fn from(kind: StoreErrorKind) -> Self {
        Self::Kind(kind)
    }
}

impl Trouble {
    /// The error for the caller.
    pub(super) fn at(self, operation: &'static str, path: &RelPath) -> StoreError {
        match self {
            Self::Errno(errno) => StoreError::from_errno(operation, path, errno),
            Self::Kind(kind) => StoreError::new(operation, path, kind),
            Self::Lost(lost) => {
                StoreError::new(lost.operation(), path, StoreErrorKind::Unsupported)
            }
        }
    }

    fn is_stale(&self) -> bool {
        matches!(self, Self::Errno(Errno::NOENT | Errno::STALE))
    }
}

/// The root and its most recently used directories.
#[derive(Debug)]
pub(super) struct Directories {
    root: Arc<Directory>,
    openat2: bool,
    gate: Gate,
    kept: Arc<Mutex<Kept<Arc<Directory>>>>,
    /// From this number of open directories in the process on, fewer are kept.
    open_max: usize,
    /// All file systems found so far. A file system is joined before this storage writes there, so that a sync of it reports every
    /// later write error.
    devices: Mutex<HashMap<u64, Device>>,
    syncs: Syncs,
    /// Directories that keep their names, and so do the directories above them.
    lasting: Arc<[RelPath]>,
}

/// A file system of directories found so far.
#[derive(Debug)]
struct Device {
    /// The first directory found in this file system. Holding it open keeps the system from reusing the device number.
    directory: Arc<Directory>,
    /// `None` until a directory is found that can be read and therefore synced.
    member: Option<Arc<Member>>,
}

impl HandleCache for Mutex<Kept<Arc<Directory>>> {
    fn close_kept(&self) {
        lock(self).clear();
    }
}

impl Directories {
    /// Those below this root. `openat2: false` opens them without that call; `lasting` keep their names.
    pub(super) fn below(
        root: RootDirectory,
        openat2: bool,
        capacity: usize,
        syncs: Syncs,
        lasting: Arc<[RelPath]>,
    ) -> Result<Self, Errno> {
        let gate = Gate::default();
        let root = Arc::new(Directory::new(root.fd, root.search_only, &gate)?);
        let openat2 = openat2 && kernel_has_openat2(&root);
        let open_max = open_max();
        let kept = Arc::new(Mutex::new(Kept::new(capacity, open_max / 2)));
        let weak: Weak<Mutex<Kept<Arc<Directory>>>> = Arc::downgrade(&kept);
        handles::register(weak);
        let directories = Self {
            root,
            openat2,
            gate,
            kept,
            open_max,
            devices: Mutex::default(),
            syncs,
            lasting,
        };
        directories.note_device(&directories.root);
        Ok(directories)
    }

    /// Device and inode of the root.
    pub(super) fn root_id(&self) -> Option<DirectoryId> {
        let stat = rustix::fs::fstat(&*self.root).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    /// Bytes that are free for this user in the file system of the root.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let room = rustix::fs::fstatvfs(&*self.root).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Runs `act` with the directory that holds `path` and the name in it (`.` for the root). If a kept handle turns out to be stale,
    /// it is opened again once.
    pub(super) fn within<T>(
        &self,
        operation: &'static str,
        path: &RelPath,
        mut act: impl FnMut(&Directory, &[u8]) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let (parent, name) = path.split().unwrap_or((b"", b"."));
        let (directory, kept) = self
            .get(parent)
            .map_err(|error| StoreError::from_errno(operation, path, error))?;
        match act(&directory, name) {
            Err(trouble) if kept && trouble.is_stale() => {
                self.forget(parent);
                let (directory, _) = self
                    .get(parent)
                    .map_err(|error| StoreError::from_errno(operation, path, error))?;
                act(&directory, name)
            }
            result => result,
        }
        .map_err(|trouble| trouble.at(operation, path))
    }

    /// Like [`Directories::within`], for a call that gives the name to another entry or takes it away.
    pub(super) fn renaming<T>(
        &self,
        operation: &'static str,
        path: &RelPath,
        act: impl FnMut(&Directory, &[u8]) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        match self.lasts(path) {
            true => Err(StoreError::new(operation, path, StoreErrorKind::Lasting)),
            false => self.within(operation, path, act),
        }
    }

    /// Whether the directory at `path` keeps its name.
    pub(super) fn lasts(&self, path: &RelPath) -> bool {
        self.lasting.iter().any(|lasting| lasting.starts_with(path))
    }

    /// A handle of the directory at `path`, and whether it was a kept one.
    pub(super) fn get(&self, path: &[u8]) -> Result<(Arc<Directory>, bool), Errno> {
        if path.is_empty() {
            return Ok((Arc::clone(&self.root), false));
        }
        if let Some(directory) = lock(&self.kept).find(path) {
            return Ok((directory, true));
        }
        let directory = Arc::new(with_room(|| self.open_directory(path))?);
        self.note_device(&directory);
        // All transfers of a process share its limit of handles.
        let open = OPEN.load(Ordering::Relaxed);
        if open / 2 > self.open_max {
            handles::close_kept_handles();
        }
        let crowded = open > self.open_max;
        lock(&self.kept).keep(path, &directory, crowded);
        Ok((directory, false))
    }

    /// The gate to pass before a name is added or removed.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Drops the kept handle of `path`, if any.
    pub(super) fn forget(&self, path: &[u8]) {
        lock(&self.kept).forget(path);
    }

    /// Drops all kept handles.
    pub(super) fn forget_all(&self) {
        lock(&self.kept).clear();
    }

    /// A new handle for listing the directory at `path`.
    pub(super) fn open_listing(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        with_room(|| self.resolve(path, OFlags::RDONLY))
    }

    /// The member for each file system found below the root; `None` if there were too many, or one could not be read.
    pub(super) fn devices(&self) -> Option<Vec<Arc<Member>>> {
        let devices = lock(&self.devices);
        let few = devices.len() < DEVICES_MAX;
        let members = devices.values().map(|device| device.member.clone());
        members.collect::<Option<Vec<_>>>().filter(|_| few)
    }

    fn note_device(&self, directory: &Arc<Directory>) {
        let mut devices = lock(&self.devices);
        if let Some(known) = devices.get_mut(&directory.device) {
            // No other file system can get this device number while we hold the directory open.
            let _ = directory.in_memory.set(known.directory.is_in_memory());
            if known.member.is_none() {
                known.member = self.join_syncs(directory);
            }
        } else if devices.len() < DEVICES_MAX {
            let device = Device {
                directory: Arc::clone(directory),
                member: self.join_syncs(directory),
            };
            devices.insert(directory.device, device);
        }
    }

    fn join_syncs(&self, directory: &Arc<Directory>) -> Option<Arc<Member>> {
        let can = !directory.search_only;
        can.then(|| Arc::new(self.syncs.join(directory.device, directory)))
    }

    fn open_directory(&self, path: &[u8]) -> Result<Directory, Errno> {
        match self.resolve(path, OFlags::RDONLY) {
            Ok(fd) => Directory::new(fd, false, &self.gate),
            Err(Errno::ACCESS) => {
                Directory::new(self.resolve(path, OFlags::PATH)?, true, &self.gate)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the directory at `path` beneath the root. Every component must be a directory, not a link to one.
    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut path = path;
        let mut reached: Option<OwnedFd> = None;
        loop {
            let from = reached
                .as_ref()
                .map_or_else(|| self.root.as_fd(), AsFd::as_fd);
            let (step, rest) = split_step(path);
            if rest.is_empty() {
                return self.resolve_step(from, step, flags);
            }
            let next = self.resolve_step(from, step, OFlags::PATH)?;
            reached = Some(next);
            path = rest;
        }
    }

    fn resolve_step(
        &self,
        from: BorrowedFd<'_>,
        step: &[u8],
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        if self.openat2 || step.is_empty() {
            return open_beneath(
                from,
                if step.is_empty() { b"." } else { step },
                flags,
                self.openat2,
            );
        }
        let mut reached: Option<OwnedFd> = None;
        let mut components = step.split(|byte| *byte == b'/').peekable();
        while let Some(name) = components.next() {
            let last = components.peek().is_none();
            let from = reached.as_ref().map_or(from, AsFd::as_fd);
            let next = open_component(from, name, if last { flags } else { OFlags::PATH })?;
            reached = Some(next);
        }
        reached.ok_or(Errno::NOENT)
    }
}

/// An eighth of the process's handle limit for one storage, and twice as many for all storages. The rest is for connections, files, and
/// handles that are not kept.
fn open_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 8).unwrap_or(usize::MAX)
}

/// Splits off the longest leading part that one call resolves; the rest begins with a component.
fn split_step(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= STEP_BYTES_MAX {
        return (path, &[]);
    }
    // A component has at most 255 bytes, so there is a slash.
    let slash = path[..STEP_BYTES_MAX]
        .iter()
        .rposition(|byte| *byte == b'/')
        .unwrap_or(STEP_BYTES_MAX);
    (&path[..slash], &path[slash + 1..])
}

pub(super) fn open_beneath(
    from: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    openat2: bool,
) -> Result<OwnedFd, Errno> {
    if !openat2 {
        return rustix::fs::openat(from, path, flags | DIRECTORY, Mode::empty());
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // With O_NOFOLLOW a link at the end would only be reported as no directory; without it, the resolution reports a link.
    let flags = (flags | DIRECTORY).difference(OFlags::NOFOLLOW);
    let mut races = 0;
    loop {
        match rustix::fs::openat2(from, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if races < RACES_MAX => races += 1,
            result => return result,
        }
    }
}

pub(super) fn open_component(
    from: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let result = rustix::fs::openat(from, name, flags | DIRECTORY, Mode::empty());
    // Without openat2 the kernel reports a link like any other entry that is no directory.
    if matches!(result, Err(Errno::NOTDIR))
        && let Ok(stat) = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)
        && FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
    {
        return Err(Errno::LOOP);
    }
    result
}

/// `openat2` is missing before Linux 5.6, and some containers forbid it.
fn kernel_has_openat2(root: &Directory) -> bool {
    open_beneath(root.as_fd(), b".", OFlags::PATH, true).is_ok()
}

/// Locks even after a panic elsewhere: the state behind our locks is valid between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
