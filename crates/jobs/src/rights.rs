//! Groups the rights of users and of other nodes, and the access that other nodes give for their jobs.
//! Runs no job, and asks no node.

pub(crate) mod access;
pub(crate) mod asker;
pub(crate) mod grants;
pub(crate) mod pace;

use std::sync::Arc;

use godwit_api::grant::Grant;

use crate::basis::cluster::Cluster;
use crate::basis::this_node::ThisNode;
use crate::basis::turns::Turns;

/// Reads the grants that the operator of this machine wrote into the node's home.
pub type FileGrants = dyn Fn() -> Result<Vec<Grant>, String> + Send + Sync;

/// The rights at this node: whatever decides them.
pub(crate) struct Rights {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) cluster: Cluster,
    /// The rules of the state.
    pub(crate) rules: access::Rules,
    /// The grants in the node's home, which count for users beside the rules of the state.
    pub(crate) file_grants: Arc<FileGrants>,
    /// Accounts of this machine that are admins of the node without being users of its state.
    pub(crate) machine_admins: Vec<String>,
    /// How much other nodes have changed here.
    pub(crate) pace: pace::Pace,
    pub(crate) turns: Arc<Turns>,
}
