//! Owns which standard streams were closed when the process started.
//! Opens and closes none.
//!
//! Before `main`, the standard library opens `/dev/null` in place of a closed stream, so that no file gets its number. From then on
//! a closed input looks like an empty one, and a closed output takes everything.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);

#[expect(unsafe_code, reason = "only here can a closed stream still be seen")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// The loader calls this before `main`.
extern "C" fn look() {
    for stream in 0..3 {
        #[expect(unsafe_code, reason = "the number may be of no file")]
        // SAFETY: asks for flags and changes nothing, whatever the number is of.
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
