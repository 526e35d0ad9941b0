//! Owns the commands to the transfers of one worker: whether they end, and how fast they are. Each try of a transfer has a separate
//! control, so that it can end while the worker continues.
//! Decides nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_run::Control;

/// No limit was set.
const UNSET: u64 = u64::MAX;

/// Steers the transfers of one worker, one after the other.
pub(crate) struct Steering {
    is_stopped: AtomicBool,
    limit: AtomicU64,
    now: Mutex<Control>,
}

impl Default for Steering {
    fn default() -> Self {
        Self {
            is_stopped: AtomicBool::new(false),
            limit: AtomicU64::new(UNSET),
            now: Mutex::default(),
        }
    }
}

impl Steering {
    fn lock(&self) -> MutexGuard<'_, Control> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control of the next try, whose description has this limit.
    pub(crate) fn begin(&self, limit: u64) -> Control {
        let control = Control::default();
        let mut now = self.lock();
        *now = control.clone();
        let set = self.limit.load(Ordering::SeqCst);
        if set != UNSET && set != limit {
            control.set_limit(set);
        }
        if !self.goes_on() {
            control.cancel();
        }
        control
    }

    /// Changes the limit in bytes per second; 0 is none.
    pub(crate) fn set_limit(&self, limit: u64) {
        let now = self.lock();
        if self.limit.swap(limit, Ordering::SeqCst) != limit {
            now.set_limit(limit);
        }
    }

    /// Ends the transfer that runs, and those that begin later.
    pub(crate) fn stop(&self) {
        let now = self.lock();
        self.is_stopped.store(true, Ordering::SeqCst);
        now.cancel();
    }

    /// Whether it was not stopped.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_stopped.load(Ordering::SeqCst)
    }
}
