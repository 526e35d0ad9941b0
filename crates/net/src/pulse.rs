//! Lets another thread observe whether a connection is alive, and end it. Does not decide when a connection is dead.
//!
//! With several channels, a socket holds at most 50 ms of unsent data (between `UNSENT_BYTES_MIN` and
//! `UNSENT_BYTES_MAX`). Then a slow channel does not keep the last blocks.

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

/// A view of a TCP connection from outside the thread that owns its stream. The connection stays open as long as a view
/// exists.
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
    /// Time since the peer's kernel last sent anything, even an acknowledgement.
    pub quiet: Duration,
    /// Whether sent data is unacknowledged.
    pub in_flight: bool,
    /// Whether data waits to be sent.
    pub waiting: bool,
    /// Smoothed RTT.
    pub round_trip: Duration,
    /// Bytes that the peer's kernel acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// Bytes that this end retransmitted.
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

    /// The other end's address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Reads the signs of life.
    ///
    /// # Errors
    /// The kernel's error.
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

    /// Prepares the connection for failover to other channels: it probes the peer early, and holds little unsent data.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
        // If the kernel refuses, the end of the connection is noticed later.
        let _ = sockopt::set_tcp_keepidle(&self.fd, KEEPALIVE_INTERVAL_CHANNEL);
        let _ = sockopt::set_tcp_keepintvl(&self.fd, KEEPALIVE_INTERVAL_CHANNEL);
        let _ = set_unsent_max(&self.fd, UNSENT_BYTES_MAX);
    }

    /// Probes the peer's kernel now, if it was silent for a second and nothing is in flight or waiting. The kernel
    /// alone probes at most once a second.
    pub fn ask(&self) {
        // A timer set to a time that has already passed fires at once.
        let _ = sockopt::set_tcp_keepidle(&self.fd, KEEPALIVE_INTERVAL_CHANNEL);
    }

    /// Limits unsent data to what is sent in a moment at this rate. At the end of a transfer, the other channels wait
    /// for data in the socket of a slow one.
    pub fn hold(&self, bytes_per_second: u64) {
        let moment = i32::try_from(bytes_per_second / 20).unwrap_or(i32::MAX);
        let _ = set_unsent_max(&self.fd, moment.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX));
    }

    /// Ends the connection now, even if its thread waits, and drops unacknowledged data.
    pub fn cut(&self) {
        // The data is sent again on other connections, so none of it may arrive later on this one.
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
        // The test polls, because no event reports silence.
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
