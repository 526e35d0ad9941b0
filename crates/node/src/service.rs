//! Owns the messages between a node and its service manager: ready, alive, stopping (`sd_notify(3)`); and the events that end a node.
//! Does not stop anything itself.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use godwit_jobs::Jobs;
use sd_notify::NotifyState;
use signal_hook::iterator::Signals;

/// Limit of ends that may come at once: a signal, the end of the state, and the end of the cluster.
const ENDS_MAX: usize = 3;

/// Why a node ends.
pub(crate) enum End {
    /// A signal asks the node to end.
    Signal,
    /// The state accepts no change any more, so no job could be kept.
    State(String),
    /// Another node was made the only one of this cluster.
    LeftBehind(String),
}

/// Events that end a node.
pub(crate) struct Ends {
    sender: SyncSender<End>,
    receiver: Receiver<End>,
}

impl Ends {
    /// Hears of signals from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn of(mut signals: Signals) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(ENDS_MAX);
        let own = sender.clone();
        std::thread::Builder::new()
            .name("gw-signals".to_owned())
            .spawn(move || {
                if signals.forever().next().is_some() {
                    // If the node stops already, the receiver is gone.
                    let _ = own.send(End::Signal);
                }
            })?;
        Ok(Self { sender, receiver })
    }

    /// Hears of the end of the state, too.
    pub(crate) fn watch(&self, jobs: &Jobs) {
        let own = self.sender.clone();
        jobs.replica().on_end(move |ended| {
            let _ = own.send(End::State(ended.0));
        });
    }

    /// Hears that another node was made the only one of this cluster.
    pub(crate) fn left_behind(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let own = self.sender.clone();
        Arc::new(move |why| {
            // The call repeats; the first one is enough.
            let _ = own.try_send(End::LeftBehind(why.to_owned()));
        })
    }

    /// Waits for the first of them.
    pub(crate) fn wait(&self) -> End {
        // This value holds one sender, so the channel stays open.
        self.receiver.recv().unwrap_or(End::Signal)
    }
}

/// Reports to the service manager, if there is one, that the node serves. From now on it also reports, as often as the manager asks for,
/// that the node is alive: its state can be read.
pub(crate) fn ready(jobs: &Jobs) {
    notify(&[NotifyState::Ready]);
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let jobs = jobs.clone();
    let body = move || {
        loop {
            // An error is reported to the caller that asks for something. A thread that hangs here sends no more, and the manager restarts
            // the node.
            let _ = jobs.replica().reader().last_event();
            notify(&[NotifyState::Watchdog]);
            std::thread::sleep(limit.max(WATCHDOG_LEAST) / 3);
        }
    };
    // Without the thread the manager restarts the node, which is right when the machine lacks threads.
    let _ = std::thread::Builder::new()
        .name("gw-watchdog".to_owned())
        .spawn(body);
}

/// Tells the service manager that the node stops, and no longer answers for its life.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager this fails, which is usual.
    let _ = sd_notify::notify(states);
}

/// Shortest watchdog time that is honoured.
const WATCHDOG_LEAST: Duration = Duration::from_millis(30);
