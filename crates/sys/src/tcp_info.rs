//! Owns the reading of the kernel's statistics of a TCP connection (`TCP_INFO`).
//! Interprets nothing: units are the kernel's, named.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What the kernel knows of one TCP connection. Fields that an old kernel does not report are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip time.
    pub round_trip: Duration,
    /// The smallest round trip seen lately.
    pub round_trip_min: Duration,
    /// Segments the congestion control lets fly.
    pub congestion_window_segments: u32,
    /// Bytes of a segment as sent.
    pub segment_bytes: u32,
    /// The largest packet that the path takes, as far as the kernel has found out, in bytes.
    pub path_mtu_bytes: u32,
    /// Segments sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Segments retransmitted since the connection began.
    pub retransmitted_segments: u32,
    /// Bytes the peer's kernel acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes that arrived from the peer.
    pub received_bytes: u64,
    /// Bytes in the socket that were never sent yet.
    pub unsent_bytes: u32,
    /// The latest measured delivery rate, bytes per second.
    pub delivery_bytes_per_second: u64,
    /// Time during which there was something to send.
    pub busy: Duration,
    /// The part of `busy` limited by the peer's receive window.
    pub window_limited: Duration,
    /// The part of `busy` limited by our send buffer.
    pub buffer_limited: Duration,
}

/// Reads the statistics of `socket`.
///
/// # Errors
/// What the kernel says, in particular for a socket that is not TCP.
#[expect(
    unsafe_code,
    reason = "getsockopt with a structure rustix has no form for"
)]
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length =
        libc::socklen_t::try_from(size_of::<libc::tcp_info>()).map_err(io::Error::other)?;
    // SAFETY: `raw` is writable for `length` bytes, and both outlive the call.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain integers, zeroed before: every bit pattern is a value, however much the kernel wrote.
    let raw = unsafe { raw.assume_init() };
    Ok(TcpInfo {
        round_trip: Duration::from_micros(raw.tcpi_rtt.into()),
        round_trip_min: Duration::from_micros(raw.tcpi_min_rtt.into()),
        congestion_window_segments: raw.tcpi_snd_cwnd,
        segment_bytes: raw.tcpi_snd_mss,
        path_mtu_bytes: raw.tcpi_pmtu,
        unacknowledged_segments: raw.tcpi_unacked,
        retransmitted_segments: raw.tcpi_total_retrans,
        acknowledged_bytes: raw.tcpi_bytes_acked,
        received_bytes: raw.tcpi_bytes_received,
        unsent_bytes: raw.tcpi_notsent_bytes,
        delivery_bytes_per_second: raw.tcpi_delivery_rate,
        busy: Duration::from_micros(raw.tcpi_busy_time),
        window_limited: Duration::from_micros(raw.tcpi_rwnd_limited),
        buffer_limited: Duration::from_micros(raw.tcpi_sndbuf_limited),
    })
}

#[cfg(test)]
mod tests {
    use super::tcp_info;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn counts_the_bytes_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        let mut bytes = [0; 1000];
        server.read_exact(&mut bytes).unwrap();
        let info = tcp_info(&server).unwrap();
        assert_eq!(info.received_bytes, 1000);
        assert!(info.segment_bytes > 0);
        assert!(info.path_mtu_bytes > info.segment_bytes);
    }

    #[test]
    fn refuses_what_is_not_tcp() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(tcp_info(&one).is_err());
    }
}
