//! Makes room where the process may open no more handles: kept ones are closed, and those in use are waited for.
//! Does not decide which handles are kept (`fs`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// How long an open waits for handles that are in use: a thread has one for the time of one file.
const PATIENCE: Duration = Duration::from_secs(5);

/// No event reports that a handle was closed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Keeps handles that are unused at the moment.
pub(crate) trait KeepsHandles: Send + Sync {
    /// Closes them.
    fn close_kept(&self);
}

static KEEPERS: Mutex<Vec<Weak<dyn KeepsHandles>>> = Mutex::new(Vec::new());

/// Has the handles of `keeper` closed where they are too many.
pub(crate) fn register(keeper: Weak<dyn KeepsHandles>) {
    let mut keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    keepers.retain(|known| known.strong_count() > 0);
    keepers.push(keeper);
}

/// Closes the handles that are only kept, of all storages of this process.
pub fn close_kept_handles() {
    let keepers: Vec<Arc<dyn KeepsHandles>> = {
        let keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.iter().filter_map(Weak::upgrade).collect()
    };
    for keeper in keepers {
        keeper.close_kept();
    }
}

/// Opens something. Where there are too many handles, closes those that are only kept, and waits for those that are in use.
pub(crate) fn with_room<T>(mut open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut until = None;
    loop {
        match open() {
            Err(error @ (Errno::MFILE | Errno::NFILE)) => {
                close_kept_handles();
                match until {
                    None => until = Some(Instant::now() + PATIENCE),
                    Some(until) if Instant::now() >= until => return Err(error),
                    Some(_) => std::thread::park_timeout(LOOK_EVERY),
                }
            }
            result => return result,
        }
    }
}

/// The same for files that the standard library opens.
///
/// # Errors
/// The errors of `open`.
pub fn open_with_room<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut other = None;
    let opened = with_room(|| {
        open().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            other = Some(error);
            errno
        })
    });
    opened.map_err(|errno| other.take().unwrap_or_else(|| errno.into()))
}
