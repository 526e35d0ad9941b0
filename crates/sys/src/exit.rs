//! Owns the end of the process while its threads still run.
//! Does not flush buffered data; the caller has done so.

#![expect(
    unsafe_code,
    reason = "rustix does not end processes without the C library's handlers"
)]

/// Ends the process at once with this exit code, without waiting for its threads and without the exit handlers of libraries. Such handlers
/// free data that a thread may still use, and a TLS handshake that meets that aborts the process.
pub fn exit(code: u8) -> ! {
    // SAFETY: it takes no pointer, and nothing of this process is run after it.
    unsafe { libc::_exit(code.into()) }
}
