//! Owns the options of a socket that no safe interface has: its pace and its priority.
//! Decides no values.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel send no more than `bytes_per_second` on `socket`; `u64::MAX` is no bound.
///
/// # Errors
/// What the kernel says.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    set(socket, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Has the queues of this machine prefer others to `socket`: 1 is the class for what fills gaps.
///
/// # Errors
/// What the kernel says.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    set(socket, libc::SO_PRIORITY, priority)
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
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_takes_a_pace_and_a_priority() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        super::set_max_pacing_rate(&socket, 5_000_000_000).unwrap();
        super::set_max_pacing_rate(&socket, u64::MAX).unwrap();
        super::set_priority(&socket, 1).unwrap();
    }
}
