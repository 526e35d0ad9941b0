//! Owns socket options that no safe interface has: the pacing rate, the priority, and the number of bytes that make a socket readable.
//! Does not choose values.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Limits the rate at which the kernel sends on `socket` to `bytes_per_second`; `u64::MAX` means no limit.
///
/// # Errors
/// The kernel's error.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    set(socket, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Gives `socket` a priority in the queues of this machine: 1 is the class for background traffic.
///
/// # Errors
/// The kernel's error.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    set(socket, libc::SO_PRIORITY, priority)
}

/// Makes `socket` readable when it has this many bytes, or when no more can arrive. A reader that waits for many bytes is then not woken
/// for each packet.
///
/// # Errors
/// The kernel's error.
pub fn set_readable_from(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    // The option is a C `int`; the kernel allows at most half of its largest buffer.
    set(
        socket,
        libc::SO_RCVLOWAT,
        i32::try_from(bytes).unwrap_or(i32::MAX),
    )
}

#[expect(unsafe_code, reason = "setsockopt with options rustix has no form for")]
fn set<T: Copy>(socket: impl AsFd, option: libc::c_int, value: T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is readable for `length` bytes and outlives the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    crate::check(answer)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn a_socket_takes_a_pace_and_a_priority() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        super::set_max_pacing_rate(&socket, 5_000_000_000).unwrap();
        super::set_max_pacing_rate(&socket, u64::MAX).unwrap();
        super::set_priority(&socket, 1).unwrap();
    }

    #[test]
    fn a_socket_is_readable_from_so_many_bytes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        super::set_readable_from(&receiver, 1000).unwrap();
        let wait = |milliseconds| {
            let mut files = [PollFd::new(&receiver, PollFlags::IN)];
            let timeout = Timespec::try_from(Duration::from_millis(milliseconds)).unwrap();
            poll(&mut files, Some(&timeout)).unwrap()
        };
        sender.write_all(&[0; 999]).unwrap();
        assert_eq!(wait(50), 0);
        sender.write_all(&[0]).unwrap();
        assert_eq!(wait(60_000), 1);
        super::set_readable_from(&receiver, 5000).unwrap();
        assert_eq!(wait(0), 0);
        drop(sender);
        assert_eq!(wait(60_000), 1);
    }
}
