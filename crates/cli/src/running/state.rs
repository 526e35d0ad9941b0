//! The state of this process's transfer as others see it, and what they want of it.
//! Changes the engine only from the thread that watches it.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_engine::session::Engine;

use super::listener::Listener;
use super::{CONFIRM_DEADLINE, Question, Running, read_line, write_line};
use crate::home::Home;

/// Sources that are told: enough to know a transfer by, and few enough for one line.
const SOURCES_TOLD_MAX: usize = 16;

/// Makes the transfer of this process known to other commands of its user, and does what they want.
#[derive(Default)]
pub(crate) struct Steering {
    shared: Arc<Shared>,
    listener: Mutex<Option<Listener>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: Running,
    /// A limit that somebody wants, instead of the one that the transfer began with.
    wanted: Option<u64>,
    over: bool,
}

impl Steering {
    /// The transfer begins, perhaps anew.
    ///
    /// # Errors
    /// It cannot be made known; the transfer itself can go on.
    pub(crate) fn begin(
        &self,
        home: &Home,
        transfer: &str,
        sources: &[String],
        destination: &str,
    ) -> Result<(), String> {
        {
            let mut state = self.shared.lock();
            state.running.transfer = transfer.to_owned();
            state.running.pid = std::process::id();
            state.running.sources = sources.iter().take(SOURCES_TOLD_MAX).cloned().collect();
            if let Some(more) = sources.len().checked_sub(SOURCES_TOLD_MAX + 1) {
                state.running.sources.push(format!("and {} more", more + 1));
            }
            state.running.destination = destination.to_owned();
            state.running.limit = None;
        }
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_none() {
            let shared = Arc::clone(&self.shared);
            let directory = home.running().map_err(|failure| failure.message)?;
            let started = Listener::start(&directory, move |socket| shared.answer(socket))
                .map_err(|error| format!("{}: {error}", directory.display()))?;
            *listener = Some(started);
        }
        Ok(())
    }

    /// The transfer goes on: tells the engine what is wanted of it, and others what it does.
    pub(crate) fn watch(&self, engine: &Engine, bytes: u64) {
        let mut state = self.shared.lock();
        if let Some(wanted) = state.wanted {
            let asked = match engine {
                Engine::Sender(_) => engine.limit(),
                Engine::Receiver(receiver) => receiver.asked_limit(),
            };
            if asked != Some(wanted) {
                engine.set_limit(wanted);
            }
        }
        state.running.limit = engine.limit();
        state.running.bytes = bytes;
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn answer(&self, mut socket: UnixStream) {
        // Who asks nonsense, or goes away, gets no answer.
        if let Ok(question) = read_line::<Question>(&socket) {
            let answer = match question.limit {
                Some(limit) => self.set_limit(limit),
                None => self.lock().running.clone(),
            };
            let _ = write_line(&mut socket, &answer);
        }
    }

    /// Waits until the sending end says that it obeys.
    fn set_limit(&self, limit: u64) -> Running {
        let until = Instant::now() + CONFIRM_DEADLINE;
        let mut state = self.lock();
        state.wanted = Some(limit);
        // What was known is of before.
        state.running.limit = None;
        // Who waits for another one waits in vain.
        self.changed.notify_all();
        while state.running.limit != Some(limit) {
            let left = until.saturating_duration_since(Instant::now());
            let error = if state.over {
                Some("the transfer has ended".to_owned())
            } else if state.wanted != Some(limit) {
                Some("somebody else has set another limit meanwhile".to_owned())
            } else if left.is_zero() {
                Some(format!(
                    "the sending end has not confirmed within {} s: there is no connection now, or its version is too old to change a limit; it is asked again once there is one",
                    CONFIRM_DEADLINE.as_secs()
                ))
            } else {
                None
            };
            if error.is_some() {
                return Running {
                    error,
                    ..state.running.clone()
                };
            }
            state = self
                .changed
                .wait_timeout(state, left.min(Duration::from_secs(1)))
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        state.running.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
