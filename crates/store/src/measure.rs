//! Measures a storage with one file: free space, write rate, read rate. Creates no files: the caller passes one
//! and leaves nothing behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, fstatvfs};

const CHUNK_BYTES: usize = 8 << 20;

/// A storage with less free space than this counts as full.
pub const ROOM_BYTES_MIN: u64 = 16 << 20;

/// Limits of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct MeasureLimits {
    /// Most bytes to write; never more than a tenth of the free space.
    pub bytes: u64,
    /// Time limit for writing, and again for reading; one chunk of 8 MiB may exceed it.
    pub time: Duration,
}

/// Results of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Free space for unprivileged users, in bytes.
    pub free_bytes: u64,
    /// Rate of writing, including the sync to disk.
    pub write_bytes_per_second: u64,
    /// Rate of reading; from the disk if the file system drops its cache on request, otherwise from memory.
    pub read_bytes_per_second: u64,
}

/// Writes to `file`, which must be empty, and reads the data back.
///
/// # Errors
/// Errors of writing and reading; [`io::ErrorKind::StorageFull`] if there is less room than [`ROOM_BYTES_MIN`].
pub fn measure(file: &File, limits: MeasureLimits) -> io::Result<Measured> {
    let room = fstatvfs(file)?;
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if free_bytes < ROOM_BYTES_MIN {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let bytes_max = limits.bytes.min(free_bytes / 10);
    let mut chunk = noise();
    let least = usize::try_from(bytes_max).unwrap_or(CHUNK_BYTES);
    chunk.truncate(least.min(CHUNK_BYTES));
    let length = chunk.len() as u64;
    let started = Instant::now();
    let mut written = 0;
    while written + length <= bytes_max && (written == 0 || started.elapsed() < limits.time) {
        file.write_all_at(&chunk, written)?;
        file.sync_data()?;
        written += length;
    }
    let write_bytes_per_second = rate(written, started.elapsed());
    // Drops the cache, if the file system does so on request, so that the disk is read and not memory.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let started = Instant::now();
    let mut read = 0;
    while read < written && (read == 0 || started.elapsed() < limits.time) {
        file.read_exact_at(&mut chunk, read)?;
        read += length;
    }
    Ok(Measured {
        free_bytes,
        write_bytes_per_second,
        read_bytes_per_second: rate(read, started.elapsed()),
    })
}

/// Data without zeros or patterns, because some storage would not really write those.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    while chunk.len() < CHUNK_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.extend_from_slice(&state.to_le_bytes());
    }
    chunk
}

/// Rate in bytes a second.
pub fn rate(bytes: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_written_than_allowed() {
        let file = tempfile::tempfile().expect("a file");
        let limits = MeasureLimits {
            bytes: 3 << 20,
            time: Duration::from_millis(1),
        };
        let found = measure(&file, limits).expect("measured");
        let bytes = file.metadata().expect("its own").len();
        assert!(bytes > 0 && bytes <= 3 << 20, "{bytes}");
        assert!(found.write_bytes_per_second > 0 && found.read_bytes_per_second > 0);
        assert!(found.free_bytes >= ROOM_BYTES_MIN);
    }
}
