//! The documents of a cluster: its nodes with their states, and invitations of new nodes.
//! Decides nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// A cluster as one of its nodes sees it. A single node is a cluster of one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ClusterView {
    /// Id of the cluster.
    pub cluster: String,
    /// Name of the node that answered.
    pub reported_by: String,
    /// Name of the leader; null if no leader is known.
    pub leader: Option<String>,
    /// Why no change is possible now, and the remedy; null if changes are possible.
    pub problem: Option<String>,
    /// The feature level in use, which all nodes support. It never decreases.
    pub level: u32,
    /// All nodes, by number.
    pub nodes: Vec<ClusterNode>,
}

/// State of a node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The leader receives its reports, and the node takes jobs.
    Up,
    /// The node takes no new jobs and still runs some.
    Draining,
    /// The node takes no jobs and runs none.
    Drained,
    /// The node joined and has not received the state yet.
    Joining,
    /// The leader has not received its reports for a while.
    Lost,
    /// There is no leader, so the state is unknown.
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
    /// State of the node.
    pub state: NodeState,
    /// Whether the node votes.
    pub votes: bool,
    /// Whether the node leads.
    pub leads: bool,
    /// Milliseconds since the leader last received a report of the node; null if it never did.
    pub silent_ms: Option<u64>,
    /// Number of commands that the node lacks, as far as the leader knows; null if unknown.
    pub behind: Option<u64>,
    /// Jobs that the node runs.
    pub running: u64,
    /// Addresses of its data port.
    pub addresses: Vec<String>,
    /// Exports that the node reaches.
    pub exports: Vec<String>,
    /// Version of its program.
    pub version: String,
    /// The newest feature level that its program supports.
    #[serde(default)]
    pub level: u32,
    /// When the node joined.
    pub joined: Timestamp,
    /// Resources of the node, as last reported.
    pub resources: NodeResources,
    /// Why the disk under its state takes no changes, as last reported; null if it takes them.
    #[serde(default)]
    pub problem: Option<String>,
}

/// Resources of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(default)]
pub struct NodeResources {
    /// Processor cores.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Network interfaces that are up, without loopback.
    pub interfaces: Vec<NodeInterface>,
    /// Free space at its exports.
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
    /// Link speed in bits per second; null if the driver does not report it.
    pub bits_per_second: Option<u64>,
}

/// Free space at an export of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(default)]
pub struct NodeRoom {
    /// Name of the export.
    pub export: String,
    /// Free bytes; null if unknown.
    pub free_bytes: Option<u64>,
}

/// An invitation to make.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvite {
    /// Lifetime in seconds, from 60 to 604,800; default 3,600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 60, maximum = 604_800)]
    pub seconds: Option<u64>,
}

/// An invitation that was made, with its token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct InviteView {
    /// Id of the invitation, needed to revoke it.
    pub id: String,
    /// The token of the invitation. Only this answer shows it.
    pub token: String,
    /// When the invitation ends.
    pub expires: Timestamp,
    /// Addresses of the inviting node.
    pub addresses: Vec<String>,
}

/// An invitation in the list, without its token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ListedInvite {
    /// Id of the invitation, needed to revoke it.
    pub id: String,
    /// User that made it; null if the cluster had an older level then.
    pub maker: Option<String>,
    /// When it was made; null if the cluster had an older level then.
    pub created: Option<Timestamp>,
    /// When it ends at the latest.
    pub expires: Timestamp,
    /// When it was revoked, or ended with its maker or node; null if it was not.
    pub ended: Option<Timestamp>,
    /// Node that joined with it: the name of a member, or the identity of a removed node. Null if it is unused.
    pub used_by: Option<String>,
    /// A node can join with it now: it is unused and has not ended, and its maker is still an admin.
    pub usable: bool,
}

/// Changes to a node. Missing fields stay as they are.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeNode {
    /// Whether the node stops taking jobs. Its running jobs continue at other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
    /// Whether the node is preferred as a voter, if there are more nodes than votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voter: Option<bool>,
}
