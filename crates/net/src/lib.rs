//! Owns streams: connections that carry frames, their encryption, and the proof of identities. Does
//! not depend on transfers or files.

mod accept;
mod address;
pub mod aead;
mod buffer;
mod channel;
mod channels;
mod congestion;
mod connect;
mod connection;
mod dial;
mod handshake;
mod hello;
mod home;
mod identity;
mod known_peers;
pub mod limits;
mod linefile;
mod local;
mod meter;
mod pairing;
mod pulse;
mod reach;
mod session;
mod short_path;
mod signature;
mod socket;
mod speed;
mod stream;
mod tls;
mod waker;

pub use accept::{AcceptError, AcceptOptions, Accepted, accept};
pub use address::{DEFAULT_PORT, PeerAddress, PeerAddressError, is_of_a_machine};
pub use channel::{Channel, LeavesBy, LocalEnd, may_bind_to_interface};
pub use channels::{ChannelWish, ChannelWishError, Channels, channel_of};
pub use congestion::{CongestionError, check_congestion};
pub use connect::connect;
pub use connection::Connection;
pub use dial::{Carrier, DialError, DialOptions, dial, dial_over};
pub use godwit_sys::background::{lower_thread, raise_thread};
pub use godwit_sys::interfaces::{
    InterfaceAddress, addresses as own_addresses, interfaces as own_interfaces,
};
pub use godwit_sys::listening::{Unheard, listen};
pub use godwit_sys::tcp_info::TcpInfo;
pub use handshake::ApparentProtocol;
pub use hello::{Wants, client_wants};
pub use home::HomeError;
pub use identity::{Identity, IdentityError, IdentityId, IdentityIdError};
pub use known_peers::{KnownPeers, Trusted};
pub use linefile::{Line, LineFile, LineFileError};
pub use local::{local_pair, piped};
pub use meter::{StreamMeasure, StreamMeter};
pub use pairing::TheirAddress;
pub use pulse::{Pulse, Vital};
pub use reach::{Look, Reach, ReachError, ReachOptions, bind_data_port};
pub use short_path::prepare_for_short_path;
pub use signature::{SignatureError, verify_signature};
pub use speed::{seal_rate, seal_rate_of};
pub use stream::{Stream, StreamCounters, StreamError, StreamOptions, Wake};
pub use tls::{ALPN_DATA, Cipher, CipherError, ClientTls, Expect, ServerTls, TlsSetupError};
pub use waker::Waker;
