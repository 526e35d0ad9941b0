//! Owns a handle by which another thread sees whether a connection lives, and cuts it off.
//! Judges nothing.
//!
//! Where there are several channels, a socket holds at most what leaves in 50 ms (within `UNSENT_BYTES_MIN` and
//! `UNSENT_BYTES_MAX`) unsent, so that a slow channel does not hoard the last blocks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_sys::interfaces::set_unsent_max;
use godwit_sys::tcp_info::tcp_info;
use rustix::net::{Shutdown, sockopt};

use crate::limits::{KEEPALIVE_INTERVAL_CHANNEL, UNSENT_BYTES_MAX, UNSENT_BYTES_MIN};

/// Sees a TCP connection from outside the thread that owns its stream. As long as one is held the connection stays open.
#[derive(Debug)]
pub struct Pulse {
    fd: OwnedFd,
    local: SocketAddr,
    remote: SocketAddr,
    is_shared: Arc<AtomicBool>,
}

/// Signs of life of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vital {
    /// Since anything last came from the peer's kernel, be it an acknowledgement.
    pub quiet: Duration,
    /// Something was sent that is not acknowledged.
    pub in_flight: bool,
    /// Something waits to be sent.
    pub waiting: bool,
    /// Smoothed round trip.
    pub round_trip: Duration,
    /// Bytes that the peer's kernel acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// Bytes that this end sent again.
    pub resent_bytes: u64,
}

impl Pulse {
    pub(crate) fn new(
        fd: OwnedFd,
        local: SocketAddr,
        remote: SocketAddr,
        is_shared: Arc<AtomicBool>,
    ) -> Self {
        Self {
            fd,
            local,
            remote,
            is_shared,
        }
    }

    /// This end's address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The other end's.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Looks at it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn vital(&self) -> io::Result<Vital> {
        let info = tcp_info(&self.fd)?;
        Ok(Vital {
            quiet: info.since_acknowledgement.min(info.since_data),
            in_flight: info.unacknowledged_segments > 0,
            waiting: info.unsent_bytes > 0,
            round_trip: info.round_trip,
            acknowledged_bytes: info.acknowledged_bytes,
            received_bytes: info.received_bytes,
            resent_bytes: info.retransmitted_bytes,
        })
    }

    /// Others can take over from it: it asks early whether the peer is there, and holds little that was not sent.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
        // Where the kernel refuses, the end of it is noticed later.
        let _ = sockopt::set_tcp_keepidle(&self.fd, KEEPALIVE_INTERVAL_CHANNEL);
        let _ = sockopt::set_tcp_keepintvl(&self.fd, KEEPALIVE_INTERVAL_CHANNEL);
        let _ = set_unsent_max(&self.fd, UNSENT_BYTES_MAX);
    }

    /// Asks the peer's kernel now whether it is there, if nothing came from it for a second, and nothing is on its way or waits. The
    /// kernel by itself asks once a second at most.
    pub fn ask(&self) {
        // A timer that is set to what has passed already is over.
        let _ = sockopt::set_tcp_keepidle(&self.fd, KEEPALIVE_INTERVAL_CHANNEL);
    }

    /// Holds no more that was not sent than goes out in a moment at this rate: what waits in the socket of a slow channel at the end
    /// of a transfer, the others wait for.
    pub fn hold(&self, bytes_per_second: u64) {
        let moment = i32::try_from(bytes_per_second / 20).unwrap_or(i32::MAX);
        let _ = set_unsent_max(&self.fd, moment.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX));
    }

    /// Ends the connection now, whatever its thread waits for, and forgets what was not acknowledged.
    pub fn cut(&self) {
        // So that nothing of it arrives when the path is back: all of it goes elsewhere.
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_question_is_answered_long_before_the_kernel_would_have_asked() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_far, _) = listener.accept().unwrap();
        sockopt::set_socket_keepalive(&near, true).unwrap();
        sockopt::set_tcp_keepidle(&near, Duration::from_secs(3_600)).unwrap();
        let (local, remote) = (near.local_addr().unwrap(), near.peer_addr().unwrap());
        let pulse = Pulse::new(near.into(), local, remote, Arc::default());
        let begin = Instant::now();
        // There is no event for silence.
        let wait_until = |is_done: &dyn Fn(Vital) -> bool| {
            while !is_done(pulse.vital().unwrap()) {
                assert!(begin.elapsed() < Duration::from_secs(60), "it never came");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let a_while = KEEPALIVE_INTERVAL_CHANNEL * 3 / 2;
        wait_until(&|vital| vital.quiet >= a_while);
        pulse.ask();
        wait_until(&|vital| vital.quiet < a_while);
    }
}
