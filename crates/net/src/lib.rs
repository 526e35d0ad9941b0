//! Owns streams: connections that carry frames, their encryption, and who may open them.
//! Knows nothing of transfers or files.

mod buffer;
mod connection;
mod home;
mod identity;
pub mod limits;
mod local;
mod session;
mod socket;
mod stream;
mod waker;

pub use connection::Connection;
pub use godwit_sys::tcp_info::TcpInfo;
pub use home::HomeError;
pub use identity::{Identity, IdentityError, IdentityId, IdentityIdError};
pub use local::local_pair;
pub use stream::{Stream, StreamCounters, StreamError, StreamOptions, Wake};
pub use waker::Waker;
