//! The documents that nodes of one cluster exchange, and those by which a node joins.
//! Knows neither the consensus nor the members: `cluster` does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Peer, Refusal};
use crate::rest::{ClusterView, NodeResources};

/// A question within a cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "cluster", content = "with", rename_all = "snake_case")]
pub enum ClusterQuestion {
    /// A message of the consensus.
    Carry(Carried),
    /// Tells the leader that the node is alive, and describes the node.
    Announce(Box<Announce>),
    /// The state of the cluster.
    Status {
        /// Id of the cluster.
        of: String,
    },
    /// A request to join. The only question whose asker need not be a member.
    Join(Box<JoinCluster>),
}

/// Names of the questions within a cluster that this version knows.
pub const CLUSTER_QUESTIONS: [&str; 4] = ["carry", "announce", "status", "join"];

impl ClusterQuestion {
    /// Its name in a document.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Carry(_) => CLUSTER_QUESTIONS[0],
            Self::Announce(_) => CLUSTER_QUESTIONS[1],
            Self::Status { .. } => CLUSTER_QUESTIONS[2],
            Self::Join(_) => CLUSTER_QUESTIONS[3],
        }
    }

    /// Whether the answer comes at once. Answers that are long or wait for others do not.
    #[must_use]
    pub fn is_short(&self) -> bool {
        match self {
            Self::Carry(carried) => carried.is_short,
            Self::Announce(_) | Self::Status { .. } => true,
            Self::Join(_) => false,
        }
    }

    /// Whether the question may be repeated.
    #[must_use]
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self, Self::Carry(Carried { once: true, .. }))
    }
}

/// The answer of a node of a cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "cluster", content = "with", rename_all = "snake_case")]
pub enum ClusterAnswer {
    /// The answer of the consensus.
    Carried(serde_json::Value),
    /// Whether the asked node leads; if not, the leader.
    Announced {
        /// The asked node leads.
        leads: bool,
        /// The leader, if known.
        leader: Option<KnownNode>,
        /// How many milliseconds ago the leader heard each other node, by its number.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ages: Vec<(u64, u64)>,
    },
    /// The state of the cluster.
    Status(Box<ClusterView>),
    /// The node is a member.
    Joined(Box<Joined>),
}

/// A message of the consensus.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Carried {
    /// Id of the cluster.
    pub of: String,
    /// Number of the node that the message is for.
    pub to: u64,
    /// Kind of the message.
    pub kind: String,
    /// The message must not arrive twice.
    #[serde(skip)]
    pub once: bool,
    /// The answer comes at once.
    #[serde(skip)]
    pub is_short: bool,
    /// The message.
    pub message: serde_json::Value,
}

/// A node, with the addresses at which others reach it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct KnownNode {
    /// Name.
    pub name: String,
    /// Number in the consensus.
    pub number: u64,
    /// Identity that it proves.
    pub identity: String,
    /// Addresses of its data port.
    pub addresses: Vec<String>,
}

/// The report that a node sends to the leader each second.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Announce {
    /// Id of the cluster.
    pub of: String,
    /// The node.
    pub node: KnownNode,
    /// Exports that it reaches.
    pub exports: Vec<String>,
    /// Version of its program.
    pub version: String,
    /// The newest feature level that it knows.
    pub level: u32,
    /// Hardware of the node.
    pub resources: NodeResources,
    /// The node's observation of each export, by name: see [`crate::observation`].
    #[serde(default, rename = "sights")]
    pub observations: BTreeMap<String, Vec<u64>>,
    /// Accounts of its machine that are admins without being users.
    #[serde(default)]
    pub admins: Vec<String>,
    /// Why the disk under its state takes no changes; None while it takes them. See [`Announce::problem_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Announce {
    /// Cuts a problem to the length that an announcement may carry.
    #[must_use]
    pub fn problem_of(mut text: String) -> String {
        text.truncate(text.floor_char_boundary(PROBLEM_BYTES_MAX));
        text
    }

    /// Whether lists and texts have lengths that a real node can have. Names, addresses and exports are checked with the node's row.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let fits = |text: &String| text.len() <= TEXT_BYTES_MAX;
        let resources = &self.resources;
        let problem = self.problem.as_ref();
        self.admins.len() <= ADMINS_MAX
            && problem.is_none_or(|text| text.len() <= PROBLEM_BYTES_MAX)
            && self.observations.len() <= LIST_MAX
            && self.observations.keys().all(fits)
            && self
                .observations
                .values()
                .all(|seen| seen.len() <= OBSERVATION_MAX)
            && resources.interfaces.len() <= LIST_MAX
            && resources.interfaces.iter().all(|one| {
                let addresses = &one.addresses;
                fits(&one.name) && addresses.len() <= LIST_MAX && addresses.iter().all(fits)
            })
            && resources.room.len() <= LIST_MAX
            && resources.room.iter().all(|room| fits(&room.export))
    }
}

/// Most exports or interfaces of a node.
const LIST_MAX: usize = 256;
/// Longest name or address.
const TEXT_BYTES_MAX: usize = 255;
/// Longest problem, which may name a directory.
const PROBLEM_BYTES_MAX: usize = 1_024;
/// Most admins: root, and the node's own user.
const ADMINS_MAX: usize = 2;
/// Most numbers of an observation: see [`crate::observation`].
const OBSERVATION_MAX: usize = 1_024;

/// A node that wants to join.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub struct JoinCluster {
    /// Secret of the invitation.
    pub secret: String,
    /// Name that the node wants.
    pub name: String,
    /// Exports that it reaches.
    pub exports: Vec<String>,
    /// Version of its program.
    pub version: String,
    /// The newest feature level that it knows.
    pub level: u32,
}

impl std::fmt::Debug for JoinCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinCluster")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The data that a new member needs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Joined {
    /// Id of the cluster.
    pub cluster: String,
    /// Name of the node.
    pub name: String,
    /// Number of the node in the consensus.
    pub number: u64,
    /// The other nodes.
    pub nodes: Vec<KnownNode>,
}

/// Answers questions of other nodes about the cluster.
pub trait AnswerCluster: Send + Sync {
    /// Answers a question of the node with this identity.
    ///
    /// # Errors
    /// The asker is no member, asks for another cluster, or the answer is not known here.
    fn answer(&self, asker: &str, question: ClusterQuestion) -> Result<ClusterAnswer, Refusal>;

    /// The nodes that serve an export now, with their addresses. The answering node comes first if it serves the export.
    ///
    /// # Errors
    /// The state cannot be read.
    fn nodes(&self, export: &str) -> Result<Vec<Peer>, Refusal>;

    /// Whether the identity is that of a node of this cluster.
    ///
    /// # Errors
    /// The state cannot be read.
    fn is_member(&self, identity: &str) -> Result<bool, Refusal>;
}
