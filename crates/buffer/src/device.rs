//! Owns the bytes of a block device or a regular file, past the page cache. Does not judge what the device holds; `foreign` and `in_use` do.

use std::fs::{File, Permissions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use godwit_sys::block_device;
use godwit_sys::page_buffer::PageBuffer;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::backing::Backing;
use crate::layout::{Layout, PAGE};

/// Why a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To use it: no other process may use it meanwhile.
    Own,
    /// To check it: no other process may write meanwhile.
    Check,
    /// To read it, even while a process uses it.
    Look,
}

/// A block device, or a regular file in its place.
#[derive(Debug)]
pub struct Device {
    file: File,
    bytes: u64,
    is_block: bool,
}

impl Device {
    /// Opens a block device or a regular file.
    ///
    /// # Errors
    /// `ResourceBusy` if another process uses it in a way that `access` excludes; `InvalidInput` for other kinds of files; otherwise the
    /// kernel's error.
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        // A name may change between the two calls, so the opened file is looked at again.
        let kind = std::fs::metadata(path)?.file_type();
        let is_block = kind.is_block_device();
        if !is_block && !kind.is_file() {
            return Err(no_device());
        }
        Self::opened(is_block, access, |flags| {
            std::fs::OpenOptions::new()
                .read(true)
                .write(access == Access::Own)
                .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
                .open(path)
        })
    }

    /// Opens a regular file in a directory, and follows no link.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_below(directory: &File, name: &str, access: Access) -> io::Result<Self> {
        Self::opened(false, access, |flags| {
            let rights = match access {
                Access::Own => OFlags::RDWR,
                Access::Check | Access::Look => OFlags::RDONLY,
            };
            let flags = flags | rights | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            Ok(File::from(opened))
        })
    }

    fn opened(
        is_block: bool,
        access: Access,
        open: impl Fn(OFlags) -> io::Result<File>,
    ) -> io::Result<Self> {
        let mut flags = OFlags::NOCTTY | OFlags::NONBLOCK;
        // On a block device the flag refuses a device that is mounted or in a RAID.
        if is_block && access != Access::Look {
            flags |= OFlags::EXCL;
        }
        let file = match open(flags | OFlags::DIRECT) {
            // A file system without direct I/O.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => open(flags),
            opened => opened,
        }?;
        let opened = file.metadata()?.file_type();
        if opened.is_block_device() != is_block || (!is_block && !opened.is_file()) {
            return Err(no_device());
        }
        let lock = match access {
            Access::Own => Some(FlockOperation::NonBlockingLockExclusive),
            Access::Check => Some(FlockOperation::NonBlockingLockShared),
            Access::Look => None,
        };
        if let Some(lock) = lock {
            rustix::fs::flock(&file, lock).map_err(|error| match error {
                Errno::AGAIN => io::Error::from(io::ErrorKind::ResourceBusy),
                error => error.into(),
            })?;
        }
        let bytes = (&file).seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            bytes,
            is_block,
        })
    }

    /// Size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether this is a block device.
    #[must_use]
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// The number of the block device, as `major:minor`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn number(&self) -> io::Result<String> {
        let number = self.file.metadata()?.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        Ok(format!("{major}:{minor}"))
    }

    /// Bytes of a regular file now.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Gives a regular file its blocks, so that a full file system cannot stop its writes later.
    pub(crate) fn allot(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        self.file.sync_all()
    }

    /// Takes the rights of others on a regular file away: it will have contents that only some may read.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn close_to_others(&self) -> io::Result<()> {
        let mode = self.file.metadata()?.mode();
        match self.is_block || mode & 0o077 == 0 {
            true => Ok(()),
            false => self
                .file
                .set_permissions(Permissions::from_mode(mode & 0o700)),
        }
    }

    /// Makes a regular file at least so long.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn extend(&mut self, bytes: u64) -> io::Result<()> {
        if !self.is_block && bytes > self.bytes {
            self.file.set_len(bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

fn no_device() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "this is neither a block device nor a regular file",
    )
}

impl Backing for Device {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if is_aligned(buffer) {
            return read_exact(&self.file, offset, buffer);
        }
        let mut aligned = PageBuffer::new(whole_pages(buffer.len()))?;
        read_exact(&self.file, offset, &mut aligned)?;
        let some = buffer.len();
        buffer.copy_from_slice(&aligned[..some]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if is_aligned(data) {
            return write_all(&self.file, offset, data);
        }
        let mut aligned = PageBuffer::new(data.len())?;
        aligned.copy_from_slice(data);
        write_all(&self.file, offset, &aligned)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if self.is_block {
            return block_device::discard(&self.file, offset, bytes);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, offset, bytes)?)
    }

    fn has_room(&self, layout: &Layout) -> io::Result<bool> {
        Ok(layout.end() <= self.bytes)
    }

    fn prepare(&self, layout: &Layout) -> io::Result<()> {
        if layout.end() > self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Foreign signatures lie at the end, too.
        let wiped = whole_pages(1 << 20) as u64;
        let from = (self.bytes / PAGE * PAGE).saturating_sub(wiped);
        let zeros = PageBuffer::new(whole_pages(1 << 20))?;
        let some = usize::try_from((self.bytes / PAGE * PAGE) - from).unwrap_or(0);
        self.write_at(from, &zeros[..some])
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(usize::try_from(PAGE).unwrap_or(usize::MAX))
}

fn is_aligned(memory: &[u8]) -> bool {
    let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
    memory.as_ptr().addr().is_multiple_of(page) && memory.len().is_multiple_of(page)
}

/// Reads exactly these bytes, from page to page.
pub(crate) fn read_exact(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes all these bytes.
pub(crate) fn write_all(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < data.len() {
        match rustix::io::pwrite(file, &data[written..], offset + written as u64) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(bytes) => written += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
