//! Owns the numbers of signals that only the C library knows.
//! Handles no signal.

use std::ops::RangeInclusive;

/// The numbers of the real-time signals that the C library leaves to programs.
pub fn real_time() -> RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}
