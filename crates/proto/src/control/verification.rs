//! Owns a client's options for checking a copy: which differences count, and what else to report.
//! Does not contain expectations; MANIFEST frames do. `docs/wire.md`, "Verification".

use prost::Message;

/// How a copy is checked against the entries that the client announces.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Verification {
    /// Modes and times do not count.
    #[prost(bool, tag = "1")]
    pub contents_only: bool,
    /// At the end, existing entries that were never announced are reported.
    #[prost(bool, tag = "2")]
    pub extra: bool,
    /// An entry is reported as announced only once it is durable. The daemon confirms this in OPENED.
    #[prost(bool, tag = "3")]
    pub durable: bool,
}
