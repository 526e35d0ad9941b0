//! Makes room when the process may open no more handles: closes kept handles, and waits for handles in use. Does not decide
//! which handles are kept (`fs`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// How long an open waits for handles in use; a thread holds a handle for the duration of one file.
const PATIENCE: Duration = Duration::from_secs(5);

/// No event reports that a handle was closed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Keeps handles for reuse.
pub(crate) trait HandleCache: Send + Sync {
    /// Closes the kept handles.
    fn close_kept(&self);
}

static KEEPERS: Mutex<Vec<Weak<dyn HandleCache>>> = Mutex::new(Vec::new());

/// Registers `keeper`, whose handles are closed when the process has too many.
pub(crate) fn register(keeper: Weak<dyn HandleCache>) {
    let mut keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    keepers.retain(|known| known.strong_count() > 0);
    keepers.push(keeper);
}

/// Closes the kept handles of all storages of this process.
pub fn close_kept_handles() {
    let keepers: Vec<Arc<dyn HandleCache>> = {
        let keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.iter().filter_map(Weak::upgrade).collect()
    };
    for keeper in keepers {
        keeper.close_kept();
    }
}

/// Calls `open`. If the process has too many handles, closes the kept ones, waits for handles in use, and tries again.
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

/// Calls `open` as `with_room` does, for files that the standard library opens.
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
