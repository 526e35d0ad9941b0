//! Owns the way through a tree: names, directory by directory, depth first, in bounded memory.
//! Does not look at what the names stand for; who does hands back the directories to go into.

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

/// Bytes of names that the kernel gives at once.
const LISTING_BYTES: usize = 64 << 10;

/// A walk in progress.
#[derive(Debug)]
pub(super) struct Walk {
    directories: Arc<Directories>,
    /// Paths of directories found and not yet listed.
    pending: SpillStack,
    current: Option<Listing>,
    buffer: Vec<MaybeUninit<u8>>,
    names: Names,
}

/// The directory being listed.
#[derive(Debug)]
struct Listing {
    fd: OwnedFd,
    path: RelPath,
}

/// Names that the kernel gave and that were not handed out yet.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    spans: Vec<(usize, usize, FileType)>,
    taken: usize,
}

/// One step of a walk.
pub(super) enum Step<'a> {
    /// A name in a directory.
    Name(Found<'a>),
    /// A directory that cannot be listed, or not to its end.
    Fault(StoreError),
    /// There is nothing more.
    End,
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    /// The directory.
    pub(super) directory: &'a OwnedFd,
    /// Its path.
    pub(super) parent: &'a RelPath,
    /// The name.
    pub(super) name: &'a [u8],
    /// What the listing says it is; `Unknown` on some file systems.
    pub(super) kind: FileType,
}

impl Found<'_> {
    /// The path of the name.
    pub(super) fn path(&self) -> Result<RelPath, StoreError> {
        self.parent
            .join(self.name)
            .map_err(|error| StoreError::from_path("list", self.parent, error))
    }
}

impl Walk {
    /// A walk that begins nowhere: `enter` says where.
    pub(super) fn new(directories: &Arc<Directories>, spill: &Path, spill_bytes: usize) -> Self {
        Self {
            directories: Arc::clone(directories),
            pending: SpillStack::new(spill, spill_bytes),
            current: None,
            buffer: vec![MaybeUninit::uninit(); LISTING_BYTES],
            names: Names::default(),
        }
    }

    /// Lists this directory too, later.
    pub(super) fn enter(&mut self, path: &RelPath) -> Result<(), StoreError> {
        self.pending
            .push(path.as_bytes())
            .map_err(|error| StoreError::from_errno("remember to list", path, errno_of(&error)))
    }

    /// The next name.
    pub(super) fn next(&mut self) -> Step<'_> {
        while self.names.taken == self.names.spans.len() {
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return Step::End,
                Err(error) => return Step::Fault(error),
            }
        }
        let (start, end, kind) = self.names.spans[self.names.taken];
        self.names.taken += 1;
        match &self.current {
            Some(Listing { fd, path }) => Step::Name(Found {
                directory: fd,
                parent: path,
                name: &self.names.bytes[start..end],
                kind,
            }),
            None => Step::End,
        }
    }

    /// Gets more names, or moves on to another directory; `false` if there is none.
    fn refill(&mut self) -> Result<bool, StoreError> {
        self.names = Names {
            bytes: clear(&mut self.names.bytes),
            spans: clear(&mut self.names.spans),
            taken: 0,
        };
        let Some(listing) = &self.current else {
            return self.open_next();
        };
        match self.names.fill(&listing.fd, &mut self.buffer) {
            Ok(true) => {}
            Ok(false) => self.current = None,
            Err(errno) => {
                let error = StoreError::from_errno("list", &listing.path, errno);
                self.current = None;
                return Err(error);
            }
        }
        Ok(true)
    }

    fn open_next(&mut self) -> Result<bool, StoreError> {
        let failed = |error: &io::Error| {
            StoreError::from_errno(
                "remember what to list below",
                &RelPath::root(),
                errno_of(error),
            )
        };
        let Some(path) = self.pending.pop().map_err(|error| failed(&error))? else {
            return Ok(false);
        };
        let path = RelPath::parse(&path)
            .map_err(|error| StoreError::from_path("list", &RelPath::root(), error))?;
        let fd = self.directories.open_listing(path.as_bytes());
        let fd = fd.map_err(|errno| StoreError::from_errno("list", &path, errno))?;
        self.current = Some(Listing { fd, path });
        Ok(true)
    }
}

impl Names {
    /// Takes over what the kernel gives at once; `false` at the directory's end.
    fn fill(&mut self, fd: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> Result<bool, Errno> {
        let mut entries = RawDir::new(fd, buffer);
        loop {
            let Some(entry) = entries.next() else {
                return Ok(!self.spans.is_empty());
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
            if entries.is_buffer_empty() && !self.spans.is_empty() {
                return Ok(true);
            }
        }
    }
}

fn clear<T>(vector: &mut Vec<T>) -> Vec<T> {
    let mut vector = std::mem::take(vector);
    vector.clear();
    vector
}

/// The system's number behind an error of the standard library.
pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
