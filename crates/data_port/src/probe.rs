//! Describes a machine without its storage: the kernel's buffers, congestion control, the speed of a core. Reads
//! `/proc/sys` and does not change it.

use std::fs;
use std::time::Duration;

use godwit_net::{Cipher, seal_rate};
use godwit_proto::MachineSeen;
use godwit_store::digest::{DigestKind, digest_slice};
use godwit_store::measure::rate;
use godwit_store::thread_cpu_time;

/// Duration of each measurement.
const MEASURE_FOR: Duration = Duration::from_millis(50);
const BLOCK_BYTES: usize = 512 << 10;

/// A buffer's minimum, initial and maximum size, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Size under memory pressure.
    pub least: u64,
    /// Initial size.
    pub first: u64,
    /// Largest size to which the kernel lets the buffer grow.
    pub most: u64,
}

/// Reads `net.ipv4.tcp_wmem` or `net.ipv4.tcp_rmem`; `None` if the kernel does not have it.
pub fn buffer(name: &str) -> Option<Buffer> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    let sizes: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [least, first, most] = sizes[..] else {
        return None;
    };
    Some(Buffer { least, first, most })
}

/// The congestion control in use, and the loaded ones; `None` if the kernel does not list them.
pub fn congestion() -> Option<(String, String)> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    let used = read("tcp_congestion_control").ok()?;
    let available = read("tcp_available_congestion_control").unwrap_or_default();
    Some((used.trim().to_owned(), available.trim().to_owned()))
}

/// Digest rate of one core, in bytes per second of its CPU time. Takes 50 ms of CPU time, regardless of other load.
pub fn digest_rate(kind: DigestKind) -> u64 {
    let block = vec![3; BLOCK_BYTES];
    let started = thread_cpu_time();
    let mut bytes = 0;
    loop {
        std::hint::black_box(digest_slice(kind, 0, BLOCK_BYTES as u64, &block));
        bytes += BLOCK_BYTES as u64;
        let passed = thread_cpu_time().saturating_sub(started);
        if passed >= MEASURE_FOR {
            return rate(bytes, passed);
        }
    }
}

/// Cipher rate of one core, in bytes per second of its CPU time. Takes 50 ms of CPU time.
pub fn cipher_rate(cipher: Cipher) -> Option<u64> {
    seal_rate(cipher, MEASURE_FOR, thread_cpu_time)
}

/// Cores that this process may use.
pub fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// The description of this machine for another one.
pub(crate) fn machine() -> MachineSeen {
    let most = |name| buffer(name).map_or(0, |buffer| buffer.most);
    MachineSeen {
        send_buffer_bytes: most("net.ipv4.tcp_wmem"),
        receive_buffer_bytes: most("net.ipv4.tcp_rmem"),
        congestion: congestion().map(|(used, _)| used).unwrap_or_default(),
        cores: cores(),
        seal_bytes_per_second: cipher_rate(Cipher::Aes256Gcm).unwrap_or(0),
        digest_bytes_per_second: digest_rate(DigestKind::Crc64Nvme),
    }
}
