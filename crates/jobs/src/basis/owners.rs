//! Owns the names under which this node keeps the jobs of other sites: their owner, their key, and the actor of their changes.
//! Decides no right.

use godwit_state::{Actor, Job};

/// Prefix of the owners of jobs for other nodes; no user has such a name.
pub(crate) const OWNER: &str = "site:";

/// Prefix of the keys of jobs for other nodes.
pub(crate) const KEY: &str = "job:";

/// The owner of the jobs that run for a node.
pub(crate) fn owner(asker: &str) -> String {
    format!("{OWNER}{asker}")
}

pub(crate) fn key(job: &str) -> String {
    format!("{KEY}{job}")
}

pub(crate) fn actor(asker: &str) -> Actor {
    Actor::node(owner(asker))
}

/// Whether jobs of this owner run for another node.
pub fn is_of_site(owner: &str) -> bool {
    owner.starts_with(OWNER)
}

/// The identity of the node that a job runs for, if it runs for another one.
pub(crate) fn asker_of(job: &Job) -> Option<&str> {
    job.owner.strip_prefix(OWNER)
}
