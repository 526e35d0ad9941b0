//! The end of a destination: everything durable, leftovers swept, the journal removed or kept for a later run.
//! Makes no batch durable itself; the committer's thread does.

use std::sync::atomic::Ordering;

use super::Committer;
use crate::lock;
use crate::tree::leftovers::Leftovers;
use crate::tree::sink::TreeSinkConfig;
use godwit_store::journal::PathKey;
use godwit_store::{RelPath, StoreError};

impl Committer {
    /// Waits until everything added so far is durable. Returns what prevents it.
    pub(in crate::tree) fn flush(&self) -> Option<String> {
        let mut state = lock(&self.state);
        state.flushing = true;
        self.changed.notify_all();
        while (state.batch.began.is_some() || state.syncing) && state.failure.is_none() {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.flushing = false;
        state.failure.clone()
    }

    /// Why nothing more becomes durable, if that is so.
    pub(in crate::tree) fn failure(&self) -> Option<String> {
        lock(&self.state).failure.clone()
    }

    /// This end is given up: what takes long is left to a later run.
    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).stopping
    }

    /// Makes what is there durable and stops. The journal stays for a later run, unless none has `begun` and nothing came.
    pub(in crate::tree) fn stop(&self, begun: bool) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic there has been printed; what was not journalled counts as not written.
            let _ = thread.join();
        }
        if let Some(journal) = lock(&self.journal).take()
            && !begun
            && self.received.load(Ordering::Relaxed) == 0
        {
            // What stays is what any run that was ended leaves.
            let _ = journal.finish();
        }
    }

    /// The last steps of a complete transfer. Returns what prevents them.
    /// With entries missing, what a later run can go on with stays; what the source has no more goes, from the journal too:
    /// `rest` is of files that nobody has asked for.
    pub(in crate::tree) fn close(
        &self,
        resumed: bool,
        config: &TreeSinkConfig,
        leftovers: &Leftovers,
        rest: &[PathKey],
    ) -> Option<String> {
        let clean = self.counters.entries_failed.get() == 0;
        if resumed {
            let keep = |path: &RelPath| !clean && leftovers.has(path);
            match self.sweep(config, &keep) {
                Err(error) if clean => {
                    return Some(format!(
                        "what an earlier run left behind cannot be removed: {error}"
                    ));
                }
                // The next run does it.
                _ => {}
            }
        }
        let journal = lock(&self.journal).take();
        if let Some(journal) = &journal
            && !clean
            && leftovers.all_seen()
        {
            for key in rest {
                // Whoever finds a record without its file begins that anew.
                let _ = journal.append_restart(*key);
            }
        }
        lock(&self.state).stopping = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        match journal {
            // With entries missing the transfer is unfinished: the same command goes on from here.
            Some(journal) if clean => journal
                .finish()
                .err()
                .map(|error| format!("the journal cannot be removed: {error}")),
            _ => None,
        }
    }

    fn sweep(
        &self,
        config: &TreeSinkConfig,
        keep: &dyn Fn(&RelPath) -> bool,
    ) -> Result<(), StoreError> {
        for start in &config.mapping {
            self.storage.sweep(start, config.tag, keep)?;
        }
        Ok(())
    }
}
