//! Owns the identity of this node, and the question whether another one is of its cluster.
//! Opens no connection.

use std::sync::Arc;

use godwit_api::ask::Peer;
use godwit_state::Fault;

/// Whether an identity is that of a node of the cluster; the state that cannot be read is no answer.
pub type IsMember = dyn Fn(&str) -> Result<bool, Fault> + Send + Sync;

/// How other sites reach this node: without addresses until it listens. None if it has no data port.
pub type OwnPeer = dyn Fn() -> Option<Peer> + Send + Sync;

/// This node and its cluster, as other sites know them.
pub(crate) struct Cluster {
    pub(crate) own: Arc<OwnPeer>,
    pub(crate) members: Arc<IsMember>,
}

impl Cluster {
    /// How other sites reach this node.
    pub(crate) fn own(&self) -> Option<Peer> {
        (self.own)()
    }

    /// Whether an identity is that of this node.
    pub(crate) fn is_own(&self, identity: &str) -> bool {
        self.own().is_some_and(|own| own.identity == identity)
    }

    /// Whether an identity is that of a node of the cluster.
    pub(crate) fn has(&self, identity: &str) -> Result<bool, Fault> {
        (self.members)(identity)
    }
}
