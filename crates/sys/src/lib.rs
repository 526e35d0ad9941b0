//! Owns all unsafe code of the project: small safe wrappers of what the kernel offers and `rustix` does not.
//! Decides nothing: policy belongs to the callers.

pub mod accounts;
pub mod background;
pub mod exit;
pub mod interfaces;
pub mod page_buffer;
pub mod shutdown;
pub mod tcp_info;
pub mod tcp_options;
pub mod tun;
pub mod umask;
pub mod write_back;
