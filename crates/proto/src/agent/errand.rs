//! Owns what an agent is told that is to be the client of another one.
//! Does not know how a job is described. `docs/wire.md`, "Over ssh".

use prost::Message;

use super::{AgentMessage, check_addresses, check_words};
use crate::error::WireError;

/// The longest part in which a list of names follows an errand.
pub const LIST_PART_BYTES_MAX: usize = 64 << 10;

/// What an agent is to do as the client of another one. The tags 1 to 3, 8 to 10 and 13 were in use before jobs had a
/// description.
#[derive(Clone, PartialEq, Message)]
pub struct Errand {
    /// The other machine, for messages.
    #[prost(string, tag = "4")]
    pub peer: String,
    /// The identity of the other agent.
    #[prost(string, tag = "5")]
    pub identity: String,
    /// Where it listens, `IP:PORT` each.
    #[prost(string, repeated, tag = "6")]
    pub addresses: Vec<String>,
    /// Who sends, in the key of the journal.
    #[prost(string, tag = "7")]
    pub sender: String,
    /// Complete entries are told, as lines of a manifest.
    #[prost(bool, tag = "11")]
    pub entries_wanted: bool,
    /// Failed entries are told by their names below the source, with side and code.
    #[prost(bool, tag = "12")]
    pub faults_wanted: bool,
    /// The description of the job, as JSON. A list of names that its selection speaks of follows this message.
    #[prost(string, tag = "14")]
    pub job: String,
}

impl AgentMessage for Errand {
    const NAME: &'static str = "errand";

    fn validate(&self) -> Result<(), WireError> {
        // The job is as long as a message may be, and is checked by whoever reads it.
        check_words([&self.peer, &self.identity, &self.sender])?;
        check_addresses(&self.addresses)
    }
}
