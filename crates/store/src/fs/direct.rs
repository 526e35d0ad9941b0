//! Owns direct I/O: a second handle of an open file, and the decision which part of a read or write uses it. Leaves the rest of a read or
//! write to the first handle, which uses the cache.
//!
//! The second handle reads and writes blocks that begin and end at a page boundary, or at the alignment in `statx`. This applies to the
//! file and to memory. Blocks lie on page boundaries anyway, so callers need not align them. `--direct` is off by default: see
//! `docs/decisions/direct-io.md`.

use crate::handles::with_room;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// Alignment of offset, length and memory for direct I/O, unless the kernel asks for more. Hardly any Linux file system asks for more. If
/// the kernel asks for less, we still use whole pages, so that no page is half in the cache.
const ALIGNMENT: usize = 4096;
/// If a file system asks for a larger alignment, direct I/O is not used: no block would ever be aligned.
const ALIGNMENT_MAX: u32 = 1 << 20;

/// A handle that reads and writes without the page cache.
#[derive(Debug)]
pub(super) struct Direct {
    fd: OwnedFd,
    alignment: Alignment,
}

/// Alignment that direct I/O of one file needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Alignment {
    /// Addresses in memory.
    memory: usize,
    /// Positions in the file, and lengths.
    offset: usize,
}

impl Alignment {
    /// From the figures of statx(2). Zeros mean that statx returns no figure, or that the kernel itself uses the cache.
    fn of(memory: u32, offset: u32) -> Self {
        let at_least = |stated: u32| {
            let believed = stated.is_power_of_two() && stated <= ALIGNMENT_MAX;
            (if believed { stated as usize } else { 0 }).max(ALIGNMENT)
        };
        Self {
            memory: at_least(memory),
            offset: at_least(offset),
        }
    }

    /// How many bytes from the beginning of `memory` direct I/O may read or write at `offset`.
    fn aligned(self, offset: u64, memory: &[u8]) -> usize {
        let begins = offset.is_multiple_of(self.offset as u64)
            && memory.as_ptr().addr().is_multiple_of(self.memory);
        if begins {
            memory.len() / self.offset * self.offset
        } else {
            0
        }
    }
}

impl Direct {
    /// Opens the file behind `file` again, even if another file has its name by now. `flags` are the access flags.
    ///
    /// `INVAL` if the file system has no direct I/O.
    pub(super) fn open(file: &OwnedFd, flags: OFlags) -> Result<Self, Errno> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = with_room(|| rustix::fs::open(path.as_str(), flags, Mode::empty()))?;
        // Kernels before Linux 6.1 do not report the alignment.
        let stated = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
            .ok()
            .filter(|stat| stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
            .map_or((0, 0), |stat| {
                (stat.stx_dio_mem_align, stat.stx_dio_offset_align)
            });
        let alignment = Alignment::of(stated.0, stated.1);
        Ok(Self { fd, alignment })
    }

    /// Reads as much of `buffer`, from its beginning, as direct I/O can; returns the number of bytes.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let whole = self.alignment.aligned(offset, buffer);
        let mut filled = 0;
        while filled < whole {
            match rustix::io::pread(&self.fd, &mut buffer[filled..whole], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if filled % self.alignment.offset != 0 {
                // The end of the file.
                break;
            }
        }
        Ok(filled)
    }

    /// Writes as much of `data`, from its beginning, as direct I/O can; returns the number of bytes.
    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let whole = self.alignment.aligned(offset, data);
        let mut written = 0;
        while written < whole {
            match rustix::io::pwrite(&self.fd, &data[written..whole], offset + written as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if written % self.alignment.offset != 0 {
                break;
            }
        }
        Ok(written)
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
            let alignment = Alignment::of(0, 0);
            assert_eq!(
                alignment.aligned(offset, &buffer[from..from + bytes]),
                direct
            );
        }
    }

    #[test]
    fn a_file_system_that_asks_for_more_than_pages_gets_it() {
        let pages = |memory, offset| Alignment { memory, offset };
        for (memory, offset, wanted) in [
            (4, 512, pages(ALIGNMENT, ALIGNMENT)),
            (512, 16384, pages(ALIGNMENT, 16384)),
            (65536, 4096, pages(65536, ALIGNMENT)),
            (0, 0, pages(ALIGNMENT, ALIGNMENT)),
            (3, u32::MAX, pages(ALIGNMENT, ALIGNMENT)),
            (1 << 21, 1 << 20, pages(ALIGNMENT, 1 << 20)),
        ] {
            assert_eq!(Alignment::of(memory, offset), wanted);
        }
        let buffer = PageBuffer::new(8 * ALIGNMENT).expect("memory");
        let asks = Alignment::of(4096, 16384);
        assert_eq!(asks.aligned(0, &buffer[..7 * ALIGNMENT]), 16384);
        assert_eq!(asks.aligned(16384, &buffer[..]), 32768);
        assert_eq!(asks.aligned(4096, &buffer[..]), 0);
    }
}
