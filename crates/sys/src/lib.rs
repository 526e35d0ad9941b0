//! Owns all unsafe code of the project: small safe wrappers of kernel calls that `rustix` lacks.
//! Makes no decisions: the callers decide.

pub mod accounts;
pub mod acting;
pub mod background;
pub mod block_device;
pub mod closed;
pub mod exit;
pub mod interfaces;
pub mod listening;
pub mod local_time;
pub mod page_buffer;
pub mod replaceable;
pub mod secret_file;
pub mod shutdown;
pub mod signals;
pub mod tcp_info;
pub mod tcp_options;
pub mod tun;
pub mod umask;
pub mod write_back;

/// Converts the answer of a system call, zero or an error, into a result.
fn check(answer: i32) -> std::io::Result<()> {
    if answer == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
