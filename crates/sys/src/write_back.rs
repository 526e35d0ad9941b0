//! Owns the call that makes the kernel begin to write parts of a file to disk; no safe interface has it. Does not decide when to write,
//! and makes nothing durable.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

/// Starts to write the changed data in `range` of `file`, in bytes, from the page cache to the disk; pages at the ends of the range are
/// written whole. The call does not wait for the writes, but may wait for space in the queue of the disk. Only fsync(2) guarantees that
/// data is written, and reports errors.
///
/// # Errors
/// The kernel's error: `ESPIPE` if `file` is not a file. Also an error if no file can have this range.
#[expect(unsafe_code, reason = "rustix has no form of sync_file_range")]
pub fn begin(file: impl AsFd, range: &Range<u64>) -> io::Result<()> {
    let bytes = range.end.saturating_sub(range.start);
    if bytes == 0 {
        // For the kernel an empty range would extend to the end of the file.
        return Ok(());
    }
    let position = |value| libc::off64_t::try_from(value).map_err(io::Error::other);
    let (offset, bytes) = (position(range.start)?, position(bytes)?);
    // SAFETY: the arguments are plain numbers, and the descriptor is open during the call.
    let answer = unsafe {
        libc::sync_file_range(
            file.as_fd().as_raw_fd(),
            offset,
            bytes,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
    crate::check(answer)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    #[test]
    fn any_part_of_a_file_is_taken_and_a_pipe_is_not() {
        let mut file = std::fs::File::from(
            rustix::fs::memfd_create(c"write-back", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
        );
        file.write_all(&[1; 10_000]).unwrap();
        for range in [0..10_000, 5..5, 4097..4098, 9_999..20_000] {
            super::begin(&file, &range).unwrap();
        }
        assert!(super::begin(&file, &(1 << 63..u64::MAX)).is_err());
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = super::begin(&reader, &(0..1)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
    }
}
