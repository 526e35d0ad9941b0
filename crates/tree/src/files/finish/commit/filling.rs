//! Owns the batch that fills: its room, when it is due, and what else the thread of the committer is to do.
//! Makes nothing durable.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use godwit_engine::{limits, lock};

use super::Batch;
use crate::files::error::CommitError;

/// The batch that fills, and facts about the one that is being made durable.
#[derive(Default)]
pub(crate) struct Filling {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) batch: Batch,
    /// Content of the batch that is being made durable.
    pub(super) syncing_bytes: u64,
    /// Its items and small files.
    pub(super) syncing_entries: usize,
    pub(super) syncing: bool,
    pub(super) flushing: bool,
    /// The current batch is to be committed without waiting for more.
    pub(super) hurrying: bool,
    pub(super) stopping: bool,
    pub(super) failure: Option<CommitError>,
    pub(super) had_no_room: bool,
}

impl Filling {
    pub(crate) fn has_room(&self) -> bool {
        let mut state = lock(&self.state);
        // Empty files count as well: a batch that is being synced for long must not let any number of them pile up.
        let bytes = state.batch.bytes + state.batch.held_bytes + state.syncing_bytes;
        let room = bytes < limits::UNDURABLE_BYTES_MAX
            && state.batch.entries() + state.syncing_entries < limits::UNDURABLE_ENTRIES_MAX;
        state.had_no_room |= !room;
        room
    }

    pub(super) fn added(&self, state: &mut State, content: u64) {
        state.batch.bytes += content;
        if state.batch.began.is_none() {
            state.batch.began = Some(Instant::now());
            self.changed.notify_all();
        } else if state.batch.is_full() {
            self.changed.notify_all();
        }
    }

    pub(super) fn next_batch(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        loop {
            let age = state.batch.began.map(|began| began.elapsed());
            let due = state.batch.is_full() || age.is_some_and(|age| age >= limits::BATCH_AGE);
            if age.is_some() && (due || state.flushing || state.hurrying || state.stopping) {
                let batch = std::mem::take(&mut state.batch);
                state.syncing_bytes = batch.bytes + batch.held_bytes;
                state.syncing_entries = batch.entries();
                state.syncing = true;
                state.hurrying = false;
                return Some(batch);
            }
            if state.stopping {
                return None;
            }
            let wait = age.map(|age| limits::BATCH_AGE.saturating_sub(age));
            state = match wait {
                Some(wait) => self
                    .changed
                    .wait_timeout(state, wait)
                    .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state),
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(std::sync::PoisonError::into_inner),
            };
        }
    }

    /// Does not wait for the batch to fill up.
    pub(crate) fn hurry(&self) {
        let mut state = lock(&self.state);
        if state.batch.began.is_some() {
            state.hurrying = true;
            self.changed.notify_all();
        }
    }

    /// This end stops: long work is left to a later run.
    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).stopping
    }
}
