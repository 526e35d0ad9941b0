//! Owns the replicated state of a node: commands in, deterministic effects out, kept in SQLite.
//! Runs no job, opens no socket and reads no clock.

mod apply;
mod bounds;
mod fault;
mod model;
mod raft;
mod read;
mod replica;
mod schema;
mod store;

pub use fault::{Fault, FaultKind};
pub use model::*;
pub use raft::{NoPeers, Peers};
pub use read::{AuditFilter, AuditLine, Cursor, JobFilter, JobPage, PendingDelivery, Reader};
pub use replica::{
    Done, Ended, FollowError, Follower, OpenError, Options, ProposeError, Replica, restore,
};
pub use store::{Batch, Position, Store};
