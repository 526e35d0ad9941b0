//! Owns the members of a cluster: nodes, and the invitations by which nodes join. Does not know which nodes are alive; the leader knows
//! that, outside of the state.

use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::{CommandError, Object, Secret, Timestamp};
use crate::bounds;

/// A node of the cluster that keeps this state.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Node {
    /// Name, unique in the cluster.
    pub name: String,
    /// Number in the consensus. The first node has 1; each number is used once.
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
    /// Whether the node takes no new jobs.
    #[serde(default)]
    pub draining: bool,
    /// Whether the node votes even if there are enough voters.
    #[serde(default)]
    pub voter: bool,
    /// When the node joined.
    #[serde(with = "millis")]
    pub joined: Timestamp,
    /// Accounts of its machine that are admins without being users: root, and the node's own user. Empty until the node has reported them.
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

/// A former node of a cluster that a recovery or a restore reduced to one node. The former node is recognized by its identity and learns
/// that it was left behind.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FormerNode {
    /// Identity that the node had proven.
    pub identity: String,
    /// Name that the node had.
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

/// An invitation for one node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// Id.
    pub id: String,
    /// Digest of the secret.
    pub hash: Secret,
    /// When the invitation ends.
    #[serde(with = "millis")]
    pub expires: Timestamp,
    /// When the invitation was made. None if the state was below [`LEVEL_INVITES`](super::LEVEL_INVITES) then.
    #[serde(
        default,
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub created: Option<Timestamp>,
    /// When the invitation was revoked, or ended with its maker or node. It then admits no node, regardless of the clocks. The state sets
    /// this field from [`LEVEL_INVITES`](super::LEVEL_INVITES) on; below that level it deletes the invitation.
    #[serde(
        default,
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ended: Option<Timestamp>,
    /// Node that joined with the invitation. From then on, the invitation is valid for that node only.
    #[serde(default)]
    pub used: Option<String>,
    /// Number of the node that made the invitation. The invitation ends when that node is removed. The state sets this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<u64>,
    /// User that made the invitation. It ends with this user, or when the user is no longer an admin. The state sets this field from
    /// [`LEVEL_INVITES`](super::LEVEL_INVITES) on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Ids of the token that made the invitation, and of the token's parents. The invitation ends when any of these tokens ends.
    /// Empty for a caller without a token, and below [`LEVEL_INVITES`](super::LEVEL_INVITES).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
}

impl Invite {
    /// The stored digest of the secret of an invitation. A secret has 160 random bits, so its digest does not reveal it.
    #[must_use]
    pub fn hash_of(secret: &str) -> Secret {
        Secret::new(blake3::hash(secret.as_bytes()).to_hex().to_string())
    }
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
        bounds::count("tokens", self.tokens.len(), bounds::LIST_MAX)?;
        for token in &self.tokens {
            bounds::name("tokens", token)?;
        }
        bounds::name("hash", self.hash.expose())
    }
}

/// A node that joins by an invitation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Digest of the invitation's secret.
    pub hash: Secret,
    /// The secret itself, on its way to the leader. The log never contains it, because the secret is still useful if the state refuses the
    /// join. From [`LEVEL_MEMBERS`](super::LEVEL_MEMBERS) on, the leader takes no join of another node without it: each member reads the
    /// digests in the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// The node. The state sets its number and the time of joining.
    pub node: Node,
}

impl Join {
    /// Whether the join contains the secret of its invitation.
    pub(crate) fn is_proven(&self) -> bool {
        let secret = self.secret.as_ref();
        secret.is_some_and(|secret| Invite::hash_of(secret.expose()) == self.hash)
    }
}
