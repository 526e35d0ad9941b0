//! Holds data that earlier runs left of unfinished files, and data of this run from which a later run may
//! resume. Removes nothing; the committer sweeps.
//!
//! The only lock, on the journal's contents, is held for one call only.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_engine::lock;
use godwit_store::TempName;
use godwit_store::journal::{Partial, PathKey, Recovered};

use crate::files::finish::leftovers::Leftovers;

/// Unfinished files, of earlier runs and of this one.
pub(crate) struct Held {
    /// Whether there was an earlier run.
    pub(crate) resumed: bool,
    /// The journal's ranges of files that this run has not requested yet.
    partial: Mutex<HashMap<PathKey, Partial>>,
    /// The files that a sweep keeps.
    pub(crate) leftovers: Leftovers,
    /// Whether data of a failed file was kept.
    has_kept: AtomicBool,
    /// Whether a file of unknown size was announced: its bytes come from a pipe, so no later run can
    /// resume it.
    comes_once: AtomicBool,
}

impl Held {
    pub(crate) fn new(recovered: &mut Recovered) -> Self {
        Self {
            resumed: recovered.resumed,
            partial: Mutex::new(std::mem::take(&mut recovered.partial)),
            leftovers: Leftovers::default(),
            has_kept: AtomicBool::new(false),
            comes_once: AtomicBool::new(false),
        }
    }

    /// Removes and returns the data that an earlier run delivered of the file, which this run now requests
    /// or gives up.
    pub(crate) fn take(&self, key: &PathKey) -> Option<Partial> {
        lock(&self.partial).remove(key)
    }

    /// Calls a function with the data that an earlier run delivered of the file, if any.
    pub(crate) fn with<T>(
        &self,
        key: &PathKey,
        look: impl FnOnce(&mut Partial) -> Option<T>,
    ) -> Option<T> {
        lock(&self.partial)
            .get_mut(key)
            .filter(|found| found.digest.covered() > 0)
            .and_then(look)
    }

    /// Whether earlier runs left nothing.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.partial).is_empty()
    }

    /// The journal's files that this run did not request.
    pub(crate) fn take_rest(&self) -> Vec<PathKey> {
        lock(&self.partial).drain().map(|(key, _)| key).collect()
    }

    /// Keeps the data of a file for the next run; the journal still records it.
    pub(crate) fn keep(&self, temp: TempName) {
        self.has_kept.store(true, Ordering::Relaxed);
        self.leftovers.keep(temp);
    }

    pub(crate) fn has_kept(&self) -> bool {
        self.has_kept.load(Ordering::Relaxed)
    }

    pub(crate) fn note_once(&self) {
        self.comes_once.store(true, Ordering::Relaxed);
    }

    pub(crate) fn comes_once(&self) -> bool {
        self.comes_once.load(Ordering::Relaxed)
    }
}
