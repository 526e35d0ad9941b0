//! Owns the request that tells a block device which bytes are not needed. Decides nothing about their use.

#![allow(unsafe_code, reason = "an ioctl request that rustix does not offer")]

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Setter, ioctl};

/// Says that `bytes` bytes at `offset` of the block device are not needed. Both are multiples of its sector size.
///
/// # Errors
/// `EOPNOTSUPP` if the device has no such operation; `ENOTTY` if the file is no block device; otherwise the kernel's error.
pub fn discard(device: impl AsFd, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD reads two `u64` through the pointer that `Setter` passes.
    let request = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([offset, bytes]) };
    // SAFETY: the request reads nothing but those two numbers.
    unsafe { ioctl(device, request) }?;
    Ok(())
}

// `_IO(0x12, 119)`, from linux/fs.h.
const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_refuses_a_discard() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        let error = discard(&reader, 0, 4096).expect_err("a pipe has no sectors");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
