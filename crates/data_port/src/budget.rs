//! Divides the process's descriptors among connections, transfers and strangers. Reads the system's limit in one function only, and
//! does not count.
//!
//! OPENED contains the client's share of streams.

use godwit_engine::limits::STREAMS_MAX;
use rustix::process::{Resource, getrlimit};

use crate::DaemonConfig;

/// Standard streams, listeners with their wakers, the pipe for signals, and files that are open for a moment.
const OWN: usize = 12;

/// Storages keep this fraction of all descriptors for recently used directories (`store::fs::directories`).
const KEPT_SHARE: usize = 4;

/// Descriptors of an unauthenticated connection: its socket, a second handle to close it, a waker of its thread.
const STRANGER: usize = 3;

/// Descriptors of a stream: its socket, a second handle for the watch, a waker of its thread, and its current file with that file's
/// directory.
const STREAM: usize = 5;

/// Descriptors of a transfer: its journal, its root, a file read or written separately, a listed directory, a spill.
const TRANSFER: usize = 8;

/// Most unauthenticated connections from known addresses, and as many from others; each costs a thread, descriptors and a few pages.
const STRANGERS_MAX: usize = 256;

/// Minimum of places: even with few descriptors, a client must be admitted.
const LEAST: usize = 2;

/// Limits of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Unauthenticated connections from known addresses, and as many from all others.
    pub(crate) strangers: usize,
    pub(crate) connections: usize,
    pub(crate) transfers: usize,
    /// Streams of one transfer: about half of all connections, so that one transfer leaves room for another.
    pub(crate) streams: u32,
}

impl Budget {
    /// The requested numbers, reduced if `descriptors` do not suffice. A quarter is for strangers; the rest is divided equally between
    /// transfers and streams. Files use the descriptors that are left.
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

    /// The budget for the limit of this process.
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

    /// The budget without a limit of descriptors.
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
