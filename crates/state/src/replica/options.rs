//! Owns the options for opening a replica. Does not open the replica.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Gate, admission};
use crate::model::{FEATURE_LEVEL, Timestamp};
use crate::raft::{NoPeers, Peers};

/// Options for opening a replica.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the state, on a local file system. Created if it is missing.
    pub directory: PathBuf,
    /// Number of this voter.
    pub voter: u64,
    /// Address at which other voters will reach this one.
    pub address: String,
    /// Free space that must exist for a command to be accepted: the growth of the log, the state and a snapshot in some thousand
    /// commands.
    pub free_bytes_min: u64,
    /// Longest time that a proposal may wait in the queue, and then until its result.
    pub propose_within: Duration,
    /// Carries messages to other voters.
    pub peers: Arc<dyn Peers>,
    /// Whether the node joins a cluster. A new replica then waits for a message of the leader, and starts no consensus.
    pub joins: bool,
    /// The newest feature level that the program supports: [`FEATURE_LEVEL`], except in tests of other versions.
    pub level: u32,
    /// Describes why the name of a time zone is invalid; `None` if it is known. Programs know different zones, so the effect of a log
    /// entry does not depend on it.
    pub zone_trouble: fn(&str) -> Option<String>,
    /// The clock of a leader for commands that another node proposes.
    pub now: fn() -> Timestamp,
    /// Closed when the cluster continues without this node.
    pub gate: Gate,
}

impl Options {
    /// Options for a single voter, with the clock of this machine, that accepts any time zone.
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
            now: admission::machine_time,
            gate: Gate::default(),
        }
    }
}
