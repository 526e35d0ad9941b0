//! Owns the parts of which tests make nodes and transfers inside their process: surroundings, data ports, trees, and the events of
//! a transfer. Not a part of the program: other crates use it as a dev-dependency only.

mod nodes;
mod nowhere;
mod surroundings;
mod transfers;
mod trees;

use std::time::Duration;

pub use nodes::{data_port, export, node_home, trust};
pub use nowhere::Nowhere;
pub use surroundings::surroundings;
pub use transfers::{BegunTransfer, Ended, EventLog, begin, copy};
pub use trees::{TREE_FILES, contents, tree};

/// Limit of any wait. An expected event happens much sooner.
pub const DEADLINE: Duration = Duration::from_secs(240);
