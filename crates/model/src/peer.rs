//! Owns the name, identity and addresses by which one node reaches another node or a site.
//! Checks none of them, and dials no address.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node or a site as others reach it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
pub struct Peer {
    /// Name, for people.
    pub name: String,
    /// Identity that it proves.
    pub identity: String,
    /// Addresses of its data port, each as `HOST[:PORT]`, in the order in which they are dialled.
    pub addresses: Vec<String>,
}
