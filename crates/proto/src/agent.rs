//! Owns the messages between a client and an agent over ssh before the frames of a transfer: one message each way.
//! Runs no ssh and dials no peer. `docs/wire.md`, "Over ssh".

use prost::Message;

use crate::bytes::cut;
use crate::error::WireError;
use crate::limits::{MESSAGE_BYTES_MAX, SOFTWARE_BYTES_MAX};

/// Begins every message, so that the reader finds it after a machine's banner and other output of its shell.
pub const MARKER: [u8; 16] = *b"\0\xffgodwit agent\r\n";

/// Version of this exchange; the frames that follow have separate versions.
pub const AGENT_VERSION: u32 = 1;

/// Most bytes before the marker: far more than any banner has.
pub const NOISE_BYTES_MAX: usize = 64 << 10;

/// The longest message.
pub const AGENT_MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Most addresses of one side.
pub const ADDRESSES_MAX: usize = 32;

/// Longest text of an address or identity, and of a sender's name in journals.
const WORD_BYTES_MAX: usize = 512;

mod errand;

pub use errand::{Errand, LIST_PART_BYTES_MAX};

/// Capabilities of an agent beyond its version. A client uses none that the agent does not announce.
pub mod capability {
    /// An [`Errand`](super::Errand) with the description of a job.
    pub const JOB: u64 = 2;
    /// All capabilities that this program knows.
    pub const ALL: u64 = JOB;
}

/// The client's message to the agent.
#[derive(Clone, PartialEq, Message)]
pub struct Start {
    /// Oldest version of this exchange that the client supports.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    /// Newest version of this exchange that the client supports.
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// Name and version of the client's program, for messages.
    #[prost(string, tag = "3")]
    pub software: String,
    /// The identity of the connecting side, created for this transfer alone; empty with `errand`.
    #[prost(string, tag = "4")]
    pub identity: String,
    /// The sender's name in the key of the journal: the same in every run of the same command.
    #[prost(string, tag = "5")]
    pub sender: String,
    /// First and last TCP port that the agent may listen on; 0 and 0 mean any.
    #[prost(uint32, tag = "6")]
    pub port_first: u32,
    /// See `port_first`.
    #[prost(uint32, tag = "7")]
    pub port_last: u32,
    /// Addresses on which the connecting side listens, `IP:PORT` each: the agent may dial these instead.
    #[prost(string, repeated, tag = "8")]
    pub addresses: Vec<String>,
    /// Streams use ssh, so the agent listens only for connections from this machine.
    #[prost(bool, tag = "9")]
    pub via_ssh: bool,
    /// How long to keep the transfer without any stream, in milliseconds.
    #[prost(uint64, tag = "10")]
    pub retry_for_ms: u64,
    /// An [`Errand`] follows; otherwise frames do.
    #[prost(bool, tag = "11")]
    pub errand: bool,
    /// The port of the first of `addresses`, to be tried with the source address of ssh; 0 for none.
    #[prost(uint32, tag = "12")]
    pub port: u32,
    /// Block content that the client accepts through ssh before a separate connection exists, in bytes.
    #[prost(uint64, tag = "13")]
    pub early_bytes: u64,
}

/// The agent's answer.
#[derive(Clone, PartialEq, Message)]
pub struct Started {
    /// Oldest version of this exchange that the agent supports.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    /// Newest version of this exchange that the agent supports.
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// Name and version of the agent's program, for messages.
    #[prost(string, tag = "3")]
    pub software: String,
    /// The agent's identity, created for this transfer alone.
    #[prost(string, tag = "4")]
    pub identity: String,
    /// The agent's IP addresses, beginning with the one that ssh connected to.
    #[prost(string, repeated, tag = "5")]
    pub addresses: Vec<String>,
    /// The TCP port that the agent listens on.
    #[prost(uint32, tag = "6")]
    pub port: u32,
    /// If not empty, the reason why the agent does not run.
    #[prost(string, tag = "7")]
    pub problem: String,
    /// See [`capability`].
    #[prost(uint64, tag = "8")]
    pub capabilities: u64,
    /// Block content that the agent accepts through ssh before a separate connection exists, in bytes.
    #[prost(uint64, tag = "9")]
    pub early_bytes: u64,
}

/// A message of this exchange.
pub trait AgentMessage: Message + Default {
    /// The message's name, for texts to users.
    const NAME: &'static str;

    /// Checks every bound.
    ///
    /// # Errors
    /// The field that is too long or has too many items.
    fn validate(&self) -> Result<(), WireError>;

    /// The message with its marker and length.
    ///
    /// # Errors
    /// The message is invalid.
    fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        self.validate()?;
        let body = self.encode_to_vec();
        let length = u32::try_from(body.len())
            .ok()
            .filter(|_| body.len() <= AGENT_MESSAGE_BYTES_MAX)
            .ok_or_else(|| {
                WireError::too_long("message to an agent", AGENT_MESSAGE_BYTES_MAX as u64)
            })?;
        Ok([&MARKER[..], &length.to_le_bytes(), &body].concat())
    }

    /// Reads a message without marker and length, as a [`MessageReader`] returns it.
    ///
    /// # Errors
    /// The fault in the message.
    fn from_body(body: &[u8]) -> Result<Self, WireError> {
        let message = Self::decode(body).map_err(|source| WireError::Malformed {
            message: Self::NAME,
            source,
        })?;
        message.validate()?;
        Ok(message)
    }
}

impl AgentMessage for Start {
    const NAME: &'static str = "start of an agent";

    fn validate(&self) -> Result<(), WireError> {
        check_versions(self.version_min, self.version_max)?;
        check_words([&self.software, &self.identity, &self.sender])?;
        check_addresses(&self.addresses)?;
        check_port(self.port)?;
        check_port(self.port_first)?;
        check_port(self.port_last)?;
        if self.port_first > self.port_last || (self.port_first == 0) != (self.port_last == 0) {
            return Err(WireError::invalid("range of ports", "is empty"));
        }
        Ok(())
    }
}

impl AgentMessage for Started {
    const NAME: &'static str = "answer of an agent";

    fn validate(&self) -> Result<(), WireError> {
        // Checked for any version: a message to the user contains name and versions.
        check_words([&self.software, &self.identity])?;
        check_addresses(&self.addresses)?;
        check_port(self.port)?;
        if self.problem.len() > MESSAGE_BYTES_MAX {
            return Err(WireError::too_long("message", MESSAGE_BYTES_MAX as u64));
        }
        Ok(())
    }
}

impl Started {
    /// The answer of an agent that cannot run. A reason that is too long is cut.
    pub fn refusal(software: &str, problem: &str) -> Self {
        Self {
            version_min: AGENT_VERSION,
            version_max: AGENT_VERSION,
            software: cut(software, SOFTWARE_BYTES_MAX).to_owned(),
            problem: cut(problem, MESSAGE_BYTES_MAX).to_owned(),
            ..Self::default()
        }
    }
}

/// Whether two sides have a version of this exchange in common.
pub fn versions_meet(ours: (u32, u32), theirs: (u32, u32)) -> bool {
    ours.0.max(theirs.0) <= ours.1.min(theirs.1)
}

/// Finds a message in bytes that arrive in pieces of any size, after any other output.
#[derive(Debug, Default)]
pub struct MessageReader {
    noise: Vec<u8>,
    /// Number of the marker's bytes that have arrived.
    matched: usize,
    head: Vec<u8>,
    body: Vec<u8>,
    /// Known once the head is complete.
    body_bytes: Option<usize>,
}

/// Reason why no message was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// No marker within [`NOISE_BYTES_MAX`].
    Noise,
    /// The message would be longer than [`AGENT_MESSAGE_BYTES_MAX`].
    TooLong,
}

impl MessageReader {
    /// How many bytes may be read now without reading beyond the message; 0 once the message is complete.
    pub fn wants(&self) -> usize {
        match self.body_bytes {
            None => MARKER.len() - self.matched + LENGTH_BYTES - self.head.len(),
            Some(bytes) => bytes - self.body.len(),
        }
    }

    /// Consumes bytes; bytes after the message are not examined. Returns how many bytes were consumed.
    ///
    /// # Errors
    /// There is no message, and none will come.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, ReadError> {
        let mut taken = 0;
        while taken < bytes.len() && self.body_bytes != Some(self.body.len()) {
            if let Some(body_bytes) = self.body_bytes {
                let piece = (body_bytes - self.body.len()).min(bytes.len() - taken);
                self.body.extend_from_slice(&bytes[taken..taken + piece]);
                taken += piece;
            } else if self.matched == MARKER.len() {
                self.head.push(bytes[taken]);
                taken += 1;
                if let Ok(length) = <[u8; LENGTH_BYTES]>::try_from(self.head.as_slice()) {
                    let length = u32::from_le_bytes(length) as usize;
                    if length > AGENT_MESSAGE_BYTES_MAX {
                        return Err(ReadError::TooLong);
                    }
                    self.body_bytes = Some(length);
                }
            } else {
                self.seek(bytes[taken])?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// The message, once complete.
    pub fn body(&self) -> Option<&[u8]> {
        (self.body_bytes == Some(self.body.len())).then_some(&self.body)
    }

    /// The bytes before the marker.
    pub fn noise(&self) -> &[u8] {
        &self.noise
    }

    fn seek(&mut self, byte: u8) -> Result<(), ReadError> {
        if byte == MARKER[self.matched] {
            self.matched += 1;
            return Ok(());
        }
        // The marker's first byte does not occur again in the marker, so a failed partial match contains no other
        // start.
        self.noise.extend_from_slice(&MARKER[..self.matched]);
        self.matched = usize::from(byte == MARKER[0]);
        if self.matched == 0 {
            self.noise.push(byte);
        }
        if self.noise.len() > NOISE_BYTES_MAX {
            return Err(ReadError::Noise);
        }
        Ok(())
    }
}

fn check_versions(min: u32, max: u32) -> Result<(), WireError> {
    if min == 0 || min > max {
        return Err(WireError::invalid(
            "version range",
            "is empty or begins with 0",
        ));
    }
    Ok(())
}

fn check_words<'a>(words: impl IntoIterator<Item = &'a String>) -> Result<(), WireError> {
    for word in words {
        if word.len() > WORD_BYTES_MAX {
            return Err(WireError::too_long("word", WORD_BYTES_MAX as u64));
        }
    }
    Ok(())
}

fn check_addresses(addresses: &[String]) -> Result<(), WireError> {
    if addresses.len() > ADDRESSES_MAX {
        return Err(WireError::too_long(
            "list of addresses",
            ADDRESSES_MAX as u64,
        ));
    }
    check_words(addresses)
}

fn check_port(port: u32) -> Result<(), WireError> {
    u16::try_from(port)
        .map(|_| ())
        .map_err(|_above| WireError::invalid("port", "is above 65535"))
}

const LENGTH_BYTES: usize = 4;

const _: () = assert!(SOFTWARE_BYTES_MAX <= WORD_BYTES_MAX);

#[cfg(test)]
mod tests;
