//! Owns the threads of a buffer in use: the keeper, which asks the ledger for work, a worker a volume, and the writers. Decides nothing.
//!
//! Each volume has its own worker, so that one that hangs holds up no other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::fill::{Pending, WRITERS_MAX};
use super::flash::Mount;
use super::{Shared, now};
use crate::extent::VolumeIndex;
use crate::health::{Cause, Health};
use crate::ledger::{Action, Drained, Notice};

/// Work that may wait for one volume: a commit, a probe, and the reading of its log.
const WORK_MAX: usize = 4;
/// The keeper looks at least this often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A buffer that closes waits this long for flash. Then it gives up its last extents; slow storage has their data.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AT_END: Duration = Duration::from_millis(5);

/// The threads of a buffer.
pub(super) struct Threads {
    writers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    ending: Arc<Ending>,
}

#[derive(Default)]
struct Ending {
    has_begun: AtomicBool,
    /// Commits under way.
    commits: AtomicU64,
}

/// Starts the threads.
pub(super) fn start(shared: &Arc<Shared>, queue: Receiver<Pending>) -> std::io::Result<Threads> {
    let ending = Arc::new(Ending::default());
    let queue = Arc::new(Mutex::new(queue));
    let (mut writers, mut others) = (Vec::new(), Vec::new());
    let mut workers = Vec::new();
    for index in 0..shared.mounts.len() {
        let (sender, work) = sync_channel(WORK_MAX);
        workers.push(sender);
        let (shared, ending) = (Arc::clone(shared), Arc::clone(&ending));
        let body = move || {
            let Some(mount) = shared.mounts.get(index) else {
                return;
            };
            for action in work {
                act(&shared, mount, &ending, action);
            }
        };
        others.push(Builder::new().name("gw-flash".to_owned()).spawn(body)?);
    }
    for _ in 0..(shared.mounts.len() * 2).min(WRITERS_MAX) {
        let (shared, queue) = (Arc::clone(shared), Arc::clone(&queue));
        let body = move || shared.write_all(&queue);
        writers.push(Builder::new().name("gw-fill".to_owned()).spawn(body)?);
    }
    let (keeping, ends) = (Arc::clone(shared), Arc::clone(&ending));
    let body = move || keep(&keeping, &workers, &ends);
    others.push(Builder::new().name("gw-buffer".to_owned()).spawn(body)?);
    Ok(Threads {
        writers,
        others,
        ending,
    })
}

impl Threads {
    /// Ends the threads: the writers, then the last commits. A thread that hangs in the kernel is left behind.
    pub(super) fn end(self, shared: &Shared) {
        let until = Instant::now() + CLOSES_WITHIN;
        join(self.writers, until);
        self.ending.has_begun.store(true, Ordering::SeqCst);
        drop(shared.lock());
        shared.changed.notify_all();
        join(self.others, until);
    }
}

fn join(threads: Vec<JoinHandle<()>>, until: Instant) {
    for thread in threads {
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK_AT_END);
        }
        if thread.is_finished() {
            // If the thread panicked, the panic was already printed.
            let _ = thread.join();
        }
    }
}

/// Carries actions from the ledger to the workers, and news to the log, until the buffer closes.
fn keep(shared: &Shared, workers: &[SyncSender<Action>], ending: &Ending) {
    let mut ledger = shared.lock();
    loop {
        while let Some(action) = ledger.poll_action(now()) {
            let volume = match &action {
                Action::Commit(commit) => {
                    ending.commits.fetch_add(1, Ordering::SeqCst);
                    commit.volume
                }
                Action::Probe(volume) | Action::Reopen(volume) => *volume,
                Action::Drain(ticket, _) => {
                    // Whole files drain (`drain`), and no extent alone: the settings of the ledger permit none.
                    ledger.handle_drained(now(), *ticket, Drained::TargetFailed);
                    continue;
                }
            };
            let worker = workers.get(usize::from(volume.0));
            // The queue has room: the ledger never gives a volume two pieces of work of one kind at once.
            let sent = worker.is_some_and(|worker| worker.try_send(action).is_ok());
            debug_assert!(sent, "a worker has room");
        }
        let mut news = Vec::new();
        while let Some(notice) = ledger.poll_notice() {
            news.extend(line(shared, &notice));
        }
        if !news.is_empty() {
            drop(ledger);
            news.iter().for_each(|line| (shared.log)(line));
            ledger = shared.lock();
            continue;
        }
        let has_ended = ending.has_begun.load(Ordering::SeqCst);
        if has_ended && ending.commits.load(Ordering::SeqCst) == 0 {
            return;
        }
        let due = ledger.next_due().map(|due| due.saturating_sub(now()));
        let wait = due.unwrap_or(LOOK_EVERY).clamp(LOOK_AT_END, LOOK_EVERY);
        let waited = shared.changed.wait_timeout(ledger, wait);
        ledger = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Does one piece of work on a volume.
fn act(shared: &Shared, mount: &Mount, ending: &Ending, action: Action) {
    match action {
        Action::Commit(commit) => {
            let done = mount.volume().commit(&commit);
            if let Err(error) = &done {
                (shared.log)(&format!("buffer {}: {error}", mount.path.display()));
            }
            let (volume, number) = (commit.volume, commit.number);
            let mut ledger = shared.lock();
            ledger.handle_committed(now(), volume, number, done.is_ok());
            ending.commits.fetch_sub(1, Ordering::SeqCst);
        }
        Action::Probe(volume) => {
            let is_good = mount.volume().probe().is_ok();
            shared.lock().handle_probed(now(), volume, is_good);
        }
        Action::Reopen(volume) => {
            let extents = mount.reopen().ok();
            shared.lock().handle_reopened(volume, extents);
            for (file, what) in mount.volume().arrived() {
                shared.desk.know_again(shared, &file, what);
            }
        }
        Action::Drain(..) => {}
    }
    shared.changed.notify_all();
}

fn line(shared: &Shared, notice: &Notice) -> Option<String> {
    let place = |volume: &VolumeIndex| {
        let mount = shared.mounts.get(usize::from(volume.0));
        mount.map_or_else(String::new, |mount| mount.path.display().to_string())
    };
    match notice {
        Notice::Health(volume, health) => {
            let what = match health {
                Health::Well => "is in use again",
                Health::Slow => "is far slower than usual, and gets one write at a time",
                Health::Out(Cause::Errors) => {
                    "failed several times, and is not used until it answers"
                }
                Health::Out(Cause::Hung) => "does not answer, and is not used until it does",
                Health::Out(Cause::Commit) => {
                    "could not write its log, and is not used until the log is read again"
                }
            };
            Some(format!("buffer {}: it {what}", place(volume)))
        }
        Notice::Lost(span) => Some(format!(
            "buffer: the only copy of {} bytes of {} cannot be read",
            span.bytes, span.file
        )),
        Notice::Granted(_) | Notice::Failed(..) => None,
    }
}
