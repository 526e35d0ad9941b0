//! Owns streams: connections that carry frames, their encryption, and who may open them.
//! Knows nothing of transfers or files.

pub mod limits;
mod stream;
mod waker;

pub use godwit_sys::tcp_info::TcpInfo;
pub use stream::{Stream, StreamCounters, StreamError, StreamOptions, Wake};
pub use waker::Waker;
