//! Holds the requests to a running job, and its progress. Any thread makes requests; the thread that runs the job obeys them. Does
//! not move data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_engine::session::Engine;

/// Controls one job. Clones control the same job.
#[derive(Clone, Default)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    cancelled: Arc<AtomicBool>,
    paused: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A new limit, which replaces the job's initial one.
    wanted: Option<u64>,
    /// A new priority (true yields to other jobs), which replaces the one in the settings.
    background: Option<bool>,
    figures: Figures,
    over: bool,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// The limit that the sending end obeys, in bytes a second; 0 for none, `None` if unknown.
    pub limit: Option<u64>,
    /// Whether the sending end yields to all others; `None` if unknown.
    pub background: Option<bool>,
    /// Settled content, in bytes.
    pub bytes: u64,
}

/// Why a new limit or priority is not confirmed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unconfirmed {
    /// The job has ended.
    Over,
    /// Another caller has set another value meanwhile.
    Overridden,
    /// The sending end did not confirm it in time.
    Late,
}

impl Control {
    /// Ends the job in a way that can be resumed.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }

    /// The flag that cancels the job, for a handler of signals.
    #[must_use]
    pub fn cancelled(&self) -> &Arc<AtomicBool> {
        &self.shared.cancelled
    }

    /// Whether the job was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Stops the streams and frees the memory of the job; its journal stays. A job with a standard stream continues, because a pipe
    /// cannot be resumed.
    pub fn pause(&self) {
        self.shared.paused.store(true, Ordering::Relaxed);
    }

    /// Lets a paused job continue from its journal.
    pub fn resume(&self) {
        self.shared.paused.store(false, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }

    /// Whether the job must pause.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.shared.paused.load(Ordering::Relaxed)
    }

    /// The progress of the job.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.lock().figures
    }

    /// Changes the limit, in bytes of content a second; 0 for none.
    pub fn set_limit(&self, limit: u64) {
        let mut state = self.lock();
        state.wanted = Some(limit);
        // The known limit is the old one.
        state.figures.limit = None;
        // Callers that wait for an earlier limit must stop.
        self.shared.changed.notify_all();
    }

    /// Changes the limit and waits until the sending end obeys it.
    ///
    /// # Errors
    /// Obedience to the limit is not confirmed.
    pub fn confirm_limit(&self, limit: u64, deadline: Duration) -> Result<(), Unconfirmed> {
        self.set_limit(limit);
        self.confirm(deadline, &|state| {
            let wanted = state.wanted == Some(limit);
            wanted.then_some(state.figures.limit == Some(limit))
        })
    }

    /// Waits until `is_obeyed` returns true; `None` if another value was requested meanwhile.
    fn confirm(
        &self,
        deadline: Duration,
        is_obeyed: &dyn Fn(&State) -> Option<bool>,
    ) -> Result<(), Unconfirmed> {
        let until = Instant::now() + deadline;
        let mut state = self.lock();
        loop {
            match is_obeyed(&state) {
                Some(true) => return Ok(()),
                _ if state.over => return Err(Unconfirmed::Over),
                None => return Err(Unconfirmed::Overridden),
                Some(false) => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unconfirmed::Late);
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left.min(Duration::from_secs(1)))
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// Sets whether the job yields to other jobs from now on.
    pub fn set_background(&self, background: bool) {
        let mut state = self.lock();
        state.background = Some(background);
        state.figures.background = None;
        self.shared.changed.notify_all();
    }

    /// Changes the priority and waits until the sending end obeys it.
    ///
    /// # Errors
    /// Obedience to the priority is not confirmed.
    pub fn confirm_background(
        &self,
        background: bool,
        deadline: Duration,
    ) -> Result<(), Unconfirmed> {
        self.set_background(background);
        self.confirm(deadline, &|state| {
            let wanted = state.background == Some(background);
            wanted.then_some(state.figures.background == Some(background))
        })
    }

    /// Whether the job yields to other jobs; `None` if no caller has requested it.
    pub(crate) fn background(&self) -> Option<bool> {
        self.lock().background
    }

    /// Records that a transfer begins, perhaps again. The transfer's figures are then unknown.
    pub(crate) fn begins(&self) {
        let mut state = self.lock();
        state.figures.limit = None;
        state.figures.background = None;
    }

    /// Passes the requests to the engine, and reads its figures.
    pub(crate) fn watch(&self, engine: &Engine, bytes: u64) {
        let mut state = self.lock();
        let (limit, background) = engine.asked();
        if let Some(wanted) = state.wanted.filter(|wanted| limit != Some(*wanted)) {
            engine.set_limit(wanted);
        }
        let wanted = state.background;
        if let Some(wanted) = wanted.filter(|wanted| background != Some(*wanted)) {
            engine.set_background(wanted);
        }
        state.figures = Figures {
            limit: engine.limit(),
            background: engine.background(),
            bytes,
        };
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits while the job is paused and not cancelled.
    pub(crate) fn wait_while_paused(&self) {
        let mut state = self.lock();
        while self.is_paused() && !self.is_cancelled() {
            // A signal handler sets the flag without a notification.
            state = self
                .shared
                .changed
                .wait_timeout(state, LOOK_EVERY)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// Records that the job has ended.
    pub(crate) fn finish(&self) {
        self.lock().over = true;
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a paused job checks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(100);
