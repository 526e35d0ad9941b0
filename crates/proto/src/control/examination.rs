//! Owns the question about the other side's properties and the path to it, and the answer. Does not
//! measure. `docs/wire.md`, "EXAMINE and EXAMINED".

use prost::Message;

use super::{decode, try_encode};
use crate::bytes::cut;
use crate::error::WireError;
use crate::limits::{FILLER_BYTES_MAX, MESSAGE_BYTES_MAX, NANOSECONDS_PER_SECOND, PATH_BYTES_MAX};
use crate::prelude::FrameKind;

/// Most addresses that are dialled for one question.
pub const DIALLED_MAX: usize = 32;

/// Longest text of an address, or of a kernel's property.
const WORD_BYTES_MAX: usize = 512;

/// Asks for properties of the other side. Sent in place of opening a transfer, any number of times.
#[derive(Clone, PartialEq, Message)]
pub struct Examine {
    /// Repeated in the answer.
    #[prost(uint64, tag = "1")]
    pub nonce: u64,
    /// Ignored: makes packets of full size, so that the largest packet of the path is found.
    #[prost(bytes = "vec", tag = "2")]
    pub filler: Vec<u8>,
    /// Filler bytes wanted in the answer.
    #[prost(uint32, tag = "3")]
    pub filler_wanted: u32,
    /// Whether the answer must describe the machine.
    #[prost(bool, tag = "4")]
    pub machine: bool,
    /// The path whose storage must be measured, as for a destination; empty for none.
    #[prost(bytes = "vec", tag = "5")]
    pub place: Vec<u8>,
    /// Whether an agent must dial its client at every address that it would use in a transfer. A daemon
    /// dials none.
    #[prost(bool, tag = "6")]
    pub dial: bool,
}

/// The answer to an [`Examine`].
#[derive(Clone, PartialEq, Message)]
pub struct Examined {
    /// The question's nonce.
    #[prost(uint64, tag = "1")]
    pub nonce: u64,
    /// The clock when the answer was made: seconds since 1970-01-01 UTC.
    #[prost(sint64, tag = "2")]
    pub clock_seconds: i64,
    /// Nanoseconds of the clock, below 10⁹.
    #[prost(uint32, tag = "3")]
    pub clock_nanoseconds: u32,
    /// Time that the answer took to make.
    #[prost(uint64, tag = "4")]
    pub held_ns: u64,
    /// Filler, as requested.
    #[prost(bytes = "vec", tag = "5")]
    pub filler: Vec<u8>,
    /// This connection according to the kernel there; `None` if it is not TCP.
    #[prost(message, optional, tag = "6")]
    pub way: Option<PathSeen>,
    /// The machine, if requested.
    #[prost(message, optional, tag = "7")]
    pub machine: Option<MachineSeen>,
    /// The storage, if requested.
    #[prost(message, optional, tag = "8")]
    pub storage: Option<StorageSeen>,
    /// The outcome for each dialled address.
    #[prost(message, repeated, tag = "9")]
    pub dialled: Vec<Dialled>,
}

/// A connection according to one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PathSeen {
    /// The minimum RTT.
    #[prost(uint64, tag = "1")]
    pub round_trip_ns: u64,
    /// The largest packet on the path from there, if known; 0 if unknown.
    #[prost(uint32, tag = "2")]
    pub path_mtu_bytes: u32,
    /// Content bytes of a packet.
    #[prost(uint32, tag = "3")]
    pub segment_bytes: u32,
}

/// A machine without its storage. Unknown values are zero or empty.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MachineSeen {
    /// Largest send buffer of a connection.
    #[prost(uint64, tag = "1")]
    pub send_buffer_bytes: u64,
    /// Largest receive buffer of a connection.
    #[prost(uint64, tag = "2")]
    pub receive_buffer_bytes: u64,
    /// Congestion control in use.
    #[prost(string, tag = "3")]
    pub congestion: String,
    /// Number of cores.
    #[prost(uint32, tag = "4")]
    pub cores: u32,
    /// AES-256-GCM encryption rate of one core.
    #[prost(uint64, tag = "5")]
    pub seal_bytes_per_second: u64,
    /// CRC-64/NVME digest rate of one core.
    #[prost(uint64, tag = "6")]
    pub digest_bytes_per_second: u64,
}

/// The storage of a place.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StorageSeen {
    /// Free space there.
    #[prost(uint64, tag = "1")]
    pub free_bytes: u64,
    /// Rate of writing through to the disk.
    #[prost(uint64, tag = "2")]
    pub write_bytes_per_second: u64,
    /// Rate of reading back.
    #[prost(uint64, tag = "3")]
    pub read_bytes_per_second: u64,
    /// If not empty, the reason why the storage could not be measured.
    #[prost(string, tag = "4")]
    pub problem: String,
}

/// The outcome for an address that was dialled.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Dialled {
    /// The address.
    #[prost(string, tag = "1")]
    pub address: String,
    /// Why the address does not lead to the client; empty if it does.
    #[prost(string, tag = "2")]
    pub problem: String,
}

impl Examine {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// An invalid field; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.validate()?;
        try_encode(self, FrameKind::EXAMINE, out)
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let question: Self = decode(head, "EXAMINE")?;
        question.validate()?;
        Ok(question)
    }

    fn validate(&self) -> Result<(), WireError> {
        check_filler(self.filler.len())?;
        check_filler(self.filler_wanted as usize)?;
        if self.place.len() > PATH_BYTES_MAX {
            return Err(WireError::too_long("place", PATH_BYTES_MAX as u64));
        }
        if self.place.contains(&0) {
            return Err(WireError::invalid("place", "contains NUL"));
        }
        Ok(())
    }
}

impl Examined {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// An invalid field; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.validate()?;
        try_encode(self, FrameKind::EXAMINED, out)
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let answer: Self = decode(head, "EXAMINED")?;
        answer.validate()?;
        Ok(answer)
    }

    fn validate(&self) -> Result<(), WireError> {
        check_filler(self.filler.len())?;
        if self.clock_nanoseconds >= NANOSECONDS_PER_SECOND {
            return Err(WireError::invalid(
                "clock",
                "has a whole second or more in its nanoseconds",
            ));
        }
        if let Some(machine) = &self.machine {
            check_word(&machine.congestion)?;
        }
        if let Some(storage) = &self.storage {
            check_problem(&storage.problem)?;
        }
        check_count(self.dialled.len())?;
        self.dialled.iter().try_for_each(|dialled| {
            check_word(&dialled.address)?;
            check_problem(&dialled.problem)
        })
    }
}

impl StorageSeen {
    /// Storage that could not be measured; a reason that is too long is cut.
    pub fn unknown(problem: &str) -> Self {
        Self {
            problem: cut(problem, MESSAGE_BYTES_MAX).to_owned(),
            ..Self::default()
        }
    }
}

impl Dialled {
    /// An address and its outcome, cut if too long.
    pub fn new(address: &str, problem: &str) -> Self {
        Self {
            address: cut(address, WORD_BYTES_MAX).to_owned(),
            problem: cut(problem, MESSAGE_BYTES_MAX).to_owned(),
        }
    }
}

fn check_filler(bytes: usize) -> Result<(), WireError> {
    if bytes > FILLER_BYTES_MAX {
        return Err(WireError::too_long("filler", FILLER_BYTES_MAX as u64));
    }
    Ok(())
}

fn check_count(count: usize) -> Result<(), WireError> {
    if count > DIALLED_MAX {
        return Err(WireError::too_long("list of addresses", DIALLED_MAX as u64));
    }
    Ok(())
}

fn check_word(word: &str) -> Result<(), WireError> {
    if word.len() > WORD_BYTES_MAX {
        return Err(WireError::too_long("word", WORD_BYTES_MAX as u64));
    }
    Ok(())
}

fn check_problem(text: &str) -> Result<(), WireError> {
    if text.len() > MESSAGE_BYTES_MAX {
        return Err(WireError::too_long("message", MESSAGE_BYTES_MAX as u64));
    }
    Ok(())
}
