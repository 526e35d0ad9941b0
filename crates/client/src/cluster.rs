//! The calls about the cluster of the node that is asked. Does not interpret the documents: their
//! users do.

use godwit_api::rest::{ChangeNode, ClusterView, InviteView, ListedInvite, NewInvite};

use hyper::Method;

use crate::Client;
use crate::calls::escaped;
use crate::error::ClientError;

/// The calls about the cluster.
#[derive(Clone, Copy)]
pub struct Clusters<'a>(pub(crate) &'a Client);

impl Clusters<'_> {
    /// The state of the cluster.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn view(&self) -> Result<ClusterView, ClientError> {
        self.0.get("/cluster")
    }

    /// Makes an invitation.
    ///
    /// # Errors
    /// As [`Clusters::view`].
    pub fn invite(&self, new: &NewInvite) -> Result<InviteView, ClientError> {
        self.0.with(Method::POST, "/cluster/invites", new)
    }

    /// The invitations, without their tokens.
    ///
    /// # Errors
    /// As [`Clusters::view`].
    pub fn invites(&self) -> Result<Vec<ListedInvite>, ClientError> {
        self.0.get("/cluster/invites")
    }

    /// Revokes an unused invitation.
    ///
    /// # Errors
    /// As [`Clusters::view`].
    pub fn revoke_invite(&self, id: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/cluster/invites/{}", escaped(id)))
    }

    /// Changes a node.
    ///
    /// # Errors
    /// As [`Clusters::view`].
    pub fn change(&self, name: &str, wish: &ChangeNode) -> Result<ClusterView, ClientError> {
        let path = format!("/cluster/nodes/{}", escaped(name));
        self.0.with(Method::PATCH, &path, wish)
    }

    /// Removes a node; with `force` even if it lives.
    ///
    /// # Errors
    /// As [`Clusters::view`].
    pub fn remove(&self, name: &str, force: bool) -> Result<(), ClientError> {
        self.0
            .delete(&format!("/cluster/nodes/{}?force={force}", escaped(name)))
    }
}
