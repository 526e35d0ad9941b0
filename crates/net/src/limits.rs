//! Owns the limits of connections: times, sizes and counts, each with its reason. Does not enforce the limits.

use std::time::Duration;

use godwit_proto::{HEAD_BYTES_MAX, PRELUDE_BYTES};

/// Deadline of the whole TLS handshake, however slowly the peer sends its bytes: three round trips of a bad path take
/// less than 3 s.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// Deadline from the end of the handshake to a complete hello; enforced by the reader of the hello.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// Deadline of one attempt to connect to all addresses of a host.
pub const DIAL_DEADLINE: Duration = Duration::from_secs(20);

/// Deadline of one attempt to prove the peer's identity over a channel: three round trips of a bad path.
pub const CHANNEL_DEADLINE: Duration = Duration::from_secs(4);

/// Most channels that are found for one transfer: one for each interface of a large machine.
pub const CHANNELS_FOUND_MAX: usize = 16;

/// How often a search that has found all channels checks whether this machine's interfaces changed.
pub const INTERFACES_EVERY: Duration = Duration::from_secs(3);

/// How many rounds of pairing distant interfaces are tried.
pub const CHANNEL_ROUNDS_MAX: usize = 4;

/// A slow socket holds at most the bytes of one second divided by this, but at least [`HELD_BYTES_MIN`].
pub const HELD_PARTS: u64 = 4;

/// The least bound for unsent bytes in a slow socket: a block. Sockets are bounded only where the RTT is at least [`HELD_FROM`].
pub const HELD_BYTES_MIN: i32 = 512 << 10;
/// See [`HELD_BYTES_MIN`].
pub const HELD_FROM: Duration = Duration::from_millis(5);

/// Most unsent bytes in a socket if other streams could send them: two blocks …
pub const UNSENT_BYTES_MAX: i32 = 1 << 20;

/// … and the minimum, so that a path that becomes faster is not held up: 1 ms at 1 Gbit/s.
pub const UNSENT_BYTES_MIN: i32 = 128 << 10;

/// Silence before the kernel probes whether the peer is alive, if other channels can take over.
pub const KEEPALIVE_INTERVAL_CHANNEL: Duration = Duration::from_secs(1);

/// Time without progress after which a stream is dead. This is longer than the longest sync of a slow disk.
pub const STALL_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a blocked send after the stream's owner has ended it or the peer has hung up: a few round trips of a bad
/// path.
pub const END_GRACE: Duration = Duration::from_secs(1);

/// How often a busy stream measures itself.
pub const METER_EVERY: Duration = Duration::from_millis(200);

/// Silence before the kernel probes whether the peer is alive, and between further probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// TLS records sent under one key: 64 GiB in full records, a quarter of what AES-GCM permits (2^24).
pub const REKEY_RECORDS: u64 = 1 << 22;

/// Plaintext in one TLS record (RFC 8446, 5.1).
pub const RECORD_PLAIN_BYTES: usize = 16_384;

/// The header of a TLS record: type, version, length.
pub const RECORD_HEADER_BYTES: usize = 5;

/// The longest TLS record: header, ciphertext (RFC 8446, 5.2: plaintext and 256).
pub const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + RECORD_PLAIN_BYTES + 256;

/// Overhead of this side's records over their plaintext: header, content type, tag.
pub const RECORD_OVERHEAD_BYTES: usize = RECORD_HEADER_BYTES + 1 + 16;

/// Plaintext encrypted before it is sent: large enough for few system calls, small enough to stay in L2.
pub const SEAL_BYTES: usize = 16 * RECORD_PLAIN_BYTES;

/// The receive buffer of a stream: one large receive, and the start of a record that it may cut.
pub const RECEIVE_BYTES: usize = 16 * RECORD_PLAIN_BYTES + RECORD_BYTES_MAX;

/// Frames kept while a send is blocked.
pub const INBOX_FRAMES_MAX: usize = 512 // acknowledgements of every block in flight, one each
    + 64 // answers to every manifest in flight
    + 64; // status, failures, pings

/// Bytes of frames kept while a send is blocked; a frame that would pass this waits in the socket.
pub const INBOX_BYTES_MAX: usize = 8 * (HEAD_BYTES_MAX as usize + PRELUDE_BYTES);

/// Bytes received in advance after an unencrypted payload: the head of the next slice, and little of its payload.
pub const HEAD_AHEAD_BYTES: usize = 1024;

/// Largest amount of payload after which a waiting thread is woken. Waking for each packet would cause most of the work over
/// many slow streams.
pub const INPUT_BYTES_MAX: u32 = 64 << 10;

/// The wake-up amount is at most this fraction of an RTT's input. The kernel opens the window by the bytes read in one RTT. If
/// the window fills before any bytes are read, the peer waits.
pub const INPUT_PARTS: u32 = 8;

/// Bytes examined of a client with another protocol, before it receives a refusal.
pub const SNIFF_BYTES: usize = 64;

const _: () = assert!(RECEIVE_BYTES >= 2 * RECORD_BYTES_MAX);
const _: () = assert!(REKEY_RECORDS < 1 << 24);
