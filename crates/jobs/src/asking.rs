//! Groups the questions to other nodes, and the answers that this node remembers.
//! Decides nothing about jobs.

pub(crate) mod abroad;
pub(crate) mod border;
pub(crate) mod elsewhere;
pub(crate) mod hosts;
pub(crate) mod learn_pace;
pub(crate) mod manifest;
pub(crate) mod overlaps;
pub(crate) mod past;
pub(crate) mod reach;
pub(crate) mod reached;
pub(crate) mod renewal;

use std::sync::Arc;

use godwit_api::ask::AskSites;

use crate::basis::this_node::ThisNode;

/// The connections to other nodes, and their answers.
pub(crate) struct Asking {
    pub(crate) this: Arc<ThisNode>,
    /// Asks other sites, and this node, about places.
    pub(crate) sites: Arc<dyn AskSites>,
    /// Progress of jobs at other nodes.
    pub(crate) elsewhere: elsewhere::RemoteProgress,
    /// Jobs that wait at the sites where they run.
    pub(crate) abroad: abroad::Abroad,
    /// Records of jobs at other nodes.
    pub(crate) others: past::Others,
    /// The sites that this node has dialled for other nodes.
    pub(crate) reaching: reach::RecentDials,
    /// This host, and the hosts at the other ends of transfers.
    pub(crate) hosts: hosts::Hosts,
    /// How often the nodes of sites are noted.
    pub(crate) learn_pace: learn_pace::LearnPace,
}
