//! Owns the members of a cluster: nodes, and the invitations by which nodes join.
//! Does not know which nodes live: the leader hears of that, and it is not part of the state.

use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::{CommandError, Object, Secret, Timestamp};
use crate::bounds;

/// A node of the cluster that keeps this state.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Node {
    /// Name, unique in the cluster.
    pub name: String,
    /// Number in the consensus. The first node has 1; no number is given twice.
    pub number: u64,
    /// Identity that the node proves.
    pub identity: String,
    /// Addresses of its data port, in the order in which they are dialled.
    pub addresses: Vec<String>,
    /// Names of the exports that it reaches.
    pub exports: Vec<String>,
    /// Version of its program.
    pub version: String,
    /// The newest feature level that its program knows.
    pub level: u32,
    /// Whether it takes no more jobs.
    #[serde(default)]
    pub draining: bool,
    /// Whether it votes even if there are voters enough.
    #[serde(default)]
    pub voter: bool,
    /// When it joined.
    #[serde(with = "millis")]
    pub joined: Timestamp,
    /// Accounts of its machine that are admins without being users: root, and the node's own user. Empty until the node has told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admins: Vec<String>,
}

impl Object for Node {
    const KIND: &'static str = "node";
    const COUNT_MAX: u64 = bounds::NODES_MAX;
    fn id(&self) -> String {
        self.name.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.identity.clone())
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        bounds::name("identity", &self.identity)?;
        bounds::name("version", &self.version)?;
        for (field, list) in [
            ("addresses", &self.addresses),
            ("exports", &self.exports),
            ("admins", &self.admins),
        ] {
            bounds::count(field, list.len(), bounds::LIST_MAX)?;
            for text in list {
                bounds::name(field, text)?;
            }
        }
        Ok(())
    }
}

/// A node of the cluster of which a recovery or a restore left one node alone. It learns by its identity that it was left behind.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FormerNode {
    /// Identity that the node proved.
    pub identity: String,
    /// Name that it had.
    pub name: String,
}

impl Object for FormerNode {
    const KIND: &'static str = "former_node";
    const COUNT_MAX: u64 = bounds::NODES_MAX;
    fn id(&self) -> String {
        self.identity.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        bounds::name("identity", &self.identity)
    }
}

/// An invitation of one node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// Id.
    pub id: String,
    /// Digest of the secret.
    pub hash: Secret,
    /// When it ends.
    #[serde(with = "millis")]
    pub expires: Timestamp,
    /// Node that joined by it. It is good for that node only from then on.
    #[serde(default)]
    pub used: Option<String>,
    /// Number of the node that made it. The invitation ends when that node is removed. The state sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<u64>,
}

impl Object for Invite {
    const KIND: &'static str = "invite";
    fn id(&self) -> String {
        self.id.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.hash.expose().to_owned())
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("id", &self.id)?;
        bounds::name("hash", self.hash.expose())
    }
}

/// A node that joins by an invitation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Digest of the invitation's secret.
    pub hash: Secret,
    /// The node. Its number and the time of its joining are set by the state.
    pub node: Node,
}
