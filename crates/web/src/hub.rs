//! Owns the data that all event streams share: their number, the number of the newest event, and the progress of running jobs.
//! Keeps no events: the state does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{JobProgress, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::app::App;
use crate::problem::ApiError;
use crate::server::stopped;
use crate::throttle::Key;

/// Event streams at once: as many pages and scripts as people of a site watch with.
const STREAMS_MAX: usize = 256;

/// Most event streams of one user, and of one token or session with its derivatives. The remaining streams are for others.
const STREAMS_OF_USER_MAX: usize = 32;
const STREAMS_OF_CREDENTIAL_MAX: usize = 16;

/// How often streams report the progress of running jobs.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Pause after the events could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Progress of running jobs in the last second.
type AllProgress = Arc<Vec<JobProgress>>;

/// Key that shares a number of event streams.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Holder {
    Everybody,
    User(String),
    Credential(Key),
}

impl Holder {
    const fn most(&self) -> usize {
        match self {
            Self::Everybody => STREAMS_MAX,
            Self::User(_) => STREAMS_OF_USER_MAX,
            Self::Credential(_) => STREAMS_OF_CREDENTIAL_MAX,
        }
    }
}

/// The place of a stream; released when dropped.
pub(crate) struct StreamPlace {
    streams: Arc<Mutex<HashMap<Holder, usize>>>,
    holders: Vec<Holder>,
}

/// Data that all event streams share.
pub(crate) struct Hub {
    /// Number of the newest event.
    pub(crate) newest: watch::Receiver<u64>,
    /// Running jobs that made progress.
    pub(crate) moved: watch::Receiver<AllProgress>,
    streams: Arc<Mutex<HashMap<Holder, usize>>>,
    newest_sender: watch::Sender<u64>,
    moved_sender: watch::Sender<AllProgress>,
}

impl Hub {
    /// Streams that are open.
    pub(crate) fn streams(&self) -> usize {
        let streams = lock(&self.streams);
        streams.get(&Holder::Everybody).copied().unwrap_or_default()
    }

    /// Reserves a stream for a user, with a token or session if there is one.
    ///
    /// # Errors
    /// The user, the token, or all together have the maximum number of streams.
    pub(crate) fn stream(
        &self,
        user: &str,
        credential: Option<Key>,
    ) -> Result<StreamPlace, ApiError> {
        let mut holders = vec![Holder::Everybody, Holder::User(user.to_owned())];
        holders.extend(credential.map(Holder::Credential));
        let mut streams = lock(&self.streams);
        let is_full = |holder: &&Holder| streams.get(*holder).is_some_and(|n| *n >= holder.most());
        if let Some(full) = holders.iter().find(is_full) {
            return Err(too_many(full));
        }
        for holder in &holders {
            *streams.entry(holder.clone()).or_default() += 1;
        }
        drop(streams);
        Ok(StreamPlace {
            streams: Arc::clone(&self.streams),
            holders,
        })
    }

    pub(crate) fn new() -> Self {
        let (newest_sender, newest) = watch::channel(0);
        let (moved_sender, moved) = watch::channel(AllProgress::default());
        Self {
            newest,
            moved,
            streams: Arc::default(),
            newest_sender,
            moved_sender,
        }
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = lock(&self.streams);
        for holder in &self.holders {
            if let Some(count) = streams.get_mut(holder) {
                *count -= 1;
                if *count == 0 {
                    streams.remove(holder);
                }
            }
        }
    }
}

fn lock(streams: &Mutex<HashMap<Holder, usize>>) -> MutexGuard<'_, HashMap<Holder, usize>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_many(full: &Holder) -> ApiError {
    let most = full.most();
    let (status, whose) = match full {
        Holder::Everybody => (StatusCode::SERVICE_UNAVAILABLE, "this node".to_owned()),
        Holder::User(user) => (StatusCode::TOO_MANY_REQUESTS, user.clone()),
        Holder::Credential(_) => (StatusCode::TOO_MANY_REQUESTS, "this token".to_owned()),
    };
    let detail = format!(
        "{whose} already has {most} event streams, which is the limit; close some, or try again later"
    );
    ApiError::later(status, FailureCode::TooManyStreams, detail, 10)
}

/// Follows the state until the server stops. Blocks its thread on reads of the state.
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
                    app.metrics.count_events(app, &events);
                    app.hub.newest_sender.send_replace(follower.position());
                }
                Err(_missed) => {
                    let last = app.reader().last_event().unwrap_or(0);
                    follower = replica.follow(last);
                    app.hub.newest_sender.send_replace(last);
                    // In this order: a runtime that ends has no clock any more, and using it panics.
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

/// Publishes the progress of running jobs while streams are open, until the server stops.
pub(crate) async fn report_progress(app: Arc<App>, mut stopping: watch::Receiver<bool>) {
    let mut ticks = interval(PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reported: HashMap<String, Timestamp> = HashMap::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped(&mut stopping) => return,
        }
        // One receiver belongs to the hub itself.
        if app.hub.moved_sender.receiver_count() <= 1 {
            reported.clear();
            continue;
        }
        let running = app.run_for(None, |app| Ok(app.jobs.progress_everywhere()));
        let running = running.await.unwrap_or_default();
        let is_new = |one: &&JobProgress| reported.get(&one.id) != Some(&one.progress.at);
        let moved: Vec<JobProgress> = running.iter().filter(is_new).cloned().collect();
        reported = running
            .into_iter()
            .map(|one| (one.id, one.progress.at))
            .collect();
        if !moved.is_empty() {
            app.hub.moved_sender.send_replace(Arc::new(moved));
        }
    }
}
