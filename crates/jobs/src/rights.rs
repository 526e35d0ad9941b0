//! Groups the rights of users and of other nodes, and the access that other nodes give for their jobs.
//! Runs no job, and asks no node.

pub(crate) mod access;
pub(crate) mod asker;
pub(crate) mod grants;
pub(crate) mod pace;
