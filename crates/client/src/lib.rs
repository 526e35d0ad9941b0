//! A typed client of a node's REST API: over the node's Unix socket, or by HTTPS with a token. Its calls block.
//! Makes no decisions about jobs, and prints nothing.

mod access;
mod account;
mod address;
mod buffer;
mod calls;
mod cluster;
mod connect;
mod download;
mod error;
mod events;
mod http;
mod known;
mod pin;
mod places;
mod rules;
mod sse;
mod token;
mod transport;

pub use access::AccessRules;
pub use account::Account;
pub use address::{AddressError, NodeAddress};
pub use buffer::Buffer;
pub use calls::{JobFilter, Jobs, Sites, Steer, Tokens, Users, idempotency_key};
pub use cluster::Clusters;
pub use download::Download;
pub use error::ClientError;
pub use events::{Events, News};
pub use known::{KnownWeb, KnownWebError};
pub use pin::{Fingerprint, FingerprintError};
pub use places::Places;
pub use rules::{Flows, Limits, Schedules, Webhooks};
pub use token::{Token, TokenError, read_secret};
pub use transport::{Client, Trust};
