//! Groups the questions to other nodes, and the answers that this node remembers.
//! Decides nothing about jobs.

pub(crate) mod border;
pub(crate) mod elsewhere;
pub(crate) mod manifest;
pub(crate) mod past;
pub(crate) mod reach;
pub(crate) mod reached;
pub(crate) mod renewal;
