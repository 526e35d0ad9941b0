//! Owns the parts for the controller and the workers of divided jobs.
//! Runs none of them.

use std::sync::Arc;

use godwit_run::local::ExportedFiles;
use godwit_state::Runner;

use super::Workers;
use crate::asking::Asking;
use crate::attempt::live::Live;
use crate::attempt::{MakeEnv, SharedSources};
use crate::basis::this_node::ThisNode;
use crate::rights::Rights;

pub(crate) struct Context {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) live: Arc<Live>,
    pub(crate) exported: Arc<dyn ExportedFiles>,
    pub(crate) make_env: Arc<MakeEnv>,
    /// This start of this node, as the state names it.
    pub(crate) runner: Runner,
    /// Reads that jobs of one parent share.
    pub(crate) shared: SharedSources,
    /// Workers for items of divided jobs here.
    pub(crate) workers: Workers,
}
