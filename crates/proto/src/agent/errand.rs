//! Owns the instructions for an agent that acts as the client of another agent. Does not interpret the description of a
//! job. `docs/wire.md`, "Over ssh".

use prost::Message;

use super::{AgentMessage, check_addresses, check_words};
use crate::error::WireError;

/// Longest part of the list of names that follows an errand.
pub const LIST_PART_BYTES_MAX: usize = 64 << 10;

/// Instructions for an agent that acts as the client of another one. The tags 1 to 3, 8 to 10 and 13 were used before
/// jobs had a description.
#[derive(Clone, PartialEq, Message)]
pub struct Errand {
    /// The other machine, for messages.
    #[prost(string, tag = "4")]
    pub peer: String,
    /// The identity of the other agent.
    #[prost(string, tag = "5")]
    pub identity: String,
    /// Addresses on which the other agent listens, `IP:PORT` each.
    #[prost(string, repeated, tag = "6")]
    pub addresses: Vec<String>,
    /// The sender's name in the key of the journal.
    #[prost(string, tag = "7")]
    pub sender: String,
    /// Complete entries are reported, as lines of a manifest.
    #[prost(bool, tag = "11")]
    pub entries_wanted: bool,
    /// Failed entries are reported by their names below the source, with side and code.
    #[prost(bool, tag = "12")]
    pub faults_wanted: bool,
    /// The description of the job, as JSON. If its selection has a list of names, the list follows this message.
    #[prost(string, tag = "14")]
    pub job: String,
}

impl AgentMessage for Errand {
    const NAME: &'static str = "errand";

    fn validate(&self) -> Result<(), WireError> {
        // The job may be as long as a message, and its reader checks it.
        check_words([&self.peer, &self.identity, &self.sender])?;
        check_addresses(&self.addresses)
    }
}
