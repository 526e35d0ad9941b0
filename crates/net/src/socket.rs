//! Owns one non-blocking socket: receives, sends from two buffers, and waits for either; makes the errors that name its peer. Knows
//! neither records nor frames.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_sys::interfaces::set_unsent_max;
use godwit_sys::tcp_info::{TcpInfo, tcp_info};
use godwit_sys::tcp_options::{set_max_pacing_rate, set_priority, set_readable_from};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt,
};

use crate::channels::canonical;
use crate::limits::{HELD_BYTES_MIN, HELD_FROM, HELD_PARTS, KEEPALIVE_INTERVAL};
use crate::pulse::Pulse;
use crate::short_path::Usual;
use crate::stream::StreamError;

/// A connected stream socket.
pub(crate) struct Socket {
    fd: OwnedFd,
    is_tcp: bool,
    peer: String,
    /// The system's default if we replaced it; `None` if the default is in effect.
    usual: Option<Usual>,
    /// Whether the packets of the socket are marked to yield to all other traffic.
    marked: bool,
    /// Number of bytes from which the socket counts as readable.
    readable_from: u32,
    /// The current bound on unsent bytes; 0 for the system's bound.
    unsent_max: i32,
    /// Whether another thread bounds the unsent bytes.
    is_shared: Arc<AtomicBool>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Result of a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) input: bool,
    pub(crate) output: bool,
    pub(crate) woken: bool,
}

impl Socket {
    /// Takes over a TCP connection: sets no delay, keepalive, and a bound on how long sent bytes may stay
    /// unacknowledged.
    pub(crate) fn tcp(stream: TcpStream, stall_limit: Duration) -> io::Result<Self> {
        let peer = stream.peer_addr()?.to_string();
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        let mut socket = Self::new(stream.into(), true, peer);
        socket.usual = Usual::of(&socket.fd);
        socket.set_user_timeout(stall_limit)?;
        Ok(socket)
    }

    /// Takes over one end of a pair inside this process.
    pub(crate) fn local(stream: UnixStream, peer: &str) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::new(stream.into(), false, peer.to_owned()))
    }

    fn new(fd: OwnedFd, is_tcp: bool, peer: String) -> Self {
        Self {
            fd,
            is_tcp,
            peer,
            usual: None,
            marked: false,
            readable_from: 1,
            unsent_max: 0,
            is_shared: Arc::default(),
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The error for a peer that broke the protocol.
    pub(crate) fn peer_fault(&self, what: impl Into<String>) -> StreamError {
        StreamError::Peer {
            peer: self.peer.clone(),
            what: what.into(),
        }
    }

    /// The error for an operation in which the network or the kernel failed.
    pub(crate) fn network_fault(&self, operation: &'static str, source: io::Error) -> StreamError {
        StreamError::Network {
            peer: self.peer.clone(),
            operation,
            source,
        }
    }

    /// The error for a caller that broke the contract of a stream.
    pub(crate) fn misuse(&self, what: &'static str) -> StreamError {
        StreamError::Misuse {
            peer: self.peer.clone(),
            what,
        }
    }

    pub(crate) fn set_user_timeout(&self, limit: Duration) -> io::Result<()> {
        if self.is_tcp {
            let milliseconds = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(&self.fd, milliseconds)?;
        }
        Ok(())
    }

    /// Sets the congestion control, unless its name is empty, and marks packets to yield to other traffic if
    /// `background` is set.
    pub(crate) fn set_network_use(&mut self, congestion: &str, background: bool) -> io::Result<()> {
        /// The code point LE in the byte that holds it.
        const LOWER_EFFORT: u8 = 1 << 2;
        /// The class for background traffic in the kernel's queues.
        const FILLER: u32 = 1;
        if !self.is_tcp {
            return Ok(());
        }
        if background != self.marked {
            self.marked = background;
            let (class, priority) = if background {
                (LOWER_EFFORT, FILLER)
            } else {
                (0, 0)
            };
            // Marks are optional: without permission to set them, the connection still yields by its rate. One of the
            // two calls fits the address family.
            let _ = sockopt::set_ip_tos(&self.fd, class);
            let _ = sockopt::set_ipv6_tclass(&self.fd, class.into());
            let _ = set_priority(&self.fd, priority);
        }
        if congestion.is_empty() {
            return Ok(());
        }
        self.usual = None;
        Ok(sockopt::set_tcp_congestion(&self.fd, congestion)?)
    }

    /// Limits the bytes that the kernel sends in a second; 0 is no limit.
    pub(crate) fn set_pace(&self, bytes_per_second: u64) {
        if self.is_tcp {
            let most = if bytes_per_second == 0 {
                u64::MAX
            } else {
                bytes_per_second
            };
            // Available since Linux 3.13. A failure is ignored, because the rate is checked by its effect.
            let _ = set_max_pacing_rate(&self.fd, most);
        }
    }

    pub(crate) fn tcp_info(&self) -> Option<TcpInfo> {
        if self.is_tcp {
            tcp_info(&self.fd).ok()
        } else {
            None
        }
    }

    /// Sets the system's default congestion control on a connection over a short path that loses too much, or whose
    /// path proves longer.
    pub(crate) fn follow_short_path(&mut self, tcp: &TcpInfo) {
        if let Some(usual) = self.usual.take_if(|usual| usual.is_wanted(tcp)) {
            usual.give_to(&self.fd);
        }
    }

    /// Bounds unsent data if it exceeds the amount that is sent in half a second at this rate. The end of a transfer
    /// waits for data in its slowest stage. A socket that drains sooner keeps the system's bound, and so does a socket
    /// on a short path.
    pub(crate) fn hold_little(&mut self, tcp: &TcpInfo, bytes_per_second: u64) {
        if tcp.round_trip_min < HELD_FROM || self.is_shared.load(Ordering::Relaxed) {
            return;
        }
        let waits = u64::from(tcp.unsent_bytes);
        if let Some(most) = unsent_bound(self.unsent_max, waits, bytes_per_second)
            && set_unsent_max(&self.fd, most).is_ok()
        {
            self.unsent_max = most;
        }
    }

    pub(crate) fn pulse(&self) -> Option<Pulse> {
        if !self.is_tcp {
            return None;
        }
        let local = rustix::net::getsockname(&self.fd).ok()?;
        let remote = rustix::net::getpeername(&self.fd).ok()?;
        Some(Pulse::new(
            self.fd.try_clone().ok()?,
            canonical(local.try_into().ok()?),
            canonical(remote?.try_into().ok()?),
            Arc::clone(&self.is_shared),
        ))
    }

    /// Receives into `first`, and the excess into `second`, in one call. `None`: no bytes have arrived; `Some(0)`: end
    /// of the stream.
    pub(crate) fn receive(
        &mut self,
        first: &mut [u8],
        second: &mut [u8],
    ) -> io::Result<Option<usize>> {
        loop {
            let received = if second.is_empty() {
                rustix::net::recv(&self.fd, &mut *first, RecvFlags::empty()).map(|(bytes, _)| bytes)
            } else {
                rustix::net::recvmsg(
                    &self.fd,
                    &mut [IoSliceMut::new(first), IoSliceMut::new(second)],
                    &mut RecvAncillaryBuffer::default(),
                    RecvFlags::empty(),
                )
                .map(|message| message.bytes)
            };
            match received {
                Ok(bytes) => {
                    self.bytes_in += bytes as u64;
                    return Ok(Some(bytes));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends from both slices in one call. `None`: the socket has no room.
    pub(crate) fn send(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        loop {
            let sent = if second.is_empty() {
                rustix::net::send(&self.fd, first, SendFlags::NOSIGNAL)
            } else if first.is_empty() {
                rustix::net::send(&self.fd, second, SendFlags::NOSIGNAL)
            } else {
                rustix::net::sendmsg(
                    &self.fd,
                    &[IoSlice::new(first), IoSlice::new(second)],
                    &mut SendAncillaryBuffer::default(),
                    SendFlags::NOSIGNAL,
                )
            };
            match sent {
                Ok(bytes) => {
                    self.bytes_out += bytes as u64;
                    return Ok(Some(bytes));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits for the events in `want`, an error of the socket (then both directions are ready), or `waker`. The socket
    /// becomes readable at `input_bytes`, or when no more can arrive: fewer bytes do not end the wait.
    pub(crate) fn poll(
        &mut self,
        want: PollFlags,
        input_bytes: u32,
        waker: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> io::Result<Ready> {
        let timeout = Timespec::try_from(timeout).unwrap_or_else(|_endless| Timespec {
            tv_sec: i64::from(u32::MAX),
            tv_nsec: 0,
        });
        if want.contains(PollFlags::IN) {
            self.set_readable_from(input_bytes);
        }
        let socket = PollFd::from_borrowed_fd(self.fd.as_fd(), want);
        let found = match waker {
            Some(waker) => {
                let mut fds = [socket, PollFd::from_borrowed_fd(waker, PollFlags::IN)];
                poll(&mut fds, Some(&timeout)).map(|_| (fds[0].revents(), fds[1].revents()))
            }
            None => {
                let mut fds = [socket];
                poll(&mut fds, Some(&timeout)).map(|_| (fds[0].revents(), PollFlags::empty()))
            }
        };
        let (socket, woken) = match found {
            Ok(found) => found,
            // The timeout is not over: the caller checks its state and continues to wait.
            Err(Errno::INTR) => {
                return Ok(Ready {
                    input: true,
                    output: true,
                    woken: false,
                });
            }
            Err(errno) => return Err(errno.into()),
        };
        let broken = socket.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        Ok(Ready {
            input: broken || socket.contains(PollFlags::IN),
            output: broken || socket.contains(PollFlags::OUT),
            woken: !woken.is_empty(),
        })
    }

    fn set_readable_from(&mut self, bytes: u32) {
        // If the kernel refuses, every packet ends the wait, as by default.
        if self.is_tcp && bytes != self.readable_from && set_readable_from(&self.fd, bytes).is_ok()
        {
            self.readable_from = bytes;
        }
    }

    /// Ends the sending direction; the peer sees the end of the stream.
    pub(crate) fn end(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }
}

/// The next bound on unsent bytes, given the current `bound` (0 for none) and the waiting bytes; `None` to keep the
/// current one.
fn unsent_bound(bound: i32, waits: u64, bytes_per_second: u64) -> Option<i32> {
    let least = u64::from(HELD_BYTES_MIN.unsigned_abs());
    if bound == 0 && waits <= (bytes_per_second / 2).max(least) {
        return None;
    }
    let moment = i32::try_from(bytes_per_second / HELD_PARTS).unwrap_or(i32::MAX);
    let next = moment.max(HELD_BYTES_MIN);
    // Small changes of the bound are not worth the system call.
    (!(next / 2..=next.saturating_mul(2)).contains(&bound)).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_stream_has_a_bounded_send_buffer_and_a_fast_one_keeps_the_default() {
        const MB: u64 = 1_000_000;
        // 4 MB in the socket of a stream of 24 Mbit/s, and of one of 1 Gbit/s.
        assert_eq!(unsent_bound(0, 4 * MB, 3 * MB), Some(750_000));
        assert_eq!(unsent_bound(0, 4 * MB, 125 * MB), None);
        assert_eq!(unsent_bound(0, MB / 2, MB / 10), None);
        assert_eq!(unsent_bound(0, 4 * MB, 0), Some(HELD_BYTES_MIN));
        // The bound follows the rate, but ignores small changes of it.
        assert_eq!(unsent_bound(750_000, 0, 4 * MB), None);
        assert_eq!(unsent_bound(750_000, 0, 125 * MB), Some(31_250_000));
    }
}
