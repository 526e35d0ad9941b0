//! Owns the end of the process while threads of it still run.
//! Does not flush what is buffered; who ends it has done so.

#![expect(
    unsafe_code,
    reason = "rustix does not end processes without the C library's handlers"
)]

/// Ends the process at once with this exit code, whatever its threads do, and without the handlers that libraries have registered for its
/// end: those take away what a thread may be using at that moment, and a TLS handshake that meets that aborts the process.
pub fn exit(code: u8) -> ! {
    // SAFETY: it takes no pointer, and nothing of this process is run after it.
    unsafe { libc::_exit(code.into()) }
}
