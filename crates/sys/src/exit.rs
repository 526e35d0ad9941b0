//! Owns the end of the process while its threads still run.
//! Does not flush buffered data; the caller has done so.

#![expect(
    unsafe_code,
    reason = "rustix does not end processes without the C library's handlers"
)]

/// Ends the process at once with this exit code, without waiting for its threads and without the exit handlers of libraries. Such handlers
/// free data that a thread may still use; a TLS handshake in such a thread would abort the process.
pub fn exit(code: u8) -> ! {
    // SAFETY: the call has no pointer, and no code of this process runs after it.
    unsafe { libc::_exit(code.into()) }
}
