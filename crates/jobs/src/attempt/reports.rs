//! Owns where an attempt reports to: the state, the table of running attempts, and the records of transfers.
//! Reports nothing itself.

use std::sync::Arc;

use godwit_api::record::NewsSink;

use crate::asking::Asking;
use crate::attempt::live::Live;
use crate::basis::this_node::ThisNode;

pub(crate) struct Reports {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) live: Arc<Live>,
    /// Asks for the hosts at other ends.
    pub(crate) asking: Arc<Asking>,
    /// Hears of each attempt.
    pub(crate) tells: Arc<NewsSink>,
}
