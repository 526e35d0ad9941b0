//! Owns memory that starts at a page boundary, as direct I/O requires. Does not pool or count the memory: its users do.

#![allow(unsafe_code, reason = "mmap and slices of what it returns")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A fixed number of bytes that starts at a page boundary. All bytes are zero at first; a page uses memory after its first use, and
/// dropping the buffer returns all memory to the system.
#[derive(Debug)]
pub struct PageBuffer {
    start: NonNull<u8>,
    bytes: usize,
}

impl PageBuffer {
    /// A buffer of `bytes` bytes.
    ///
    /// # Errors
    /// `InvalidInput` if `bytes` is zero or exceeds the address space; otherwise the kernel's error, usually that there is no memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes == 0 || isize::try_from(bytes).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: with a null address the kernel chooses an unused place, so no existing mapping is replaced.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` maps `bytes` readable, initialised (zeroed by the kernel) bytes for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping that `new` made, and no reference to it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "the mapping was ours");
    }
}

// SAFETY: the mapping belongs to this value alone and is plain bytes, independent of threads.
unsafe impl Send for PageBuffer {}
// SAFETY: shared references can only read.
unsafe impl Sync for PageBuffer {}

#[cfg(test)]
mod tests {
    use super::PageBuffer;

    #[test]
    fn starts_at_a_page_and_holds_what_is_written() {
        let mut buffer = PageBuffer::new(10_000).unwrap();
        assert_eq!(buffer.as_ptr().addr() % rustix::param::page_size(), 0);
        assert_eq!(buffer.len(), 10_000);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(7);
        assert!(buffer.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn refuses_sizes_that_cannot_be() {
        assert!(PageBuffer::new(0).is_err());
        assert!(PageBuffer::new(usize::MAX).is_err());
        assert!(PageBuffer::new(usize::MAX >> 1).is_err());
    }
}
