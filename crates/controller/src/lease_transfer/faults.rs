//! Judges nodes of the destination that cannot write: which node is better for the same items, and which one is at fault.
//! Asks no node, and sets none aside: `aside` does.
//!
//! The cause of a full disk, a read-only mount or an I/O error may be one node, or the file system that all nodes share. So the items go to
//! another node first. One damaged entry may also cause an I/O error. So a node is at fault only if another node writes the
//! same items without an I/O error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_api::ask::NodeFault;
use godwit_api::event::Event;
use godwit_api::failure::{Code, Failure, FailureCode};

/// The side of a fault, as events name it.
const DESTINATION: &str = "destination";

/// How much of its work a node cannot do: some entries, or all of them. 0 is no fault.
const SOME: u8 = 1;
const ALL: u8 = 2;

/// The severity of a fault.
pub(crate) fn severity(code: FailureCode) -> u8 {
    match code {
        FailureCode::Io | FailureCode::SyncFailed => SOME,
        FailureCode::NoSpace
        | FailureCode::ReadOnly
        | FailureCode::DestinationUnusable
        | FailureCode::JournalUnusable
        | FailureCode::SpillUnusable => ALL,
        _ => 0,
    }
}

fn fault(code: FailureCode) -> Option<FailureCode> {
    (severity(code) > 0).then_some(code)
}

/// The fault of the destination that an event of a transfer reports.
pub(crate) fn of_event(event: &Event) -> Option<FailureCode> {
    let (side, code) = match event {
        Event::Failed(failed) => (failed.side.as_deref()?, failed.code.as_ref()?),
        Event::WorkFailed(failed) => (failed.side.as_str(), &failed.code),
        _ => return None,
    };
    (side == DESTINATION)
        .then(|| code.known())
        .flatten()
        .and_then(fault)
}

/// The fault of the destination that ended a transfer.
pub(crate) fn of_end(failure: &Failure) -> Option<FailureCode> {
    fault(failure.code)
}

/// The faults that one lease met, by the identities of nodes.
#[derive(Default)]
pub(crate) struct Faults {
    met: BTreeMap<String, FailureCode>,
    /// Nodes that were found at fault.
    found: Mutex<BTreeSet<String>>,
}

impl Faults {
    /// A node could not write. Its worst fault counts.
    pub(crate) fn add(&mut self, node: &str, code: FailureCode) {
        let known = self.met.entry(node.to_owned()).or_insert(code);
        if severity(code) > severity(*known) {
            *known = code;
        }
    }

    /// How bad a node was so far.
    pub(crate) fn of(&self, node: &str) -> u8 {
        self.met.get(node).copied().map_or(0, severity)
    }

    /// The nodes at fault, each once. They are the nodes that can write nothing. With `end`, the severity of the last node's fault, they
    /// are also all nodes with a worse fault.
    pub(crate) fn found(&self, end: Option<u8>) -> Vec<(String, FailureCode)> {
        let least = end.unwrap_or(SOME);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let worse = self.met.iter().filter(|(_, code)| severity(**code) > least);
        let new = worse.filter(|(node, _)| found.insert((*node).clone()));
        new.map(|(node, code)| (node.clone(), *code)).collect()
    }
}

/// The nodes that were at fault while a worker ran.
#[derive(Default)]
pub(crate) struct AtFault(Mutex<Vec<NodeFault>>);

impl AtFault {
    fn lock(&self) -> MutexGuard<'_, Vec<NodeFault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the fault of a node: another node wrote the data that this node could not write.
    pub(crate) fn add(&self, node: &str, code: FailureCode) {
        let code = Code::from(code);
        let mut all = self.lock();
        match all.iter_mut().find(|one| one.at == node) {
            Some(one) => (one.times, one.code) = (one.times.saturating_add(1), code),
            None => all.push(NodeFault {
                at: node.to_owned(),
                times: 1,
                code,
            }),
        }
    }

    pub(crate) fn extend(&self, found: Vec<(String, FailureCode)>) {
        for (node, code) in found {
            self.add(&node, code);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<NodeFault> {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{Failed, WorkFailed};

    use super::*;

    #[test]
    fn only_faults_of_the_destination_s_storage_count() {
        let failed = |side: &str, code: FailureCode| {
            Event::Failed(Failed {
                side: Some(side.to_owned()),
                code: Some(code.into()),
                ..Failed::default()
            })
        };
        let of = |side, code| of_event(&failed(side, code));
        let full = FailureCode::NoSpace;
        assert_eq!(of("destination", full), Some(full));
        assert_eq!(of("source", FailureCode::Io), None);
        assert_eq!(of("destination", FailureCode::Permission), None);
        let part = Event::WorkFailed(WorkFailed {
            number: 0,
            side: "destination".to_owned(),
            code: FailureCode::Io.into(),
            message: String::new(),
        });
        assert_eq!(of_event(&part), Some(FailureCode::Io));
        let busy = Failure::new(FailureCode::BusyDestination, "claimed");
        assert_eq!(of_end(&busy), None);
    }

    #[test]
    fn the_node_is_at_fault_that_was_worse_than_the_one_that_took_the_items() {
        let mut faults = Faults::default();
        faults.add("a", FailureCode::NoSpace);
        faults.add("b", FailureCode::Io);
        faults.add("a", FailureCode::Io);
        assert_eq!((faults.of("a"), faults.of("b"), faults.of("c")), (2, 1, 0));
        let found = |end| {
            let found = faults.found(end).into_iter();
            found.map(|(node, _)| node).collect::<Vec<_>>()
        };
        // An entry that fails everywhere is the fault of no node.
        assert!(found(Some(2)).is_empty());
        assert_eq!(found(None), ["a"]);
        assert!(found(Some(1)).is_empty(), "that is known");
        assert_eq!(found(Some(0)), ["b"]);
    }

    #[test]
    fn each_time_is_counted() {
        let all = AtFault::default();
        all.add("a", FailureCode::Io);
        all.add("a", FailureCode::NoSpace);
        let [one] = all.all().try_into().expect("one node");
        assert_eq!((one.times, one.code), (2, FailureCode::NoSpace.into()));
    }
}
