//! Owns what all event streams share: the number of the newest event, and how far running jobs are.
//! Keeps no events: the state does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::rest::{JobProgress, Timestamp};
use godwit_jobs::progress_of_all;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::app::App;
use crate::server::stopped;

/// Event streams at once: as many pages and scripts as people of a site watch with.
const STREAMS_MAX: usize = 128;

/// How often the progress of running jobs is told.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// After the events could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// What running jobs did in the last second.
type Moved = Arc<Vec<JobProgress>>;

/// What all event streams share.
pub(crate) struct Hub {
    /// Number of the newest event.
    pub(crate) newest: watch::Receiver<u64>,
    /// Running jobs that moved.
    pub(crate) moved: watch::Receiver<Moved>,
    /// A place for each stream.
    pub(crate) places: Arc<Semaphore>,
    newest_sender: watch::Sender<u64>,
    moved_sender: watch::Sender<Moved>,
}

impl Hub {
    /// Streams that are open.
    pub(crate) fn streams(&self) -> usize {
        STREAMS_MAX - self.places.available_permits()
    }

    pub(crate) fn new() -> Self {
        let (newest_sender, newest) = watch::channel(0);
        let (moved_sender, moved) = watch::channel(Moved::default());
        Self {
            newest,
            moved,
            places: Arc::new(Semaphore::new(STREAMS_MAX)),
            newest_sender,
            moved_sender,
        }
    }
}

/// Follows the state until the server stops. Blocks its thread: reading the state does.
pub(crate) fn follow(app: &App, handle: &Handle, mut stopping: watch::Receiver<bool>) {
    let replica = app.jobs.replica();
    let mut follower = replica.follow(app.reader().last_event().unwrap_or(0));
    handle.block_on(async {
        loop {
            let events = tokio::select! {
                events = follower.next() => events,
                () = stopped(&mut stopping) => return,
            };
            match events {
                Ok(events) => {
                    app.metrics.heard(app, &events);
                    app.hub.newest_sender.send_replace(follower.position());
                }
                Err(_missed) => {
                    let last = app.reader().last_event().unwrap_or(0);
                    follower = replica.follow(last);
                    app.hub.newest_sender.send_replace(last);
                    // In this order: a runtime that ends has no clock any more, and whoever asks for it panics.
                    tokio::select! {
                        biased;
                        () = stopped(&mut stopping) => return,
                        () = sleep(PAUSE) => {}
                    }
                }
            }
        }
    });
}

/// Tells the progress of running jobs while anybody listens, until the server stops.
pub(crate) async fn tell_progress(app: Arc<App>, mut stopping: watch::Receiver<bool>) {
    let mut ticks = interval(PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told: HashMap<String, Timestamp> = HashMap::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped(&mut stopping) => return,
        }
        // One receiver is the hub's own.
        if app.hub.moved_sender.receiver_count() <= 1 {
            told.clear();
            continue;
        }
        let running = progress_of_all(&app.jobs);
        let is_new = |one: &&JobProgress| told.get(&one.id) != Some(&one.progress.at);
        let moved: Vec<JobProgress> = running.iter().filter(is_new).cloned().collect();
        told = running
            .into_iter()
            .map(|one| (one.id, one.progress.at))
            .collect();
        if !moved.is_empty() {
            app.hub.moved_sender.send_replace(Arc::new(moved));
        }
    }
}
