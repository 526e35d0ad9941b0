//! Owns the sudden shutdown of a mounted file system, as in a power failure, for tests. Does not unmount the
//! file system; no code except tests should use this module.

#![allow(unsafe_code, reason = "an ioctl request that rustix does not offer")]

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Setter, ioctl};

/// The data that still reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The file system's journal is flushed first, but not data: names and sizes may exist without their
    /// contents.
    LogFlush,
    /// No data: only the data that is on the device at this moment exists after the next mount.
    NoLogFlush,
}

/// Shuts down the file system of `file`: all later operations on it fail with `EIO`, until it is unmounted.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_SYS_ADMIN`; `ENOTTY` or `EOPNOTSUPP` if the file system does not support it.
pub fn file_system(file: impl AsFd, how: Shutdown) -> io::Result<()> {
    let flags = match how {
        Shutdown::LogFlush => FLAGS_LOG_FLUSH,
        Shutdown::NoLogFlush => FLAGS_NO_LOG_FLUSH,
    };
    // SAFETY: FS_IOC_SHUTDOWN reads one `u32` through the pointer that `Setter` passes.
    let request = unsafe { Setter::<FS_IOC_SHUTDOWN, u32>::new(flags) };
    // SAFETY: the request reads nothing but that `u32`.
    unsafe { ioctl(file, request) }?;
    Ok(())
}

// `_IOR('X', 125, __u32)`, from linux/fs.h; the flags are those of ext4 and XFS.
const FS_IOC_SHUTDOWN: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(b'X', 125);
const FLAGS_LOG_FLUSH: u32 = 1;
const FLAGS_NO_LOG_FLUSH: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_refuses_a_shutdown_of_its_file_system() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        let error =
            file_system(&reader, Shutdown::NoLogFlush).expect_err("pipes have no end like that");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
