//! Walks through a tree in bounded memory: names, directory by directory, depth first. Does not
//! look at the entries; the caller does, and passes the directories to enter.

use super::directories::Directories;
use crate::error::StoreError;
use crate::path::RelPath;
use crate::spill::SpillStack;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

/// Buffer for names that the kernel returns in one call, in bytes.
const LISTING_BYTES: usize = 64 << 10;

/// A walk in progress.
#[derive(Debug)]
pub(super) struct Walk {
    directories: Arc<Directories>,
    /// Paths of directories found and not yet listed.
    pending: SpillStack,
    current: Option<Listing>,
    buffer: ListingBuffer,
    names: Names,
    /// How many of the names were returned.
    taken: usize,
}

/// The directory being listed.
#[derive(Debug)]
struct Listing {
    fd: OwnedFd,
    path: RelPath,
}

/// Names that the kernel returned.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    spans: Vec<(usize, usize, FileType)>,
}

/// The buffer into which the kernel writes names.
#[derive(Debug)]
pub(super) struct ListingBuffer(Vec<MaybeUninit<u8>>);

impl Default for ListingBuffer {
    fn default() -> Self {
        Self(vec![MaybeUninit::uninit(); LISTING_BYTES])
    }
}

/// One step of a walk.
pub(super) enum Step<'a> {
    /// A name in a directory.
    Name(Found<'a>),
    /// A directory that cannot be listed, or not completely.
    Fault(StoreError),
    /// The walk has ended.
    End,
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    /// The directory.
    pub(super) directory: &'a OwnedFd,
    /// Path of the directory.
    pub(super) parent: &'a RelPath,
    /// The name.
    pub(super) name: &'a [u8],
    /// The file type from the listing; `Unknown` on some file systems.
    pub(super) kind: FileType,
}

impl Found<'_> {
    /// The path of the name.
    pub(super) fn path(&self) -> Result<RelPath, StoreError> {
        self.path_in(Vec::new())
    }

    /// The path of the name, built in `memory`, whose old contents are dropped.
    pub(super) fn path_in(&self, memory: Vec<u8>) -> Result<RelPath, StoreError> {
        path_in(self.parent, self.name, memory)
    }
}

/// The path of a name in a directory, built in `memory`, whose old contents are dropped.
pub(super) fn path_in(
    parent: &RelPath,
    name: &[u8],
    memory: Vec<u8>,
) -> Result<RelPath, StoreError> {
    let mut path = RelPath::in_memory(memory);
    parent
        .join_in(name, &mut path)
        .map_err(|error| StoreError::from_path("list", parent, error))?;
    Ok(path)
}

impl Walk {
    /// A walk without a start: `enter` sets the start.
    pub(super) fn new(directories: &Arc<Directories>, spill: &Path, spill_bytes: usize) -> Self {
        Self {
            directories: Arc::clone(directories),
            pending: SpillStack::new(spill, spill_bytes),
            current: None,
            buffer: ListingBuffer::default(),
            names: Names::default(),
            taken: 0,
        }
    }

    /// Lists this directory too, later.
    pub(super) fn enter(&mut self, path: &RelPath) -> Result<(), StoreError> {
        remember(&mut self.pending, path)
    }

    /// The next name.
    pub(super) fn next(&mut self) -> Step<'_> {
        while self.taken == self.names.len() {
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return Step::End,
                Err(error) => return Step::Fault(error),
            }
        }
        let (name, kind) = self.names.get(self.taken);
        self.taken += 1;
        match &self.current {
            Some(Listing { fd, path }) => Step::Name(Found {
                directory: fd,
                parent: path,
                name,
                kind,
            }),
            None => Step::End,
        }
    }

    /// Reads more names, or moves on to another directory; `false` if there is none.
    fn refill(&mut self) -> Result<bool, StoreError> {
        self.names.bytes.clear();
        self.names.spans.clear();
        self.taken = 0;
        let Some(listing) = &self.current else {
            return self.open_next();
        };
        match self.names.fill(&listing.fd, &mut self.buffer.0) {
            Ok(()) if self.names.len() > 0 => {}
            Ok(()) => self.current = None,
            Err(errno) => {
                let error = StoreError::from_errno("list", &listing.path, errno);
                self.current = None;
                return Err(error);
            }
        }
        Ok(true)
    }

    fn open_next(&mut self) -> Result<bool, StoreError> {
        let Some(path) = recall(&mut self.pending)? else {
            return Ok(false);
        };
        let fd = self.directories.open_listing(path.as_bytes());
        let fd = fd.map_err(|errno| StoreError::from_errno("list", &path, errno))?;
        self.current = Some(Listing { fd, path });
        Ok(true)
    }
}

impl Names {
    /// The number of names.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The name at `index`, and its kind according to the listing.
    pub(super) fn get(&self, index: usize) -> (&[u8], FileType) {
        let (start, end, kind) = self.spans[index];
        (&self.bytes[start..end], kind)
    }

    /// About how much memory the names occupy, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<(usize, usize, FileType)>()
    }

    /// Adds names until there are `wanted`; `true` at the end of the directory.
    pub(super) fn fill_to(
        &mut self,
        wanted: usize,
        fd: &OwnedFd,
        buffer: &mut ListingBuffer,
    ) -> Result<bool, Errno> {
        while self.len() < wanted {
            let before = self.len();
            self.fill(fd, &mut buffer.0)?;
            if self.len() == before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds the names that one call of the kernel returns; adds none at the end of the directory.
    fn fill(&mut self, fd: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        let before = self.len();
        let mut entries = RawDir::new(fd, buffer);
        loop {
            let Some(entry) = entries.next() else {
                return Ok(());
            };
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(name);
                self.spans
                    .push((start, self.bytes.len(), entry.file_type()));
            }
            if entries.is_buffer_empty() && self.len() > before {
                return Ok(());
            }
        }
    }
}

/// Stores the path of a directory that must be listed.
pub(super) fn remember(pending: &mut SpillStack, path: &RelPath) -> Result<(), StoreError> {
    pending
        .push(path.as_bytes())
        .map_err(|error| StoreError::from_errno("remember to list", path, errno_of(&error)))
}

/// Returns the path that was stored last.
pub(super) fn recall(pending: &mut SpillStack) -> Result<Option<RelPath>, StoreError> {
    let root = RelPath::root();
    let path = pending.pop().map_err(|error| {
        StoreError::from_errno("remember what to list below", &root, errno_of(&error))
    })?;
    path.map(|path| RelPath::parse(&path))
        .transpose()
        .map_err(|error| StoreError::from_path("list", &root, error))
}

/// The system's error number in an error of the standard library.
pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
