//! Ends a destination: makes everything durable, sweeps leftovers, removes the journal or keeps it for a later run. Makes no batch
//! durable; the committer's thread does.

use std::sync::atomic::Ordering;

use super::Committer;
use crate::files::error::{CloseError, CommitError};
use crate::files::finish::leftovers::Leftovers;
use crate::files::finish::unclaimed::unswept;
use crate::files::member::{sweep_beside, sweep_region};
use crate::files::region::Region;
use godwit_engine::lock;
use godwit_store::journal::PathKey;
use godwit_store::{RelPath, StoreError};

impl Committer {
    /// Waits until everything added so far is durable.
    pub(crate) fn flush(&self) -> Result<(), CommitError> {
        let mut state = lock(&self.filling.state);
        state.flushing = true;
        self.filling.changed.notify_all();
        while (state.batch.began.is_some() || state.syncing) && state.failure.is_none() {
            state = self
                .filling
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.flushing = false;
        match &state.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The reason why no more data becomes durable, if there is one.
    pub(crate) fn failure(&self) -> Option<CommitError> {
        lock(&self.filling.state).failure.clone()
    }

    /// Makes the received data durable and stops. The journal stays for a later run, unless this transfer has not `begun` and no data has
    /// arrived.
    pub(crate) fn stop(&self, begun: bool) {
        lock(&self.filling.state).stopping = true;
        self.filling.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic there was already printed; data without a journal record counts as not written.
            let _ = thread.join();
        }
        if let Some(journal) = lock(&self.journal).take()
            && !begun
            && self.received.load(Ordering::Relaxed) == 0
        {
            // The remaining files are the same as after any interrupted run.
            let _ = journal.finish();
        }
    }

    /// Does the last steps of a complete transfer. If entries are missing, the files that a later run can resume stay. Files that the
    /// source no longer has are removed, also from the journal: `rest` lists the journal's files that this run did not request. If
    /// nothing was made and nothing is kept, the journal is removed.
    pub(crate) fn close(
        &self,
        resumed: bool,
        made: bool,
        leftovers: &Leftovers,
        rest: &[PathKey],
    ) -> Result<(), CloseError> {
        let clean = self.target.counters.entries_failed.get() == 0;
        if resumed {
            let keep = |path: &RelPath| !clean && leftovers.has(path);
            match self.sweep(&keep) {
                Err(error) if clean => return Err(unswept(&self.target, error)),
                // The next run sweeps again.
                _ => {}
            }
        }
        let journal = lock(&self.journal).take();
        // Another batch of the same member may resume the files that this batch did not request.
        let rests = !self.target.finishes_tree() && !rest.is_empty();
        if let Some(journal) = &journal
            && !clean
            && !rests
            && leftovers.all_seen()
        {
            for key in rest {
                // If this fails, a later run finds a record without its file, and restarts that file.
                let _ = journal.append_restart(*key);
            }
        }
        lock(&self.filling.state).stopping = true;
        self.filling.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        match journal {
            // If entries are missing, the transfer is unfinished, and the same command resumes here.
            Some(journal) if !rests && (clean || !made && leftovers.is_empty()) => {
                journal.finish().map_err(CloseError::Journal)
            }
            _ => Ok(()),
        }
    }

    /// Removes temporary files with the tag of this transfer below its destinations. A member removes files with the tag of its claim in
    /// its region.
    pub(crate) fn sweep(&self, keep: &dyn Fn(&RelPath) -> bool) -> Result<(), StoreError> {
        let config = &self.target.config;
        if let Some(region) = self.target.region().and_then(Region::directories) {
            return sweep_region(&self.target, region, keep);
        }
        for start in &config.mapping {
            config.storage.sweep(start, config.tag, keep)?;
            if config.member.is_some() {
                sweep_beside(&self.target, start)?;
            }
        }
        Ok(())
    }
}
