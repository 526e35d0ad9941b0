//! Divides the descriptors that the process may have among connections, transfers and strangers.
//! Asks the system for the limit in one function only, and counts nothing.
//!
//! OPENED tells a client its share of streams.

use godwit_engine::limits::STREAMS_MAX;
use rustix::process::{Resource, getrlimit};

use crate::DaemonConfig;

/// Standard streams, listeners with their wakers, the pipe of signals, and files that are open for a moment.
const OWN: usize = 12;

/// Part of all descriptors that storages keep for recently used directories (`store::fs::directories`).
const KEPT_SHARE: usize = 4;

/// An unauthenticated connection: its socket, a second handle to close it by, a waker of its thread.
const STRANGER: usize = 3;

/// A stream: its socket, a second handle to watch it by, a waker of its thread, and its current file with that file's directory.
const STREAM: usize = 5;

/// A transfer: its journal, its root, files read or written apart, a listed directory, a spill.
const TRANSFER: usize = 8;

/// Unauthenticated connections of known addresses, and as many of others: a thread, descriptors and a few pages each.
const STRANGERS_MAX: usize = 256;

/// However few descriptors there are, a client has to get in.
const LEAST: usize = 2;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Of known addresses, and as many of all others.
    pub(crate) strangers: usize,
    pub(crate) connections: usize,
    pub(crate) transfers: usize,
    /// Of one transfer: about half of all connections, so that one transfer leaves room for another.
    pub(crate) streams: u32,
}

impl Budget {
    /// The wished numbers, as far as `descriptors` allow. A quarter of them is for strangers, the rest half for transfers and half for
    /// streams; each kind leaves its unused part to files.
    pub(crate) fn of(descriptors: usize, connections: usize, transfers: usize) -> Self {
        let room = descriptors.saturating_sub(OWN + descriptors / KEPT_SHARE);
        let strangers = (room / 4 / (2 * STRANGER)).clamp(LEAST, STRANGERS_MAX);
        let room = room.saturating_sub(2 * strangers * STRANGER);
        let transfers = transfers.min((room / 2 / TRANSFER).max(LEAST));
        let room = room.saturating_sub(transfers * TRANSFER);
        let connections = connections.min((room / STREAM).max(LEAST));
        let streams = u32::try_from(connections.div_ceil(2)).unwrap_or(STREAMS_MAX);
        Self {
            strangers: strangers.min(connections).max(1),
            connections,
            transfers,
            streams: streams.min(STREAMS_MAX),
        }
    }

    /// By the limit of this process.
    pub(crate) fn here(config: &DaemonConfig) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(limit).unwrap_or(usize::MAX);
        let budget = Self::of(descriptors, config.connections_max, config.transfers_max);
        let is_less = |budget: &Self| {
            budget.connections < config.connections_max || budget.transfers < config.transfers_max
        };
        if is_less(&budget) {
            (config.log)(&format!(
                "this process may have {descriptors} descriptors, enough for {} connections and {} transfers; raise its limit (ulimit -n, LimitNOFILE=) for more",
                budget.connections, budget.transfers
            ));
        }
        budget
    }

    /// Without regard to descriptors.
    pub(crate) fn unbounded(connections: usize, transfers: usize) -> Self {
        Self::of(usize::MAX / 2, connections, transfers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_descriptors_leaves_room_for_files() {
        for descriptors in 72..20_000 {
            let budget = Budget::of(descriptors, 1024, 1024);
            let used = OWN
                + descriptors / KEPT_SHARE
                + 2 * budget.strangers * STRANGER
                + budget.connections * STREAM
                + budget.transfers * TRANSFER;
            assert!(used <= descriptors, "{descriptors}: {budget:?}");
            assert!(budget.streams >= 1 && budget.streams as usize <= budget.connections);
        }
    }

    #[test]
    fn many_descriptors_bound_nothing() {
        let budget = Budget::of(524_288, 1024, 1024);
        assert_eq!(budget, Budget::unbounded(1024, 1024));
        assert_eq!((budget.connections, budget.transfers), (1024, 1024));
        assert_eq!((budget.strangers, budget.streams), (256, 128));
    }
}
