//! Owns the record of the standard streams that were closed when the process started. Opens and closes no streams.
//!
//! Before `main`, the standard library opens `/dev/null` in place of a closed stream, so that no other file gets its number. After
//! that a closed input looks like an empty one, and a closed output accepts all data.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);

#[expect(unsafe_code, reason = "only here can a closed stream still be seen")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// The loader calls this function before `main`.
extern "C" fn look() {
    for stream in 0..3 {
        #[expect(unsafe_code, reason = "the number may be of no file")]
        // SAFETY: the call reads flags and changes nothing, for any descriptor number.
        let flags = unsafe { libc::fcntl(stream, libc::F_GETFD) };
        if flags == -1 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
}

/// Whether this standard stream, from 0 to 2, was closed when the process started.
pub fn was_closed(stream: RawFd) -> bool {
    (0..3).contains(&stream) && CLOSED.load(Ordering::Relaxed) & (1 << stream) != 0
}
