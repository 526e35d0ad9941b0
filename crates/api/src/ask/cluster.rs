//! The documents by which the nodes of one cluster speak to each other, and by which a node joins.
//! Knows neither the consensus nor who is a member: `cluster` does.

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
    /// A node tells the leader that it lives, and what it has.
    Announce(Box<Announce>),
    /// How the cluster is.
    Status {
        /// Id of the cluster.
        of: String,
    },
    /// A node wants to join. The only question of which the asker need not be a member.
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

    /// Whether it is answered at once. What waits for others, or is long, is not.
    #[must_use]
    pub fn is_short(&self) -> bool {
        match self {
            Self::Carry(carried) => carried.is_short,
            Self::Announce(_) | Self::Status { .. } => true,
            Self::Join(_) => false,
        }
    }

    /// Whether it does no harm to ask again.
    #[must_use]
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self, Self::Carry(Carried { once: true, .. }))
    }
}

/// What a node of a cluster answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "cluster", content = "with", rename_all = "snake_case")]
pub enum ClusterAnswer {
    /// The answer of the consensus.
    Carried(serde_json::Value),
    /// Whether the asked node leads; if not, who does.
    Heard {
        /// It leads.
        leads: bool,
        /// The node that leads, if it is known.
        leader: Option<KnownNode>,
        /// How many milliseconds ago the leader heard each other node, by its number.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ages: Vec<(u64, u64)>,
    },
    /// How the cluster is.
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
    /// It must not arrive twice.
    #[serde(skip)]
    pub once: bool,
    /// It is answered at once.
    #[serde(skip)]
    pub is_short: bool,
    /// The message.
    pub message: serde_json::Value,
}

/// A node as others reach it.
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

/// What a node tells the leader each second.
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
    /// What it has.
    pub resources: NodeResources,
    /// What it sees of each export, by name: see [`crate::sight`].
    #[serde(default)]
    pub sights: BTreeMap<String, Vec<u64>>,
    /// Accounts of its machine that are admins without being users.
    #[serde(default)]
    pub admins: Vec<String>,
    /// Why the disk under its state takes no changes; None while it takes them. See [`Announce::problem_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Announce {
    /// A problem as long as an announcement may carry it.
    #[must_use]
    pub fn problem_of(mut text: String) -> String {
        text.truncate(text.floor_char_boundary(PROBLEM_BYTES_MAX));
        text
    }

    /// Whether its lists and texts are of a length that a node has. Names, addresses and exports are checked with the node's row.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let fits = |text: &String| text.len() <= TEXT_BYTES_MAX;
        let resources = &self.resources;
        let problem = self.problem.as_ref();
        self.admins.len() <= ADMINS_MAX
            && problem.is_none_or(|text| text.len() <= PROBLEM_BYTES_MAX)
            && self.sights.len() <= LIST_MAX
            && self.sights.keys().all(fits)
            && self.sights.values().all(|seen| seen.len() <= SIGHT_MAX)
            && resources.interfaces.len() <= LIST_MAX
            && resources.interfaces.iter().all(|one| {
                let addresses = &one.addresses;
                fits(&one.name) && addresses.len() <= LIST_MAX && addresses.iter().all(fits)
            })
            && resources.room.len() <= LIST_MAX
            && resources.room.iter().all(|room| fits(&room.export))
    }
}

/// Exports and interfaces of a node.
const LIST_MAX: usize = 256;
/// A name or an address.
const TEXT_BYTES_MAX: usize = 255;
/// A problem, which may name a directory.
const PROBLEM_BYTES_MAX: usize = 1_024;
/// Root, and the node's own user.
const ADMINS_MAX: usize = 2;
/// Numbers of a sight: see [`crate::sight`].
const SIGHT_MAX: usize = 1_024;

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

/// What a node that joined has to know.
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
    /// The asker is no member, or asks for another cluster, or the answer is not known here.
    fn answer(&self, asker: &str, question: ClusterQuestion) -> Result<ClusterAnswer, Refusal>;

    /// The nodes that serve an export now, each as others reach it; the answering node first, if it is one.
    ///
    /// # Errors
    /// The state cannot be read.
    fn nodes(&self, export: &str) -> Result<Vec<Peer>, Refusal>;

    /// Whether the identity is that of a node of this cluster.
    fn is_member(&self, identity: &str) -> bool;
}
