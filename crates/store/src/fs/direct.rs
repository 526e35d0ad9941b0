//! Owns the way past the page cache: a second handle of an open file, and which part of a read or write may take it.
//! Leaves the rest of a read or write to the first handle, which goes through the cache.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// What offset, length and memory of direct I/O have to be multiples of: what no Linux file system asks more than.
const ALIGNMENT: usize = 4096;

/// A handle that reads and writes past the page cache.
#[derive(Debug)]
pub(super) struct Direct(OwnedFd);

impl Direct {
    /// Opens once more what `file` is a handle of, whatever has its name by now. `flags` say what for.
    ///
    /// `INVAL` if the file system has no direct I/O.
    pub(super) fn open(file: &OwnedFd, flags: OFlags) -> Result<Self, Errno> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(path, flags, Mode::empty()).map(Self)
    }

    /// Reads what can be read this way from the beginning of `buffer` on; returns how much that was.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let whole = aligned(offset, buffer);
        let mut filled = 0;
        while filled < whole {
            match rustix::io::pread(&self.0, &mut buffer[filled..whole], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if filled % ALIGNMENT != 0 {
                // The end of the file.
                break;
            }
        }
        Ok(filled)
    }

    /// Writes what can be written this way from the beginning of `data` on; returns how much that was.
    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let whole = aligned(offset, data);
        let mut written = 0;
        while written < whole {
            match rustix::io::pwrite(&self.0, &data[written..whole], offset + written as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if written % ALIGNMENT != 0 {
                break;
            }
        }
        Ok(written)
    }
}

/// How many bytes from the beginning of `memory` on may go to or from `offset`.
fn aligned(offset: u64, memory: &[u8]) -> usize {
    let begins =
        offset.is_multiple_of(ALIGNMENT as u64) && memory.as_ptr().addr().is_multiple_of(ALIGNMENT);
    if begins {
        memory.len() / ALIGNMENT * ALIGNMENT
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use godwit_sys::page_buffer::PageBuffer;

    use super::*;

    #[test]
    fn only_whole_pages_from_page_to_page_go_directly() {
        let buffer = PageBuffer::new(4 * ALIGNMENT).expect("memory");
        for (offset, from, bytes, direct) in [
            (0, 0, 4 * ALIGNMENT, 4 * ALIGNMENT),
            (0, 0, 3 * ALIGNMENT + 1, 3 * ALIGNMENT),
            (ALIGNMENT as u64, 0, ALIGNMENT - 1, 0),
            (1, 0, 2 * ALIGNMENT, 0),
            (512, 512, ALIGNMENT, 0),
            (0, 8, 2 * ALIGNMENT, 0),
            (0, 0, 0, 0),
        ] {
            assert_eq!(aligned(offset, &buffer[from..from + bytes]), direct);
        }
    }
}
