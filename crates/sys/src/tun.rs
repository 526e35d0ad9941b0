//! Owns the creation of TUN devices: packets without an Ethernet header, read and written through a file. Does not set addresses, enable
//! devices or interpret packets.
//!
//! The device belongs to the network namespace of the thread that creates it and disappears when its file is closed.

#![allow(unsafe_code, reason = "ioctl requests that rustix does not offer")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{IntegerSetter, Setter, Updater, ioctl};

/// Longest name of a network device in bytes, without the final NUL.
pub const DEVICE_NAME_BYTES_MAX: usize = 15;

/// Bytes of the header before each packet of a device made with [`Offload::On`] (`struct virtio_net_hdr`).
pub const VNET_HEADER_BYTES: usize = 10;

/// Whether the kernel may pass segments larger than the MTU and packets without a final checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Every packet is complete and no larger than the MTU; it has no header.
    Off,
    /// TCP segments of up to 64 KiB and incomplete checksums are passed unchanged. A header of [`VNET_HEADER_BYTES`] precedes each packet
    /// and describes the remaining work.
    On,
}

/// A TUN device, open and non-blocking.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
}

impl Tun {
    /// Creates the device `name` in the network namespace of the calling thread. The device is down and has no address.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the name is empty, is too long, or has a NUL. Otherwise the kernel's error: no permission to open `/dev/net/tun`
    /// or to create devices in this namespace, or the name is in use.
    pub fn create(name: &str, offload: Offload) -> io::Result<Self> {
        let mut request = Request::new(name)?;
        request.flags = IFF_TUN | IFF_NO_PI;
        if offload == Offload::On {
            request.flags |= IFF_VNET_HDR;
        }
        let file = rustix::fs::open(
            "/dev/net/tun",
            OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, of which `Request` has the size and layout.
        let set_interface = unsafe { Updater::<TUNSETIFF, Request>::new(&mut request) };
        // SAFETY: the request touches nothing but `request`, which outlives the call.
        unsafe { ioctl(&file, set_interface) }?;
        if offload == Offload::On {
            set_offload(file.as_fd())?;
        }
        Ok(Self { file })
    }

    /// Reads one packet, including its header if there is one. A packet larger than the buffer is truncated.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no packet; `EBADFD` if the device no longer exists, for example because its namespace ended.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.file, buffer)?)
    }

    /// Passes one packet, including its header if there is one, to the kernel.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the packet is malformed, `EIO` if the device is down, `EBADFD` if it no longer exists.
    pub fn write(&self, packet: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.file, packet)?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn set_offload(file: BorrowedFd<'_>) -> io::Result<()> {
    const HEADER_BYTES: libc::c_int = 10;
    const _: () = assert!(HEADER_BYTES as usize == VNET_HEADER_BYTES);
    // SAFETY: TUNSETVNETHDRSZ reads one `int` through the pointer that `Setter` passes.
    let set_header = unsafe { Setter::<TUNSETVNETHDRSZ, libc::c_int>::new(HEADER_BYTES) };
    // SAFETY: the request reads nothing but that `int`.
    unsafe { ioctl(file, set_header) }?;
    // SAFETY: the argument of TUNSETOFFLOAD is the flags themselves, not a pointer.
    let set_flags = unsafe {
        IntegerSetter::<TUNSETOFFLOAD>::new_usize(
            TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN,
        )
    };
    // SAFETY: the request uses no memory of this process.
    unsafe { ioctl(file, set_flags) }?;
    Ok(())
}

/// `struct ifreq`: a name and a union, of which only the flags matter here.
#[repr(C)]
struct Request {
    name: [u8; DEVICE_NAME_BYTES_MAX + 1],
    flags: u16,
    rest: [u8; size_of::<libc::ifreq>() - DEVICE_NAME_BYTES_MAX - 1 - 2],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());
const _: () = assert!(DEVICE_NAME_BYTES_MAX + 1 == libc::IFNAMSIZ);

impl Request {
    fn new(name: &str) -> io::Result<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > DEVICE_NAME_BYTES_MAX || bytes.contains(&0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a device name has 1 to 15 bytes",
            ));
        }
        let mut request = Self {
            name: [0; DEVICE_NAME_BYTES_MAX + 1],
            flags: 0,
            rest: [0; _],
        };
        request.name[..bytes.len()].copy_from_slice(bytes);
        Ok(request)
    }
}

// From linux/if_tun.h.
const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;
const TUNSETOFFLOAD: rustix::ioctl::Opcode = 0x4004_54d0;
const TUNSETVNETHDRSZ: rustix::ioctl::Opcode = 0x4004_54d8;
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO4: usize = 0x02;
const TUN_F_TSO6: usize = 0x04;
const TUN_F_TSO_ECN: usize = 0x08;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_would_cut_are_refused() {
        for name in ["", "sixteen-bytes-xx", "nul\0inside"] {
            let error = Tun::create(name, Offload::Off).expect_err("the name is not valid");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
