//! Owns the reading of the kernel's statistics of a TCP connection (`TCP_INFO`). Does not interpret the
//! statistics; the units are those of the kernel.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The kernel's figures about one TCP connection. Fields that an old kernel does not report are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip time.
    pub round_trip: Duration,
    /// The smallest recent round trip time.
    pub round_trip_min: Duration,
    /// Largest number of segments in flight that the congestion control allows.
    pub congestion_window_segments: u32,
    /// Bytes of a sent segment.
    pub segment_bytes: u32,
    /// The largest packet on the path, as far as the kernel knows, in bytes.
    pub path_mtu_bytes: u32,
    /// Segments that were sent and not yet acknowledged.
    pub unacknowledged_segments: u32,
    /// Time since the last acknowledgement.
    pub since_acknowledgement: Duration,
    /// Time since data was last received.
    pub since_data: Duration,
    /// Segments that were retransmitted since the connection began.
    pub retransmitted_segments: u32,
    /// Bytes that the peer's kernel has acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes that arrived from the peer.
    pub received_bytes: u64,
    /// The most bytes received in one round trip so far; the receive window depends on this number.
    pub receive_space_bytes: u32,
    /// Bytes in the socket that were not sent yet.
    pub unsent_bytes: u32,
    /// The last measured delivery rate in bytes per second.
    pub delivery_bytes_per_second: u64,
    /// Time during which the socket had data to send.
    pub busy: Duration,
    /// The part of `busy` limited by the peer's receive window.
    pub window_limited: Duration,
    /// The part of `busy` limited by our send buffer.
    pub buffer_limited: Duration,
    /// `delivery_bytes_per_second` was measured while the socket had too little data to send.
    pub delivery_app_limited: bool,
    /// Data segments sent since the connection began, including retransmitted ones.
    pub data_segments: u32,
    /// Bytes sent since the connection began, including retransmitted ones.
    pub sent_bytes: u64,
    /// Bytes retransmitted since the connection began.
    pub retransmitted_bytes: u64,
}

/// `struct tcp_info` of linux/tcp.h up to `tcpi_bytes_retrans`; the C libraries have fewer fields.
#[repr(C)]
struct Raw {
    // State, phase, retransmits, probes, backoff, options, window scales.
    bytes: [u8; 7],
    /// The lowest bit means that the application limited the delivery rate.
    flags: u8,
    // rto, ato.
    timeouts: [u32; 2],
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    // sacked, lost, retrans, fackets, and the times of the last packets sent.
    now: [u32; 6],
    since_last_data: u32,
    since_last_ack: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    // advmss, reordering, rcv_rtt.
    receiving: [u32; 3],
    rcv_space: u32,
    total_retrans: u32,
    // pacing_rate, max_pacing_rate.
    pacing: [u64; 2],
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
}

// The offsets must be those of the kernel's structure.
const _: () = assert!(std::mem::offset_of!(Raw, total_retrans) == 100);
const _: () = assert!(std::mem::offset_of!(Raw, delivery_rate) == 160);
const _: () = assert!(size_of::<Raw>() == 216);

/// Reads the statistics of `socket`.
///
/// # Errors
/// The kernel's error, in particular if the socket is not a TCP socket.
#[expect(
    unsafe_code,
    reason = "getsockopt with a structure rustix has no form for"
)]
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = MaybeUninit::<Raw>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<Raw>()).map_err(io::Error::other)?;
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
    crate::check(answer)?;
    // SAFETY: the value has plain integers and was zero before, so it is valid however much the kernel
    // wrote.
    let raw = unsafe { raw.assume_init() };
    Ok(TcpInfo {
        round_trip: Duration::from_micros(raw.rtt.into()),
        round_trip_min: Duration::from_micros(raw.min_rtt.into()),
        congestion_window_segments: raw.snd_cwnd,
        segment_bytes: raw.snd_mss,
        path_mtu_bytes: raw.pmtu,
        unacknowledged_segments: raw.unacked,
        since_acknowledgement: Duration::from_millis(raw.since_last_ack.into()),
        since_data: Duration::from_millis(raw.since_last_data.into()),
        retransmitted_segments: raw.total_retrans,
        acknowledged_bytes: raw.bytes_acked,
        received_bytes: raw.bytes_received,
        receive_space_bytes: raw.rcv_space,
        unsent_bytes: raw.notsent_bytes,
        delivery_bytes_per_second: raw.delivery_rate,
        busy: Duration::from_micros(raw.busy_time),
        window_limited: Duration::from_micros(raw.rwnd_limited),
        buffer_limited: Duration::from_micros(raw.sndbuf_limited),
        delivery_app_limited: raw.flags & 1 != 0,
        data_segments: raw.data_segs_out,
        sent_bytes: raw.bytes_sent,
        retransmitted_bytes: raw.bytes_retrans,
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
        let info = tcp_info(&client).unwrap();
        assert_eq!(
            (
                info.sent_bytes - info.retransmitted_bytes,
                info.acknowledged_bytes.min(1000)
            ),
            (1000, 1000)
        );
        assert!((1..10).contains(&info.data_segments));
    }

    #[test]
    fn refuses_what_is_not_tcp() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(tcp_info(&one).is_err());
    }
}
