//! Records which other voters answered recently, and sends nothing once the gate is closed. Does not carry messages; it wraps the carrier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Gate;
use crate::raft::{Answer, Peers};

/// A voter that has been silent for this long may be gone.
const ANSWERING: Duration = Duration::from_secs(10);

/// The time of the last contact with each other node.
#[derive(Clone, Debug, Default)]
pub(super) struct LastContacts {
    at: Arc<Mutex<BTreeMap<u64, Instant>>>,
}

impl LastContacts {
    pub(super) fn mark(&self, number: u64) {
        self.lock().insert(number, Instant::now());
    }

    /// How many of these nodes answered recently.
    pub(super) fn among(&self, numbers: impl Iterator<Item = u64>) -> usize {
        let contacts = self.lock();
        numbers
            .filter_map(|number| contacts.get(&number))
            .filter(|at| at.elapsed() < ANSWERING)
            .count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A carrier that records which nodes answer.
#[derive(Debug)]
pub(super) struct Noting {
    pub(super) peers: Arc<dyn Peers>,
    pub(super) contacts: LastContacts,
    pub(super) gate: Gate,
}

impl Peers for Noting {
    fn call(
        &self,
        to: u64,
        address: &str,
        kind: &'static str,
        message: Vec<u8>,
        within: Duration,
    ) -> Answer {
        if let Err(closed) = self.gate.check_message() {
            return Box::pin(async { Err(closed) });
        }
        let answer = self.peers.call(to, address, kind, message, within);
        let (contacts, gate) = (self.contacts.clone(), self.gate.clone());
        Box::pin(async move {
            let answer = answer.await?;
            // Votes and receipts that arrive late count for nothing.
            gate.check_message()?;
            contacts.mark(to);
            Ok(answer)
        })
    }
}
