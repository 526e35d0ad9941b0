//! Owns what a signal that asks the program to end does: the first stops it cleanly, and whoever insists ends it at once.
//! Does not stop anything itself; who works looks at the flag.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;

/// What comes sooner is the same wish once more: a terminal or `timeout` may signal a program and its whole group.
const INSISTS_AFTER: Duration = Duration::from_secs(1);

/// Sets `interrupted` when the program is asked to end, and ends it when it is asked again later.
///
/// # Errors
/// Signals cannot be handled, or no thread can be started.
pub(crate) fn watch(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let interrupted = Arc::clone(interrupted);
    let body = move || {
        let mut first = None;
        for _ in signals.forever() {
            interrupted.store(true, Ordering::Relaxed);
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() >= INSISTS_AFTER {
                signal_hook::low_level::exit(Exit::Interrupted as i32);
            }
        }
    };
    std::thread::Builder::new()
        .name("gw-signals".to_owned())
        .spawn(body)?;
    Ok(())
}
