//! Owns what a replica is opened with.
//! Opens nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::origin;
use crate::model::{FEATURE_LEVEL, Timestamp};
use crate::raft::{NoPeers, Peers};

/// How to open a replica.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the state, on a local file system; it is made if it is missing.
    pub directory: PathBuf,
    /// Number of this voter.
    pub voter: u64,
    /// Address at which other voters will reach this one.
    pub address: String,
    /// Room that must be free for a command to be accepted: as much as the log, the state and a snapshot grow by in
    /// some thousand commands.
    pub free_bytes_min: u64,
    /// How long a proposal may wait for its turn, and then take.
    pub propose_within: Duration,
    /// Who carries messages to other voters.
    pub peers: Arc<dyn Peers>,
    /// Whether the node joins a cluster: a new replica then waits for the leader to speak, and begins no consensus of its own.
    pub joins: bool,
    /// The newest feature level that the program knows: [`FEATURE_LEVEL`] but where tests stand for another version.
    pub level: u32,
    /// Says what is wrong with the name of a time zone; None if it is known. Programs know different zones, so the log decides nothing by it.
    pub zone_trouble: fn(&str) -> Option<String>,
    /// The clock that a leader goes by when another node proposes a command.
    pub now: fn() -> Timestamp,
}

impl Options {
    /// A single voter, with the clock of this machine, that takes any time zone.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            voter: 1,
            address: String::new(),
            free_bytes_min: 64 << 20,
            propose_within: Duration::from_secs(10),
            peers: Arc::new(NoPeers),
            joins: false,
            level: FEATURE_LEVEL,
            zone_trouble: |_| None,
            now: origin::machine_time,
        }
    }
}
