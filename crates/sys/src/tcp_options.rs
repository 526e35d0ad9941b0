//! Owns the options of a socket that no safe interface has: its pace, its priority, and from how many bytes on it is readable.
//! Decides no values.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel send no more than `bytes_per_second` on `socket`; `u64::MAX` is no bound.
///
/// # Errors
/// The kernel's error.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    set(socket, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Makes the queues of this machine prefer other sockets to `socket`: 1 is the class for background traffic.
///
/// # Errors
/// The kernel's error.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    set(socket, libc::SO_PRIORITY, priority)
}

/// Makes `socket` readable from this many bytes on, or once no more can come. So a reader that waits for many bytes is not woken for each
/// packet.
///
/// # Errors
/// The kernel's error.
pub fn set_readable_from(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    // A C `int`; the kernel takes no more than half of its possible buffer.
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
