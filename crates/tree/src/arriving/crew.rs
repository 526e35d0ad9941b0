//! Owns the threads that drain: each file that drains has one, and one more waits for the next file. Chooses no file, and places none.
//!
//! The buffer bounds the number of files that drain, and with it the number of threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use super::place::Failed;
use super::{Due, Queue};

/// The threads look at least this often whether the buffer is closed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Threads that wait for files; others end.
const IDLE_MAX: usize = 3;

/// The work of the threads.
pub trait Drains: Send + Sync + 'static {
    /// Brings a file to its place. The call may take as long as slow storage does.
    ///
    /// # Errors
    /// The file still waits.
    fn place(&self, due: &Due) -> Result<u64, Failed>;

    /// Called now and then by a thread that waits.
    fn look(&self) {}
}

struct Crew<D> {
    queue: Queue,
    drains: D,
    /// Threads that wait for a file.
    idle: AtomicUsize,
}

/// Drains files until the buffer is closed.
///
/// # Errors
/// No thread could be started.
pub fn drain<D: Drains>(queue: Queue, drains: D) -> io::Result<()> {
    let crew = Arc::new(Crew {
        queue,
        drains,
        idle: AtomicUsize::new(0),
    });
    hire(&crew)
}

/// Starts a thread, which counts as idle.
fn hire<D: Drains>(crew: &Arc<Crew<D>>) -> io::Result<()> {
    crew.idle.fetch_add(1, Ordering::SeqCst);
    let own = Arc::clone(crew);
    let started = Builder::new()
        .name("gw-drain".to_owned())
        .spawn(move || work(&own));
    if started.is_err() {
        crew.idle.fetch_sub(1, Ordering::SeqCst);
    }
    started.map(drop)
}

fn work<D: Drains>(crew: &Arc<Crew<D>>) {
    while !crew.queue.is_closed() {
        let due = crew.queue.next(LOOK_EVERY);
        crew.drains.look();
        let Some(due) = due else {
            if ends(&crew.idle) {
                return;
            }
            continue;
        };
        if crew.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Without one more thread, other files wait for this one; each later file tries again.
            let _ = hire(crew);
        }
        let placed = crew.drains.place(&due);
        due.end(placed);
        crew.idle.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether a thread that waits is one too many. Then it counts no more.
fn ends(idle: &AtomicUsize) -> bool {
    let fewer = |idle: usize| (idle > IDLE_MAX).then(|| idle - 1);
    idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
        .is_ok()
}
