//! Decides whether this node would accept a command now: it takes part, its files are sound, its disk has space, and there is a leader
//! with a majority. Proposes nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openraft::async_runtime::WatchReceiver as _;
use openraft::{Instant as _, RaftMetrics};

use super::answering::LastContacts;
use super::directory::Directory;
use super::propose::{check_room, no_majority};
use super::{Ended, Options, ProposeError};
use crate::raft::{Guard, Raft, Types};
use crate::read::Reader;

/// A leader counts as lost if it has not been heard for this long, or has not heard a majority.
const LEADERLESS_AFTER: Duration = Duration::from_secs(4);

/// A node that has heard no leader with a majority for this long may not know of rights that were revoked meanwhile.
const OUTDATED_AFTER: Duration = Duration::from_secs(600);

/// The conditions under which a replica accepts commands.
#[derive(Debug)]
pub struct Readiness {
    raft: Raft,
    guard: Arc<Guard>,
    reader: Arc<Reader>,
    /// The file of the state.
    state: PathBuf,
    /// Records which other voters answer.
    answering: LastContacts,
    /// When the leader was last heard.
    led_at: Mutex<Option<Instant>>,
    /// When a look last found a leader with a majority; at first the start. A process that was stopped has looked long ago.
    found: Mutex<Instant>,
    options: Options,
}

impl Readiness {
    pub(super) fn new(
        raft: Raft,
        directory: &Directory,
        reader: Arc<Reader>,
        answering: LastContacts,
        options: Options,
    ) -> Self {
        Self {
            raft,
            guard: directory.guard(),
            reader,
            state: directory.state(),
            answering,
            led_at: Mutex::new(None),
            found: Mutex::new(Instant::now()),
            options,
        }
    }

    /// Checks that a command would be accepted now: there is a leader with a majority, and the disk has enough space.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self) -> Result<(), ProposeError> {
        self.options.gate.check()?;
        self.check_files()?;
        self.check_leader()?;
        self.check_room()
    }

    /// Checks that the disk of this node accepts commands: its files have no fault, and there is enough space.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_disk(&self) -> Result<(), ProposeError> {
        self.check_files()?;
        self.check_room()
    }

    /// Whether there was a leader with a majority within this time, as far as this node knows.
    #[must_use]
    pub fn is_led_within(&self, time: Duration) -> bool {
        let is_led = self.check_led(time).is_ok();
        self.note(is_led);
        is_led
    }

    /// Whether the rights in the state may be outdated here: another part of the cluster may have revoked some long ago.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.is_cut_off(OUTDATED_AFTER)
    }

    /// Whether no look within this time has found a leader with a majority. A node that runs jobs looks every few seconds. A change of the
    /// leader takes a moment, so one look decides nothing.
    #[must_use]
    pub fn is_cut_off(&self, time: Duration) -> bool {
        let lost = self.note(self.check_leader().is_ok());
        lost.is_some_and(|lost_for| lost_for >= time)
    }

    /// Notes whether a look has found a leader; if not, returns for how long none has.
    fn note(&self, is_led: bool) -> Option<Duration> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if is_led {
            *found = Instant::now();
            return None;
        }
        Some(found.elapsed())
    }

    /// Whether this node could lead: its files have no fault, and there is enough space.
    pub(super) fn can_lead(&self) -> bool {
        self.check_room().is_ok() && self.guard.fault().is_none()
    }

    /// Another node has sent a message.
    pub(super) fn contacted(&self, from: u64) {
        self.answering.mark(from);
    }

    /// The leader has sent entries, or a heartbeat.
    pub(super) fn led(&self) {
        let mut led_at = self.led_at.lock().unwrap_or_else(PoisonError::into_inner);
        *led_at = Some(Instant::now());
    }

    fn check_files(&self) -> Result<(), ProposeError> {
        // The consensus ends with the first failing file, and the process soon after.
        if let Some(fault) = self.guard.fault() {
            return Err(ProposeError::Ended(Ended(fault.to_owned())));
        }
        Ok(self.reader.soundness.check(&self.state)?)
    }

    /// Checks that there is a leader with a majority, as far as this node knows.
    fn check_leader(&self) -> Result<(), ProposeError> {
        self.check_led(LEADERLESS_AFTER)
    }

    fn check_led(&self, within: Duration) -> Result<(), ProposeError> {
        let (voters, leads, hears) = {
            // Do not borrow the metrics twice: the second borrow would wait for a change that waits for the first one, and the consensus
            // would stop.
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            let membership = metrics.membership_config.membership();
            (
                membership.voter_ids().count(),
                metrics.state.is_leader(),
                reaches_majority(&metrics, within),
            )
        };
        if leads {
            return match hears {
                true => Ok(()),
                false => Err(self.no_majority()),
            };
        }
        let led_at = *self.led_at.lock().unwrap_or_else(PoisonError::into_inner);
        match led_at.is_some_and(|at| at.elapsed() < within) {
            true => Ok(()),
            false if voters == 0 => Err(ProposeError::NotLeader { leader: None }),
            false => Err(self.no_majority()),
        }
    }

    fn no_majority(&self) -> ProposeError {
        no_majority(&self.raft, self.options.voter, &self.answering)
    }

    fn check_room(&self) -> Result<(), ProposeError> {
        check_room(&self.options.directory, self.options.free_bytes_min)
    }
}

/// Whether the voter of these metrics leads, and hears no majority.
pub(super) fn leads_without_majority(metrics: &RaftMetrics<Types>) -> bool {
    metrics.state.is_leader() && !reaches_majority(metrics, LEADERLESS_AFTER)
}

/// Whether a leader has heard a majority within this time. The only voter needs no other.
fn reaches_majority(metrics: &RaftMetrics<Types>, within: Duration) -> bool {
    let voters = metrics.membership_config.membership().voter_ids().count();
    let acked = metrics.last_quorum_acked;
    voters < 2 || acked.is_some_and(|at| at.elapsed() < within)
}
