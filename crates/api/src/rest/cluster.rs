//! The documents of a cluster: its nodes, how each is, and invitations of new ones.
//! Decides nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// A cluster as one of its nodes sees it. A node that is alone is a cluster of one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ClusterView {
    /// Id of the cluster.
    pub cluster: String,
    /// Name of the node that tells this.
    pub told_by: String,
    /// Name of the node that leads; None if nobody is known to.
    pub leader: Option<String>,
    /// Why nothing can be changed now, and what is needed; None if all is well.
    pub problem: Option<String>,
    /// The feature level in use, which all nodes know; never falls.
    pub level: u32,
    /// All nodes, by number.
    pub nodes: Vec<ClusterNode>,
}

/// How a node is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The leader hears it, and it takes jobs.
    Up,
    /// It takes no more jobs and still runs some.
    Draining,
    /// It takes no jobs and runs none.
    Drained,
    /// It joined and has not got the state yet.
    Joining,
    /// The leader has not heard it for a while.
    Lost,
    /// Nobody leads, so nobody knows.
    Unknown,
}

impl NodeState {
    /// The name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Joining => "joining",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

/// A node of a cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ClusterNode {
    /// Name.
    pub name: String,
    /// Number in the consensus.
    pub number: u64,
    /// Identity that it proves.
    pub identity: String,
    /// How it is.
    pub state: NodeState,
    /// Whether it votes.
    pub votes: bool,
    /// Whether it leads.
    pub leads: bool,
    /// Milliseconds since the leader heard it last; None if it did not hear it yet.
    pub heard_ms: Option<u64>,
    /// Commands that it lacks, as far as the leader knows.
    pub behind: Option<u64>,
    /// Jobs that it runs.
    pub running: u64,
    /// Addresses of its data port.
    pub addresses: Vec<String>,
    /// Exports that it reaches.
    pub exports: Vec<String>,
    /// Version of its program.
    pub version: String,
    /// The newest feature level that its program knows.
    #[serde(default)]
    pub level: u32,
    /// When it joined.
    pub joined: Timestamp,
    /// What it has, as it said last.
    pub resources: NodeResources,
    /// Why the disk under its state takes no changes, as it said last; None while it takes them.
    #[serde(default)]
    pub problem: Option<String>,
}

/// What a node has.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(default)]
pub struct NodeResources {
    /// Processor cores.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Network interfaces that are up, without loopback.
    pub interfaces: Vec<NodeInterface>,
    /// Room at its exports.
    pub room: Vec<NodeRoom>,
}

/// A network interface of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(default)]
pub struct NodeInterface {
    /// Name.
    pub name: String,
    /// Addresses.
    pub addresses: Vec<String>,
    /// Bits per second, if the driver tells.
    pub bits_per_second: Option<u64>,
}

/// The room at an export of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(default)]
pub struct NodeRoom {
    /// Name of the export.
    pub export: String,
    /// Bytes that are free; None if the file system cannot be asked.
    pub free_bytes: Option<u64>,
}

/// An invitation to make.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvite {
    /// Seconds for which it is good, from 60 to 604,800; an hour if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 60, maximum = 604_800)]
    pub seconds: Option<u64>,
}

/// An invitation of one node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct InviteView {
    /// The token, which is shown this once.
    pub token: String,
    /// When it ends.
    pub expires: Timestamp,
    /// Addresses at which the node that invites can be reached.
    pub addresses: Vec<String>,
}

/// What is to change of a node; what is left out stays.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeNode {
    /// Whether it takes no more jobs. Those that it runs go on at other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
    /// Whether it votes before others, if there are more nodes than seats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voter: Option<bool>,
}
